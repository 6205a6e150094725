"""Judges of the retrieval-noise claims: S07 on its cause, and S08."""

from __future__ import annotations

from experiments import published
from experiments.claims.figures import Figures
from experiments.claims.synthetic import as_good, difference, interval
from experiments.claims.types import Label, Part, Verdict, beyond, combine, near

PEAK, LARGE = 1000.0, 5000.0


def s07(figures: Figures) -> Verdict:
    """The fall of a frozen pool's hit rate, and whether off-topic items cause it.

    The cause is tested by intervention: the pool grows from 1,000 to 5,000 items in its off-topic part only. If
    off-topic items confused the retriever, the hit rate would fall then. Topic precision says the same by observation.
    """
    parts, causes = [], []
    first = None
    for pool in ("preferred", "uniform"):
        cells = {r.x: r for r in figures.all("noise_probe", table="probe", group=pool, measure="hit_rate")}
        peak, large = cells[PEAK], cells[LARGE]
        fall = 1 - (large.mean or 0.0) / (peak.mean or 1.0)
        rising = all((cells[a].mean or 0) < (cells[b].mean or 0) for a, b in ((10.0, 100.0), (100.0, PEAK)))
        parts.append(Part(f"{pool} pool: rises to K = 1,000", rising, f"{cells[10.0].mean:.3f} to {peak.mean:.3f}"))
        parts.append(Part(f"{pool} pool: falls by 55 % at K = 5,000", near(fall, published.CLAIMED_DROP, 0.05),
                          f"{100 * fall:.1f} %"))  # fmt: skip
        every = figures.one("noise_probe", table="causes", group=pool, measure="hit_rate",
                            policy="all items from 1,000 to 5,000")  # fmt: skip
        other = figures.one("noise_probe", table="causes", group=pool, measure="hit_rate",
                            policy="off-topic items from 1,000 to 5,000")  # fmt: skip
        own = figures.one("noise_probe", table="causes", group=pool, measure="hit_rate",
                          policy="on-topic items from 1,000 to 5,000")  # fmt: skip
        topic = figures.one("noise_probe", table="probe", group=pool, measure="topic_precision", x=LARGE)
        share = abs(other.diff or 0.0) / abs(every.diff) if every.diff else 0.0
        causes.append(
            Part(
                f"{pool} pool: off-topic items cause it", beyond(other, -1) if share >= 0.5 else False,
                f"4,000 more items: {difference(every)}; the off-topic ones alone {difference(other)}, the on-topic "
                f"ones alone {difference(own)}; topic precision at K = 5,000 {topic.mean:.4f}",
            )
        )  # fmt: skip
        if first is None:
            first = (share, other)
    assert first is not None
    whole = combine(causes)[0]
    label, condition = combine([*parts, *causes])
    if whole is Label.REFUTED:
        label, condition = Label.REFUTED, ""
    return Verdict(
        label, first[0], "share of the fall that off-topic items cause (preferred pool)", None, condition,
        [*parts, *causes],
        keys=first[1].n,
        note="A claim about a cause stands or falls with the cause. The fall is real for the preferred pool; its cause "
        "are items of the query's own topic that no query finds relevant: they fill the pool after the others.",
    )  # fmt: skip


def s08(figures: Figures) -> Verdict:
    """The stream: above FIFO at every capacity, and the same whatever K."""
    cells = figures.some("noise_stream", table="stream", policy="solar", measure="hit_rate")
    parts = [Part(f"above FIFO at K = {r.x:g}", beyond(r, 1), difference(r)) for r in cells]
    means = [r.mean or 0.0 for r in cells]
    flat = max(means) - min(means) <= 0.01
    parts.append(Part("invariant to K (within .01)", flat, f"{min(means):.3f} to {max(means):.3f}"))
    late = [r for r in cells if r.x is not None and r.x >= 500]
    if len(late) > 1:
        apart = abs((late[0].mean or 0) - (late[-1].mean or 0))
        text = "invariant for K >= 500 (within .005)"
        parts.append(Part(text, apart <= 0.005, f"{late[0].mean:.4f} and {late[-1].mean:.4f}"))
    label, condition = combine(parts)
    last = cells[-1]
    rivals = figures.all("noise_stream", table="stream", measure="hit_rate", x=last.x,
                         policy=("bernoulli", "bernoulli(p=0.1)", "keep_first", "reservoir", "gated_fifo"))  # fmt: skip
    return Verdict(
        label, last.diff, f"SOLAR - FIFO at K = {last.x:g}", interval(last), condition, parts,
        as_good(rivals, last.mean or 0.0, 0.002), keys=last.n,
    )  # fmt: skip
