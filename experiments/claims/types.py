"""What a row of the ledger is."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from experiments.claims.figures import Figures
from experiments.types import Row


class Label(StrEnum):
    """What was found. `NOT_RUN`: the figures that decide it are not stored; `needs` says what would store them."""

    HOLDS = "holds"
    HOLDS_UNDER = "holds under"
    REFUTED = "refuted"
    UNDECIDED = "undecided"
    NOT_RUN = "not run"


@dataclass(frozen=True)
class Part:
    """One sub-verdict: what was asked, whether it holds (None: the interval leaves it open), and the figure."""

    text: str
    holds: bool | None
    figure: str = ""


@dataclass(frozen=True)
class Verdict:
    """What a judge returns.

    condition: under what it holds, with HOLDS_UNDER.    figure, interval, figure_name: the number it rests on.
    parts: sub-verdicts.      controls: what the controls do (admission claims).    note: how to read it.
    controls_too: a control without the mechanism meets the claim as well, so it is no evidence for the mechanism.
    rows: `artefact:row key` of every stored row it was computed from.   keys: replicates behind the figure.
    command: the line that makes the figures.
    """

    label: Label
    figure: float | None = None
    figure_name: str = ""
    interval: tuple[float, float] | None = None
    condition: str = ""
    parts: Sequence[Part] = ()
    controls: str = ""
    note: str = ""
    rows: Sequence[str] = ()
    keys: int | None = None
    sizes: str = ""
    command: str = ""
    controls_too: bool = False


@dataclass(frozen=True)
class Claim:
    """One claim of the papers. text: in our words.  where: in the paper.  judge: computes the verdict from figures."""

    id: str
    text: str
    where: str
    judge: Callable[[Figures], Verdict] = field(repr=False)
    needs: str = ""


def combine(parts: Iterable[Part]) -> tuple[Label, str]:
    """Label and condition of a claim that is the conjunction of its parts.

    holds: every part does.             refuted: some part fails and none holds.
    holds under: some hold, some fail; the condition names those that hold.
    undecided: nothing fails, something is open.
    """
    parts = list(parts)
    good = [p for p in parts if p.holds is True]
    bad = [p for p in parts if p.holds is False]
    if not parts or (not bad and len(good) < len(parts)):
        return Label.UNDECIDED, ""
    if not bad:
        return Label.HOLDS, ""
    if not good:
        return Label.REFUTED, ""
    return Label.HOLDS_UNDER, "; ".join(p.text for p in good)


def sign(row: Row, level: float = 0.05) -> int:
    """1 or -1 if the paired difference leaves out 0 after the table's correction, 0 if it is open."""
    if row.diff is None:
        return 0
    certain = row.p_adjusted is not None and row.p_adjusted < level
    # A difference without any spread has no p value: it is the same number in every replicate.
    certain = certain or (row.p_value is None and row.diff != 0 and row.diff_low == row.diff_high)
    return 0 if not certain else 1 if row.diff > 0 else -1


def beyond(row: Row, wanted: int) -> bool | None:
    """Whether the difference has the wanted sign: True, False if it certainly has the other, None if open."""
    found = sign(row)
    return None if found == 0 else found == wanted


def near(value: float | None, target: float, tolerance: float) -> bool | None:
    """Whether a mean is within `tolerance` of a printed figure."""
    return None if value is None else abs(value - target) <= tolerance + 1e-12
