"""`python -m experiments`."""

import sys

from experiments.cli import guarded

if __name__ == "__main__":
    sys.exit(guarded())
