"""Victim rules: what to replace."""
