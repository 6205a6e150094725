"""Computations that are no sweep. Each module imports only what can change its numbers: its imports are its key."""
