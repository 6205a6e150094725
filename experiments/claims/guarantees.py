"""Judges of what is checked elsewhere (theory, memory plane), and of S27 and S29."""

from __future__ import annotations

from collections.abc import Callable

from experiments.claims.figures import Figures, NotStored
from experiments.claims.types import Label, Part, Verdict, combine

LABELS = {"holds": True, "refuted": False}


def from_results(claim: str, how: str) -> Callable[[Figures], Verdict]:
    """A judge that takes over the check results naming this claim; several results are sub-verdicts."""

    def judge(figures: Figures) -> Verdict:
        results = figures.external(claim)
        if not results:
            raise NotStored(how)
        parts = [
            Part(
                f"{r['id']}: {r.get('claim', '')}".rstrip(": "),
                LABELS.get(str(r["verdict"])),
                f"{r['figure_name']} = {r['figure']:.4g}"
                + (f" [{r['interval'][0]:.4g}, {r['interval'][1]:.4g}]" if r["interval"] else ""),
            )
            for r in results
        ]
        first = results[0]
        if len(results) == 1:
            label, condition = Label(str(first["verdict"])), str(first.get("condition") or "")
        else:
            label, condition = combine(parts)
            partly = [r for r in results if r["verdict"] == "holds under"]
            if partly and label in (Label.UNDECIDED, Label.REFUTED):
                label = Label.HOLDS_UNDER
                condition = "; ".join(str(r.get("condition") or r["id"]) for r in partly)
        interval = tuple(first["interval"]) if first["interval"] else None
        return Verdict(
            label, float(first["figure"]), str(first["figure_name"]), interval, condition, parts,
            note=" ".join(str(r["notes"]) for r in results if r["notes"]), keys=int(first["keys"]),
            sizes=", ".join(f"{k}={v}" for k, v in dict(first.get("sizes") or {}).items()),
        )  # fmt: skip

    return judge


def s27(figures: Figures) -> Verdict:
    """Latency of one decision of the online path, warm."""
    rows = figures.all("latency", table="latency", measure=("p50 (ms)", "p99 (ms)"), x=100.0)
    if not rows:
        raise NotStored("run `python -m experiments run latency`")
    parts = []
    for row in rows:
        low, high = row.low or 0.0, row.high if row.high is not None else float("inf")
        holds = True if high < 1.0 else False if low >= 1.0 else None
        parts.append(Part(f"{row.policy}: {row.measure} < 1", holds, f"{row.mean:.4f} [{low:.4f}, {high:.4f}]"))
    label, condition = combine(parts)
    worst = max((r for r in rows if r.policy.split("(")[0] == "solar"), key=lambda r: r.mean or 0.0, default=rows[0])
    bounds = None if worst.low is None or worst.high is None else (worst.low, worst.high)
    return Verdict(
        label, worst.mean, f"{worst.measure} of {worst.policy} at K = 100", bounds, condition, parts, keys=worst.n,
    )  # fmt: skip


def s29(figures: Figures) -> Verdict:
    """Changes of the cache by the classic policies against T - K."""
    parts = []
    worst = None
    for artefact, table, steps in (
        ("cycling", "cycling", None),
        ("working_set", "working set", 500),
        ("drift", "drift", 600),
    ):
        for row in figures.maybe(artefact, table=table, policy=("fifo", "lru", "lfu", "arc"), measure="switches"):
            if row.capacity is None or row.x is None or row.mean is None or row.group == "zipf":
                continue
            total = steps if steps is not None else int(round(row.x * row.capacity)) * 10
            if total <= row.capacity:
                continue
            changes = row.mean - row.capacity  # the first K fill it
            expected = total - row.capacity
            ratio = changes / expected
            worst = ratio if worst is None else min(worst, ratio)
            name = f"{row.policy} on {artefact}, {row.x_name} = {row.x:g}"
            parts.append(Part(name, changes == expected, f"{changes:.1f} of {expected}"))
    if not parts:
        raise NotStored("run `python -m experiments run cycling`")
    label, condition = combine(parts)
    if label is Label.HOLDS_UNDER:
        exact = sum(p.holds is True for p in parts)
        condition = f"{exact} of {len(parts)} cells: where no arrival is resident already"
    return Verdict(
        label, worst, "smallest share of the T - K steps at which the cache changed", None, condition, parts,
        note="Ids arrive again; an arrival that is resident changes nothing, whatever the policy.",
    )  # fmt: skip
