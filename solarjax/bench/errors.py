"""The one error of this package."""

from __future__ import annotations


class BenchError(ValueError):
    """A measurement that cannot be made as asked, or that measured unequal work; the message says what to change."""
