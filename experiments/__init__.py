"""Experiments: every table and figure of the paper and the claims ledger. Run as `python -m experiments`."""

from experiments.cli import main

__all__ = ["main"]
