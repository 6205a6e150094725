"""Reports from stored results only: nothing here computes a hit rate."""
