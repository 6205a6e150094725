"""What can go wrong that a user can mend."""

from __future__ import annotations

from experiments.types import ExperimentError


class BenchError(ExperimentError):
    """A node that does not answer, a part that is not known, results that are not there; the message says which."""
