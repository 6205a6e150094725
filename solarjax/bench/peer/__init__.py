"""The peer: what a careful user would write instead of the engine, a loop compiled by numba for one core.

One lane after the other, so that a lane's tables stay in the core's cache. `loop.py` is the step every policy shares;
an admission kernel says when to write and an eviction kernel what leaves, as in the engine. Every kernel is plain
Python that numba can compile: a test runs the same source without numba.
"""
