"""Judges of the claims on generated workloads: S01 to S06 and S26."""

from __future__ import annotations

from collections.abc import Sequence

from experiments import published
from experiments.claims.figures import Figures
from experiments.claims.types import Label, Part, Verdict, beyond, combine, near, sign
from experiments.types import Row

CLASSIC = ("lru", "lfu", "arc")
AS_GOOD = "as good without the mechanism"
CONTROLS = ("keep_first", "bernoulli(p=0.1)", "bernoulli", "gated_fifo", "reservoir")


def s01(figures: Figures) -> Verdict:
    """FIFO on cycling: exactly 0 beyond the capacity, .90 at it."""
    cells = figures.some("cycling", table="cycling", policy="fifo", measure="hit_rate")
    parts = []
    for row in cells:
        if row.x is not None and row.x >= 1.5:
            exact = row.mean == 0 and not row.sd
            parts.append(Part(f"0 at m/K = {row.x:g}", exact, f"{row.mean:.4f}, sd {row.sd or 0:.4f}"))
        elif row.x == 1:
            parts.append(Part(".90 at m/K = 1", near(row.mean, 0.9, 0.005), f"{row.mean:.4f}"))
    label, condition = combine(parts)
    top = max((r.mean or 0.0 for r in cells if r.x is not None and r.x >= 1.5), default=None)
    return Verdict(label, top, "largest hit rate at m/K >= 1.5", None, condition, parts, keys=cells[0].n)


def s02(figures: Figures) -> Verdict:
    """LRU against FIFO on cycling."""
    cells = figures.some("cycling", table="cycling", policy="lru", measure="hit_rate")
    parts = []
    for row in cells:
        better = sign(row) > 0
        parts.append(Part(f"no better at m/K = {row.x:g}", not better, difference(row)))
    edge = figures.one("cycling", table="cycling", policy="lru", measure="hit_rate", x=1.0)
    parts.append(Part("worse at m/K = 1", beyond(edge, -1), difference(edge)))
    label, condition = combine(parts)
    return Verdict(
        label, edge.diff, "LRU - FIFO at m/K = 1", interval(edge), condition, parts, keys=edge.n,
        note=f"The printed .377 at m/K = 1 is {edge.agrees or 'not compared'}.",
    )  # fmt: skip


def s03(figures: Figures) -> Verdict:
    """SOLAR-A far beyond its capacity."""
    hit = figures.one("cycling", table="cycling", policy="solar_a", measure="hit_rate", x=5.0)
    rate = figures.one("cycling", table="cycling", policy="solar_a", measure="store_rate", x=5.0)
    parts = [
        Part("hits 16 %", near(hit.mean, 0.16, 0.005), f"{hit.mean:.4f}"),
        Part("stores about 10 %", near(rate.mean, published.CLAIMED_STORE_RATE, 0.02), f"{rate.mean:.4f}"),
    ]
    label, condition = combine(parts)
    rivals = figures.all("cycling", table="cycling", policy=CONTROLS, measure="hit_rate", x=5.0)
    return Verdict(
        label, hit.mean, "hit rate at m/K = 5", (hit.low or 0.0, hit.high or 0.0), condition, parts, keys=hit.n,
        controls=as_good(rivals, hit.mean or 0.0, 0.005),
    )  # fmt: skip


def s04(figures: Figures) -> Verdict:
    """The classics below FIFO: every workload and capacity by itself."""
    places = (
        ("cycling", "cycling"), ("working_set", "working set"), ("drift", "drift"), ("noise_stream", "stream"),
        ("locomo", "locomo"), ("friendsqa", "friendsqa"),
    )  # fmt: skip
    parts = []
    below = total = 0
    for artefact, table in places:
        for policy in CLASSIC:
            rows = figures.maybe(artefact, table=table, policy=policy, measure="hit_rate")
            for group in dict.fromkeys(r.group for r in rows):
                cells = [r for r in rows if r.group == group]
                signs = [sign(r) for r in cells]
                below, total = below + signs.count(-1), total + len(cells)
                holds = False if 1 in signs else True if all(s < 0 for s in signs) else None
                where = f"{policy} on {artefact}" + (f" ({group})" if group else "")
                parts.append(Part(where, holds, spread(cells)))
    if not parts:
        figures.one("cycling", table="cycling", policy="lru", measure="hit_rate", x=1.0)
    absent = [artefact for artefact, _ in places if not figures.has(artefact)]
    label, condition = combine(parts)
    share = below / total if total else None
    return Verdict(
        label, share, f"share of {total} cells certainly below FIFO", None, condition, parts,
        note="A cell is one policy, workload and capacity; certain after Benjamini-Hochberg within its table."
        + (f" Not stored, so not looked at: {', '.join(absent)}." if absent else ""),
    )  # fmt: skip


def s05(figures: Figures) -> Verdict:
    """The working-set sweep's gap of SOLAR-A to FIFO: where it peaks, how high, where it ends."""
    cells = figures.some("working_set", table="working set", group="uniform", policy="solar_a", measure="hit_rate")
    at15 = figures.one(
        "working_set", table="working set", group="uniform", policy="solar_a", measure="hit_rate", x=15.0
    )
    peak = max(cells, key=lambda r: r.diff or 0.0)
    crossing = zero(cells)
    parts = [
        Part("peak at K = 15", peak.x == 15, f"peak at K = {peak.x:g}, {difference(peak)}"),
        Part("+.10 at K = 15", near(at15.diff, published.CLAIMED_GAP_AT_15, 0.005), difference(at15)),
        Part("zero near K = 30 (24 to 36)", crossing is not None and 24 <= crossing <= 36,
             "no crossing" if crossing is None else f"K = {crossing:.1f}"),
    ]  # fmt: skip
    label, condition = combine(parts)
    notes = []
    for policy, what in (
        ("solar_a(fill=free)", "with a free fill"), ("bernoulli(p=0.1)", "a 10 % coin (free fill)"),
        ("keep_first", "never admitting once full"), ("gated_fifo", "the gate with FIFO eviction"),
    ):  # fmt: skip
        rows = figures.all("working_set", table="working set", group="uniform", policy=policy, measure="hit_rate")
        if rows:
            at = zero(rows)
            best = max(rows, key=lambda r: r.diff or 0.0)
            ends = "stays above FIFO" if at is None and min(sign(r) for r in rows) >= 0 else "never above FIFO"
            notes.append(f"{what}: peak {best.diff:+.3f} at K = {best.x:g}, "
                         + (f"zero at K = {at:.0f}" if at is not None else ends))  # fmt: skip
    printed = published.WORKING_SET[("uniform", 15.0, "solar_a", "hit_rate")].value
    fifo = published.WORKING_SET[("uniform", 15.0, "fifo", "hit_rate")].value
    return Verdict(
        label, at15.diff, "SOLAR-A - FIFO at K = 15", interval(at15), condition, parts, "; ".join(notes), keys=at15.n,
        note=f"The paper's own Table 9 gives {printed - fifo:+.3f} at K = 15, its text +.10.",
    )  # fmt: skip


def s06(figures: Figures) -> Verdict:
    """Does the gate cap the cache?"""
    cells = figures.all("working_set", table="working set", group="uniform", policy="solar_a", measure="final_size")
    large = [r for r in cells if r.x is not None and r.x >= 50]
    if not large:
        figures.some(
            "working_set", table="working set", group="uniform", policy="solar_a", measure="final_size", x=100.0
        )
    sizes = [r.mean or 0.0 for r in large]
    parts = [
        Part(f"about 40 items at K = {r.x:g}", near(r.mean, published.CLAIMED_EFFECTIVE_SIZE, 8), f"{r.mean:.1f}")
        for r in large
    ]
    same = max(sizes) - min(sizes) < 1 if len(sizes) > 1 else None
    parts.append(Part("the same for every K >= 50", same, f"{min(sizes):.1f} to {max(sizes):.1f}"))
    longer = figures.maybe("noise_stream", table="stream", policy="solar_a", measure="final_size", x=1000.0)
    text = "about 40 items after 5,000 arrivals instead of 500 (K = 1,000)"
    note = ""
    for row in longer:
        parts.append(Part(text, near(row.mean, published.CLAIMED_EFFECTIVE_SIZE, 8), f"{row.mean:.1f}"))
        if row.mean is not None and row.mean > 2 * max(sizes):
            note = f"A rate, no cap: {max(sizes):.1f} items after 500 arrivals, {row.mean:.1f} after 5,000."
    if not longer:
        parts.append(Part(text, None, "not stored: python -m experiments run noise_stream"))
    label, condition = combine(parts)
    return Verdict(
        label, sizes[-1], f"items at the end, K = {large[-1].x:g}", (large[-1].low or 0.0, large[-1].high or 0.0),
        condition, parts, keys=large[-1].n, note=note,
    )  # fmt: skip


def s26(figures: Figures) -> Verdict:
    """Ageing on drifting topics: the same policy with and without it."""
    cells = figures.some("drift", table="ageing", measure="hit_rate", policy=("solar_e", "solar"))
    parts = [Part(f"{r.policy} gains by ageing at K = {r.x:g}", beyond(r, 1), difference(r)) for r in cells]
    fifo = figures.all("drift", table="drift", measure="hit_rate", policy=("solar_e", "solar"), x=20.0)
    parts += [Part(f"{r.policy} follows as well as FIFO at K = 20", beyond(r, 1), difference(r)) for r in fifo]
    label, condition = combine(parts)
    first = cells[0]
    return Verdict(label, first.diff, f"{first.policy} with - without ageing, K = {first.x:g}", interval(first),
                   condition, parts, keys=first.n)  # fmt: skip


def difference(row: Row) -> str:
    """`+0.123 [0.120, 0.126]`."""
    if row.diff is None:
        return "no difference stored"
    bounds = f" [{row.diff_low:.4f}, {row.diff_high:.4f}]" if row.diff_low is not None else ""
    return f"{row.diff:+.4f}{bounds}"


def interval(row: Row) -> tuple[float, float] | None:
    """The interval of the paired difference."""
    return None if row.diff_low is None or row.diff_high is None else (row.diff_low, row.diff_high)


def spread(cells: Sequence[Row]) -> str:
    """Which cells are below, above or open: `below at 10, 20; above at 50`."""
    names = {-1: "below", 1: "above", 0: "open"}
    parts = []
    for value, name in names.items():
        at = [f"{r.x:g}" for r in cells if sign(r) == value]
        if at:
            parts.append(f"{name} at {cells[0].x_name} = {', '.join(at)}")
    return "; ".join(parts)


def zero(cells: Sequence[Row]) -> float | None:
    """K at which the difference goes from above to below 0, by linear interpolation; None if it never does."""
    points = sorted((r.x, r.diff) for r in cells if r.x is not None and r.diff is not None)
    for (x0, d0), (x1, d1) in zip(points, points[1:], strict=False):
        if d0 > 0 >= d1:
            return x0 + (x1 - x0) * d0 / (d0 - d1)
    return None


def as_good(rivals: Sequence[Row], target: float, slack: float) -> str:
    """A sentence about the controls that do as well."""
    if not rivals:
        return "not stored, so the mechanism is not told from them"
    good = [f"{r.policy} {r.mean:.3f}" for r in rivals if r.mean is not None and r.mean >= target - slack]
    bad = [f"{r.policy} {r.mean:.3f}" for r in rivals if r.mean is not None and r.mean < target - slack]
    if not good:
        return f"no control does as well ({', '.join(bad)})"
    text = f"{AS_GOOD}: {', '.join(good)}; so this is no evidence for it"
    return text + (f" (lower: {', '.join(bad)})" if bad else "")


__all__ = [
    "Label",
    "as_good",
    "difference",
    "interval",
    "s01",
    "s02",
    "s03",
    "s04",
    "s05",
    "s06",
    "s26",
    "spread",
    "zero",
]
