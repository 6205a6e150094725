"""Judges a log of writes and admissions. It knows the rules and nothing of the code under test: no solarjax import.

Log entries (dicts; times are nanoseconds of the system-wide monotonic clock):

  write      epoch, started, acked, target [capsule, version] or None, made [capsule, version], sources [[c, v], ...]
  admission  epoch, started, used [[c, v], ...]; and if it was fenced: fence_started, passed

Rules:
  torn         epoch and versions of an admission do not belong to one state of the catalogue
  stale        an admission that started after a write was acknowledged used what that write ended, or something derived
  fence        a fence that started after a write was acknowledged let pass what that write ended
  lost update  two writes ended the same version, or a capsule's versions are not 1, 2, 3, ...
  order        epochs are not 1, 2, 3, ..., or one write was acknowledged before another one with a smaller epoch began
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable
from typing import Any, NamedTuple


class Verdict(NamedTuple):
    """Violations in words, and how much there was to judge: a log without races proves nothing.

    close: admissions that began within 50 ms after an acknowledged write that ended something they could have used.
    """

    violations: list[str]
    writes: int
    admissions: int
    fenced: int
    refused: int
    close: int


CLOSE_NS = 50_000_000


def check(log: Iterable[dict[str, Any]]) -> Verdict:
    """Applies every rule to a log in any order."""
    log = list(log)
    writes = sorted((e for e in log if e["type"] == "write"), key=lambda e: e["epoch"])
    admissions = [e for e in log if e["type"] == "admission"]
    found = _order(writes) + _lost(writes)
    born, died = _lives(writes)
    acked = {e["epoch"]: e["acked"] for e in writes}
    close = 0
    for e in admissions:
        used = [tuple(ref) for ref in e["used"]]
        passed = e.get("passed", True)
        for ref in used:
            if ref not in born:
                found.append(f"unknown: {e} used {ref}")
                continue
            death = died.get(ref)
            if born[ref] > e["epoch"] or (death is not None and death <= e["epoch"]):
                found.append(f"torn: at epoch {e['epoch']} {ref}, born {born[ref]}, ended {death}")
            if death is not None and acked[death] < e["started"]:
                late = (e["started"] - acked[death]) / 1e6
                found.append(f"stale: {ref} {late:.3f} ms after its end (epoch {death}) was acknowledged")
            if passed and death is not None and "fence_started" in e and acked[death] < e["fence_started"]:
                found.append(f"fence: {ref} passed after its end (epoch {death}) was acknowledged")
    ends = sorted(e["acked"] for e in writes if e["target"] is not None)
    for e in admissions:
        close += _any_within(ends, e["started"] - CLOSE_NS, e["started"])
    return Verdict(
        found, len(writes), len(admissions), sum("fence_started" in e for e in admissions),
        sum(not e.get("passed", True) for e in admissions), close,
    )  # fmt: skip


def _lives(writes: list[dict[str, Any]]) -> tuple[dict[tuple, int], dict[tuple, int]]:
    """Epoch of birth and of death of every version, by following derivations write by write."""
    born: dict[tuple, int] = {}
    died: dict[tuple, int] = {}
    derived: dict[tuple, list[tuple]] = {}
    for e in writes:
        if e["target"] is not None:
            pending = [tuple(e["target"])]
            while pending:
                ref = pending.pop()
                if ref not in died:
                    died[ref] = e["epoch"]
                    pending.extend(derived.get(ref, ()))
        made = tuple(e["made"])
        born[made] = e["epoch"]
        for source in e["sources"]:
            derived.setdefault(tuple(source), []).append(made)
    return born, died


def _order(writes: list[dict[str, Any]]) -> list[str]:
    found = []
    epochs = [e["epoch"] for e in writes]
    if epochs != list(range(1, len(epochs) + 1)):
        found.append(f"order: epochs are not 1 .. {len(epochs)}: {epochs[:20]} ...")
    latest_start = 0
    for e in writes:
        if e["acked"] < latest_start:
            found.append(f"order: epoch {e['epoch']} was acknowledged before one with a smaller epoch began")
        latest_start = max(latest_start, e["started"])
    return found


def _lost(writes: list[dict[str, Any]]) -> list[str]:
    found, targets, newest = [], set(), {}
    for e in writes:
        if e["target"] is not None:
            target = tuple(e["target"])
            if target in targets:
                found.append(f"lost update: {target} was ended twice")
            targets.add(target)
        capsule, version = e["made"]
        if version != newest.get(capsule, 0) + 1:
            found.append(f"lost update: {capsule} went from version {newest.get(capsule, 0)} to {version}")
        newest[capsule] = version
    return found


def _any_within(times: list[int], low: int, high: int) -> bool:
    i = bisect_left(times, low)
    return i < len(times) and times[i] < high
