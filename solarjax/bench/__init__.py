"""How fast this machine runs the engine: against a compiled loop, against the floor, and against itself.

Nothing here is imported by the library; `solarjax bench` and `scripts/bench` load it. The compiled peer needs numba
(extra `bench`); without it the engine is measured alone.
"""
