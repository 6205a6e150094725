"""Policies whose admission and eviction share state."""
