"""Judges of the claims on recorded dialogues, by retrieval: S09 and S21 to S25. Answer F1 enters from the replay."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from experiments import published
from experiments.claims.figures import Figures
from experiments.claims.guarantees import LABELS
from experiments.claims.synthetic import as_good, difference, interval, spread, zero
from experiments.claims.types import Label, Part, Verdict, combine, near, sign
from experiments.types import Row

SOLAR, SOLAR_A = "solar(signal=miss)", "solar_a(signal=miss)"
REPLAY = "replay-"
"""How `scripts/replay/summary.py` begins the ids of a replay's rows."""
CONTROLS = ("bernoulli", "keep_first", "reservoir", "random")
LLM = "Answer F1 needs a live language model: `solarjax replay` makes those rows. Here: retrieval of the evidence."


def s09(figures: Figures) -> Verdict:
    """The admission rate of the release's gate, and of the rule that is printed."""
    parts = []
    first: Row | None = None
    for policy, what in ((SOLAR, "the release's gate"), ("solar_paper(fill=free)", "the printed rule")):
        rows = figures.some("locomo", table="locomo", policy=policy, measure="admission_rate_full")
        smallest = min(row.x for row in rows if row.x is not None)
        for row in (r for r in rows if r.x == smallest):
            first = first or row
            where = f"LoCoMo {row.group}, K = {smallest:g}"
            parts.append(Part(f"{what}: 17 % on {where}", near(row.mean, 0.17, 0.03), rate(row)))
    for artefact, table, x in (("cycling", "cycling", 3.0), ("working_set", "working set", 15.0)):
        for policy, what in (("solar", "the release's gate"), ("solar_paper", "the printed rule")):
            for row in figures.maybe(
                artefact, table=table, policy=policy, measure="admission_rate_full", x=x, group=("", "uniform")
            ):
                parts.append(Part(f"{what}: 17 % on {artefact}", near(row.mean, 0.17, 0.03), rate(row)))
    label, condition = combine(parts)
    assert first is not None, "figures.some raises before"
    return Verdict(
        label, first.mean, f"admissions per new arrival once full, {first.group}, K = {first.x:g}",
        (first.low or 0.0, first.high or 0.0), condition, parts, keys=first.n,
        controls="a coin admits at any rate it is told; the rate itself is no evidence for the gate",
        note="17 % is met within .03. How often a gate fires depends on how many items arrive per question.",
    )  # fmt: skip


def s21(figures: Figures) -> Verdict:
    """Super-additivity: the excess of the joint gain, per workload and capacity."""
    cells = figures.some("ablation", table="synergy", measure="excess")
    parts = []
    for name in dict.fromkeys(r.policy for r in cells):
        for group in dict.fromkeys(r.group for r in cells):
            rows = [r for r in cells if r.policy == name and r.group == group]
            signs = [sign(r) for r in rows]
            holds = False if -1 in signs else True if all(s > 0 for s in signs) else None
            kind = "A" if name.startswith("as the paper") else "factorial"
            parts.append(
                Part(f"{group} ({kind})", holds, spread(rows).replace("below", "negative").replace("above", "positive"))
            )
    label, condition = combine(parts)
    head = [r for r in cells if r.group.startswith("LoCoMo") and r.x == 50] or [cells[0]]
    f1 = published.ANSWER_F1
    base = f1["locomo", 50, "fifo"]
    sums = f1["locomo", 50, "solar_e"] - base + f1["locomo", 50, "solar_a"] - base
    both = f1["locomo", 50, "solar"] - base
    return with_replay(figures, "S21", Verdict(
        label, head[0].diff, f"excess on {head[0].group}, K = {head[0].x:g}", interval(head[0]), condition, parts,
        keys=head[0].n,
        note=f"The paper: {both:+.3f} against {sums:+.3f} answer F1 at K = 50, three seeds, no interval. {LLM}",
    ))  # fmt: skip


def s22(figures: Figures) -> Verdict:
    """SOLAR above FIFO at every K <= 50 on LoCoMo, most at K = 10."""
    rows = figures.some("locomo", table="locomo", policy=SOLAR, measure="hit_rate")
    parts, notes = [], []
    for group in dict.fromkeys(r.group for r in rows):
        cells = [r for r in rows if r.group == group and r.x is not None and r.x <= 50]
        signs = [sign(r) for r in cells]
        holds = False if -1 in signs else True if all(s > 0 for s in signs) else None
        parts.append(
            Part(f"{group}: above FIFO at every K <= 50", holds, "; ".join(f"K={r.x:g} {difference(r)}" for r in cells))
        )
        at10 = [r for r in cells if r.x == 10]
        best = max(cells, key=lambda r: r.diff or 0.0)
        most = best.x == 10 and sign(best) > 0 if at10 else None  # a reduced run may lack K = 10
        parts.append(Part(f"{group}: most at K = 10", most, f"most at K = {best.x:g}: {difference(best)}"))
        rivals = figures.all("locomo", table="locomo", policy=CONTROLS, measure="hit_rate", group=group, x=10.0)
        if holds and at10:
            notes.append(f"{group}, K = 10: {as_good(rivals, at10[0].mean or 0.0, 0.005)}")
    label, condition = combine(parts)
    first = rows[0]
    reach = [r.detectable for r in rows if r.detectable is not None]
    power = ""
    if reach:
        found = f"{min(reach):.3f} to {max(reach):.3f}"
        power = f"Power: with {first.n} conversations differences of {found}, by cell, are found with probability .8."
    return with_replay(figures, "S22", Verdict(
        label, first.diff, f"SOLAR - FIFO, {first.group}, K = {first.x:g}", interval(first), condition, parts,
        "; ".join(notes), f"{LLM} {power}", keys=first.n,
    ))  # fmt: skip


def s23(figures: Figures) -> Verdict:
    """LRU, LFU and ARC below FIFO on LoCoMo at K = 20 and 50."""
    rows = figures.all("locomo", table="locomo", policy=("lru", "lfu", "arc"), measure="hit_rate", x=(20.0, 50.0))
    if not rows:
        figures.one("locomo", table="locomo", policy="lru", measure="hit_rate", x=50.0)
    parts = []
    for policy in ("lru", "lfu", "arc"):
        for group in dict.fromkeys(r.group for r in rows):
            cells = [r for r in rows if r.policy == policy and r.group == group]
            signs = [sign(r) for r in cells]
            holds = False if 1 in signs else True if all(s < 0 for s in signs) else None
            parts.append(Part(f"{policy}, {group}", holds, "; ".join(f"K={r.x:g} {difference(r)}" for r in cells)))
    label, condition = combine(parts)
    share = sum(sign(r) < 0 for r in rows) / len(rows)
    return with_replay(figures, "S23", Verdict(
        label, share, f"share of {len(rows)} cells certainly below FIFO", None, condition, parts, note=LLM,
        keys=rows[0].n,
    ))  # fmt: skip


def s24(figures: Figures) -> Verdict:
    """The capacity at which SOLAR's gap to FIFO changes sign on the real streams."""
    parts = []
    found: list[float] = []
    for artefact in ("locomo", "friendsqa"):
        rows = figures.some(artefact, table=artefact, policy=SOLAR, measure="hit_rate") if artefact == "locomo" else (
            figures.maybe(artefact, table=artefact, policy=SOLAR, measure="hit_rate"))  # fmt: skip
        for group in dict.fromkeys(r.group for r in rows):
            cells = [r for r in rows if r.group == group]
            at = zero(cells)
            found += [] if at is None else [at]
            parts.append(Part(f"{artefact} {group}: between K = 50 and 100", at is not None and 50 <= at <= 100,
                              "no transition" if at is None else f"K = {at:.0f}"))  # fmt: skip
    scale = figures.maybe("sensitivity", table="transition")
    for row in scale:
        low, high = row.diff_low or 0.0, row.diff_high or 0.0
        grows = True if low > 0 else False if high < 0 else None
        parts.append(Part(f"K* grows with the working set ({row.policy})", grows, f"exponent {difference(row)}"))
    label, condition = combine(parts)
    return with_replay(figures, "S24", Verdict(
        label, found[0] if found else None, "first transition found", None, condition, parts,
        note=f"{LLM} A transition is a change of the mean from above to below FIFO.",
    ))  # fmt: skip


def s25(figures: Figures) -> Verdict:
    """SOLAR's slope against every other policy's, paired."""
    rows = figures.some("learning", table="slope against SOLAR", measure="learning_slope")
    online = [
        r for r in rows if r.policy != SOLAR and r.policy not in ("unlimited", "oracle_cover") and r.x is not None
    ]
    online = [r for r in online if r.x in (10.0, 20.0, 50.0)]
    parts = []
    for group in dict.fromkeys(r.group for r in online):
        for x in dict.fromkeys(r.x for r in online):
            cells = [r for r in online if r.group == group and r.x == x]
            steeper = [r.policy for r in cells if sign(r) > 0]
            holds = False if steeper else True if all(sign(r) < 0 for r in cells) else None
            text = f"steeper: {', '.join(steeper)}" if steeper else "none certainly steeper"
            parts.append(Part(f"steepest in {group} at K = {x:g}", holds, text))
    label, condition = combine(parts)
    own = figures.some("learning", table="slope", policy=SOLAR, measure="learning_slope")[0]
    return with_replay(figures, "S25", Verdict(
        label, own.diff, f"slope of SOLAR less FIFO's, {own.group}, K = {own.x:g}", interval(own), condition, parts,
        keys=own.n, note=f"Hits per question. {LLM}",
    ))  # fmt: skip


def rate(row: Row) -> str:
    """`0.170 [0.160, 0.180]`."""
    return f"{row.mean:.3f}" + (f" [{row.low:.3f}, {row.high:.3f}]" if row.low is not None else "")


def with_replay(figures: Figures, claim: str, own: Verdict) -> Verdict:
    """The verdict with rows from outside that name the claim as further parts, where there are any.

    Rows of a replay are told by their id; what each says of its model and its power is added to the note, once.
    """
    results = figures.external(claim)
    if not results:
        return own
    extra = [
        Part(("answer F1: " if str(r["id"]).startswith(REPLAY) else "") + str(r["id"]),
             LABELS.get(str(r["verdict"])),
             f"{r['figure_name']} {r['figure']:.4g} {r['interval'] or ''}")
        for r in results
    ]  # fmt: skip
    parts: Sequence[Part] = [*own.parts, *extra]
    label, condition = combine(parts)
    notes = dict.fromkeys(n for n in (own.note, *(str(r.get("notes") or "") for r in results)) if n)
    return replace(own, label=label, condition=condition, parts=parts, note=" ".join(notes))


__all__ = ["Label", "s09", "s21", "s22", "s23", "s24", "s25"]
