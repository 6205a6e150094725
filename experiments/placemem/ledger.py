"""Rows P01 to P07 of the claims ledger, computed from the stored figures and from nothing else.

Each is a `theory.results.CheckResult`, the form that `python -m experiments ledger --rows FILE` takes over. A claim
that says several things has several rows, which become its sub-verdicts. A part that was not run gives no row.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from experiments.placemem.figures import TURNS, Figures, Lacking, at_least, result
from experiments.placemem.table import LONG, Row
from theory.results import CheckResult, Verdict

CUT = 0.61
"""P01: mean TTFT falls by 61 to 63 %; judged is whether it falls by that much at least."""
PUBLISHED_STALE = 17
PUBLISHED_INVALIDATION_MS = 1.09
PUBLISHED_SLOWER = 0.75
EQUAL_TTFT = 0.05
"""P04: 'at no TTFT cost' (20.54 ms against 20.73) is taken as within 5 %."""
DEPLOYMENT = 340, 3
PROBES = 27
"""Answers after corrections in the published probe: 9 in each of 3 families. Fewer are a condition of the verdict."""
REUSE, BASE = ("no_invalidation", "full"), "prompt_only"
FOLLOWS = "follows correction"
"""The probe's answer: which of the old and the new value the model gives when it can give only one of them."""

HOT = ("close", "kept")
"""What a run of the hot path must have had to be a trial of it."""

Judge = Callable[[Figures], CheckResult]


def results(parts: Mapping[str, Mapping[str, Any]]) -> list[CheckResult]:
    """All rows that the stored figures allow, in the order of the claims."""
    figures = Figures(parts)
    found = []
    for judge in JUDGES:
        try:
            found.append(judge(figures))
        except Lacking:
            continue
    return found


def _p01(table: str, measure: str, backend: str) -> Judge:
    def judge(figures: Figures) -> CheckResult:
        # The claim is about both, so the lesser cut decides.
        row = max((figures.one(table, c, measure, BASE) for c in REUSE), key=lambda r: r.value or 0.0)
        assert row.value is not None
        cut = Row(**{**vars(row), "value": -row.value, "low": _minus(row.high), "high": _minus(row.low)})
        rivals = {c: figures.maybe(table, c, measure, BASE) for c in ("text_cache", "text_hash")}
        return result(
            figures, table, f"p01-{backend}", "P01", f"reuse cuts mean TTFT by at least 61 % ({backend})",
            at_least(cut, CUT), row, "share", predicted=0.62, sign=-1.0,
            notes=f"Prompts of {figures.maybe(table, 'full', 'prompt tokens')} tokens; of {LONG} or more: "
            f"{figures.maybe(table, 'full', f'{measure}, long prompts', BASE)}. "
            "Without a plane, texts with the engine's prefix cache on change it by "
            f"{rivals['text_cache']} (round robin) and {rivals['text_hash']} (consistent hashing).",
        )  # fmt: skip

    return judge


def _minus(value: float | None) -> float | None:
    return None if value is None else -value


def _p02(table: str) -> Judge:
    def judge(figures: Figures) -> CheckResult:
        without = figures.one(table, "no_invalidation", "stale selections")
        full = figures.value(table, "full", "stale selections")
        verdict, condition = Verdict.REFUTED, None
        if full == 0 and without.value:
            same = without.value == PUBLISHED_STALE
            verdict = Verdict.HOLDS if same else Verdict.HOLDS_UNDER
            condition = None if same else f"the count is the trace's, which was not published: {without.value:.0f} here"
        texts = figures.maybe(table, "text_cache", "stale selections")
        return result(
            figures, table, f"p02-{table}", "P02", f"stale selections without invalidation, none with it ({table})",
            verdict, without, "turns", predicted=float(PUBLISHED_STALE), condition=condition,
            notes=f"With invalidation {full:.0f}. A store of texts: {texts}, all through what was derived.",
        )  # fmt: skip

    return judge


def _p03(measure: str, name: str) -> Judge:
    def judge(figures: Figures) -> CheckResult:
        row = figures.one("invalidation", "1 dependants", measure)
        low, high = (row.value if bound is None else bound for bound in (row.low, row.high))
        assert low is not None and high is not None
        limit = PUBLISHED_INVALIDATION_MS
        verdict = Verdict.HOLDS if high <= limit else Verdict.REFUTED if low > limit else Verdict.UNDECIDED
        wall, cpu = (figures.value("invalidation", "1 dependants", f"correction {kind}ms") for kind in ("", "CPU "))
        typical = ("1 dependants", "1 dependants, synchronous normal")
        median, unforced = (figures.maybe("invalidation", name, "median correction ms") for name in typical)
        curve = ", ".join(
            f"{n:,}: {figures.maybe('invalidation', f'{n} dependants', measure)}" for n in (0, 10, 1000, 100_000)
        )  # fmt: skip
        return result(
            figures, "invalidation", f"p03-{name}", "P03", f"a correction costs at most 1.09 ms ({name})", verdict, row,
            "ms", predicted=limit,
            notes=f"By dependants, ms: {curve}. Wall time is {wall / cpu:.1f} times CPU time: forcing to disk, and "
            f"what else ran; median {median}, not forced (synchronous normal) {unforced}.",
        )  # fmt: skip

    return judge


def _enough(verdict: Verdict, row: Row) -> tuple[Verdict, str | None]:
    """A verdict on answers that are fewer than the published ones holds under that condition only."""
    if verdict is Verdict.HOLDS and row.n < PROBES:
        return Verdict.HOLDS_UNDER, f"{row.n} answers; the published probe has {PROBES}"
    return verdict, None


def _free(figures: Figures, condition: str) -> str:
    """What the same model copied when it could answer anything."""
    said = figures.maybe("probe", condition, "right after")
    return f"Chosen between the old and the new value. Right in free text, as far as that was looked at: {said}."


def _p04_without(figures: Figures) -> CheckResult:
    row = figures.one("probe", "no_invalidation", FOLLOWS)
    found = Verdict.HOLDS if row.value == 0 else Verdict.REFUTED if (row.low or 0) > 0.05 else Verdict.UNDECIDED
    verdict, condition = _enough(found, row)
    return result(figures, "probe", "p04-without", "P04", "without invalidation no answer is right", verdict, row,
                   "share", predicted=0.0, condition=condition, notes=_free(figures, "no_invalidation"))  # fmt: skip


def _p04_full(figures: Figures) -> CheckResult:
    row = figures.one("probe", "full", FOLLOWS)
    found = Verdict.HOLDS if row.value == 1 else Verdict.REFUTED if (row.high or 0) < 0.95 else Verdict.UNDECIDED
    verdict, condition = _enough(found, row)
    return result(figures, "probe", "p04-full", "P04", "with the plane every answer is right", verdict, row, "share",
                   predicted=1.0, condition=condition, notes=_free(figures, "full"))  # fmt: skip


def _p04_cost(measure: str, name: str) -> Judge:
    def judge(figures: Figures) -> CheckResult:
        row = figures.one("probe", "full", measure, "no_invalidation")
        assert row.value is not None
        low, high = (row.value if bound is None else bound for bound in (row.low, row.high))
        inside, outside = -EQUAL_TTFT <= low and high <= EQUAL_TTFT, low > EQUAL_TTFT
        verdict = Verdict.HOLDS if inside else Verdict.REFUTED if outside else Verdict.UNDECIDED
        if high < -EQUAL_TTFT:
            verdict = Verdict.HOLDS  # cheaper costs nothing
        if row.n < TURNS:
            verdict = Verdict.UNDECIDED
        return result(figures, "probe", f"p04-{name}", "P04", f"invalidation costs at most 5 % of TTFT ({name})",
                       verdict, row, "share", predicted=0.0)  # fmt: skip

    return judge


def _p05_accuracy(figures: Figures) -> CheckResult:
    row = figures.one("probe", "text_no_cache", FOLLOWS)
    full = figures.value("probe", "full", FOLLOWS)
    assert row.value is not None
    apart = (row.high is not None and row.high < full) or (row.low is not None and row.low > full)
    found = Verdict.REFUTED if apart else Verdict.HOLDS if row.value >= full else Verdict.UNDECIDED
    verdict, condition = _enough(found, row)
    return result(figures, "probe", "p05-accuracy", "P05", "texts without reuse are as accurate", verdict, row,
                   "share", predicted=1.0, condition=condition, notes=f"The plane: {full:.3g}.")  # fmt: skip


def _p05_slower(condition: str, name: str) -> Judge:
    def judge(figures: Figures) -> CheckResult:
        row = figures.one("probe", condition, "TTFT ms change", "full")
        return result(figures, "probe", f"p05-{name}", "P05", f"texts are at least 75 % slower ({name})",
                       at_least(row, PUBLISHED_SLOWER), row, "share", predicted=PUBLISHED_SLOWER)  # fmt: skip

    return judge


def _p06(figures: Figures) -> CheckResult:
    row = figures.one("deployment", "full", "TTFT ms")
    turns, repeats = DEPLOYMENT
    done, config = row.n, figures.parts["deployment"]["config"]
    enough = done >= turns * repeats and config["turns"] >= turns
    counted = Row("deployment", "all", "full", "turns answered", float(done), None, None, done)
    verdict = Verdict.HOLDS if enough else Verdict.HOLDS_UNDER if done else Verdict.REFUTED
    condition = None if enough else f"{done} turns of {turns * repeats} were run"
    exact = figures.maybe("deployment", "full", "predictions exact")
    stale = figures.maybe("deployment", "full", "stale selections")
    return result(
        figures, "deployment", "p06", "P06", "the plane runs end to end on real vLLM", verdict, counted, "turns",
        predicted=float(turns * repeats), condition=condition,
        notes=f"Mean TTFT {row.value:.4g} ms, predictions exact {exact}, stale selections {stale}.",
    )  # fmt: skip


def _p07(figures: Figures) -> CheckResult:
    """Judged by the path and database with most violations; SQLite's figures carry no name."""
    more = figures.parts.get("concurrency", {"config": {}})["config"].get("databases", ())[1:]
    where = ["", *(f", {name}" for name in more)]
    runs = [figures.one("concurrency", f"snapshot{on}", "violations") for on in where]
    hot = [row for on in where if (row := figures.find("concurrency", f"hot{on}", "violations")) is not None]
    row = max([*runs, *hot], key=lambda r: r.value or 0.0)
    close = [figures.value("concurrency", f"snapshot{on}", "close") for on in where]
    caught = [figures.value("concurrency", mode + on, "violations") for on in where for mode in ("ttl", "two_reads")]
    decisive = min(caught) > 0 and min(close) > 0
    condition = None if len(hot) == len(where) else "the sidecar's own path (`hot`) was not run on every database"
    if condition is None:  # a hot path that kept nothing, or met no correction, was not tried
        decisive &= all(figures.value("concurrency", f"hot{on}", name) > 0 for on in where for name in HOT)
    holds = Verdict.HOLDS if condition is None else Verdict.HOLDS_UNDER
    verdict = Verdict.REFUTED if row.value else holds if decisive else Verdict.UNDECIDED
    return result(
        figures, "concurrency", "p07", "P07", "no admission after a correction uses what it ended", verdict, row,
        "violations", predicted=0.0, condition=condition if verdict is Verdict.HOLDS_UNDER else None,
        notes="; ".join(
            f"{on.removeprefix(', ') or 'sqlite'}: {run.n} admissions, {near:.0f} within 50 ms after a correction; "
            f"{_hot(figures, on)}the checker finds {ttl:.0f} violations of a TTL cache and {torn:.0f} of two separate "
            "reads"
            for on, run, near, ttl, torn in zip(where, runs, close, caught[::2], caught[1::2], strict=True)
        ) + ".",
    )  # fmt: skip


def _hot(figures: Figures, on: str) -> str:
    row = figures.find("concurrency", f"hot{on}", "violations")
    if row is None:
        return ""
    near, kept = (figures.value("concurrency", f"hot{on}", name) for name in HOT)
    return f"by the sidecar's path {row.n}, {near:.0f} and {kept:.0f} from what it had kept; "


JUDGES: tuple[Judge, ...] = (
    _p01("pilot", "modelled TTFT ms change", "scripted engine, modelled"),
    _p01("probe", "TTFT ms change", "vLLM"),
    _p02("pilot"), _p02("trace"),
    _p03("correction ms", "wall time"), _p03("correction CPU ms", "CPU time"),
    _p04_without, _p04_full, _p04_cost("TTFT ms change", "wall time"), _p04_cost("engine CPU ms change", "CPU time"),
    _p05_accuracy, _p05_slower("text_no_cache", "no prefix cache"), _p05_slower("text_cache", "prefix cache on"),
    _p06, _p07,
)  # fmt: skip
