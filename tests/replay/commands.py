"""`solarjax replay` as a call: the exit code of a command line, and its usual options."""

from solarjax.cli.errors import run_guarded
from solarjax.cli.main import app
from tests.replay.stand_in import MODEL


def call(*words):
    return run_guarded(lambda: app([str(word) for word in words], standalone_mode=False))


def options(path, **given):
    given = {"policies": "fifo,solar", "capacities": 2, "seeds": 1, "warmup": 0.5, "model": MODEL} | given
    return ["replay", "--jsonl", path, *(word for k, v in given.items() for word in (f"--{k.replace('_', '-')}", v))]
