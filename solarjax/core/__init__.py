"""The engine: store, lookup, step contract, random numbers and sweeps."""
