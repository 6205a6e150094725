"""One line of the benchmark's journal, as the tests of its figures and verdicts write it."""


def turn(condition, number, **fields):
    """A turn of the family `support` after a correction, answered rightly; `fields` replace what is said here."""
    given = {"type": "turn", "repeat": 0, "family": "support", "number": number, "condition": condition,
             "wants": "fact", "after": True, "ttft_ms": 100.0, "engine_ms": 90.0, "plane_ms": 2.0,
             "prompt_tokens": 1000, "cached": 500, "predicted": 500, "right": True, "old": False,
             "follows": None, "stale": False}  # fmt: skip
    return {**given, **fields}
