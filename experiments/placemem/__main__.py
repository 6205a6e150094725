"""`python -m experiments.placemem`."""

import sys

from experiments.placemem.cli import guarded

if __name__ == "__main__":
    sys.exit(guarded())
