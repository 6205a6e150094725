"""How the suite is spread over workers (tests/support/scheduling.py)."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

from tests.support.scheduling import LONGEST, VLLM, longest_first, unit_of

ROOT = Path(__file__).resolve().parents[2]


def test_the_longest_units_exist_and_are_named_once() -> None:
    """A file that was renamed would silently lose its place."""
    assert [unit for unit in LONGEST if not (ROOT / unit).exists()] == []
    assert len(set(LONGEST)) == len(LONGEST)


def test_files_are_units_but_for_those_that_share_a_server() -> None:
    assert unit_of("tests/unit/test_report.py::test_x[a::b]") == "tests/unit/test_report.py"
    assert {unit_of(f"{VLLM}/test_{name}.py::test_x") for name in "ab"} == {VLLM}


def test_longest_first_keeps_the_order_otherwise() -> None:
    second, first = LONGEST[1], f"{VLLM}/test_a.py"
    names = ["tests/a.py::1", f"{second}::1", "tests/b.py::1", f"{first}::2", f"{second}::2", f"{first}::1"]
    got = [item.nodeid for item in longest_first([SimpleNamespace(nodeid=name) for name in names])]
    assert got == [f"{first}::2", f"{first}::1", f"{second}::1", f"{second}::2", "tests/a.py::1", "tests/b.py::1"]
