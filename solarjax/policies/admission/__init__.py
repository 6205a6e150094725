"""Admission rules: when to write."""
