"""Summaries of results: intervals, paired differences, curves."""
