"""What a user of this package can mend."""

from __future__ import annotations


class TheoryError(ValueError):
    """Wrong input; the message names the value and says what is allowed."""
