"""What an experiment is made of. No algorithms here.

An `Artefact` says what to compute (`plan`), how results become tidy rows (`rows`) and what of them is shown (`views`).
Computing, storing, statistics and rendering are the framework's.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

from solarjax.cli.errors import UserError

if TYPE_CHECKING:
    import xarray as xr


class ExperimentError(UserError):
    """Something the user can mend: an unknown id, a folder that cannot be used, stored rows that are damaged."""


class Missing(Exception):
    """What an artefact needs is not on this machine; the message says what, and how to get it."""


@dataclass(frozen=True)
class Context:
    """How much to compute, and from what.

    quick: fewer seeds and settings, marked as such on the page.
    data: data folder, None to search as the library does.
    seeds: overrides the number of seeds everywhere (a trial).
    """

    quick: bool = False
    data: Path | None = None
    seeds: int | None = None

    @property
    def synthetic_seeds(self) -> tuple[int, ...]:
        """Seeds of generated workloads: 1,000, quick 200."""
        return tuple(range(self.seeds or (200 if self.quick else 1000)))

    @property
    def recorded_seeds(self) -> tuple[int, ...]:
        """Seeds of recorded data (order of a protocol, randomness of a policy): 100, quick 10."""
        return tuple(range(self.seeds or (10 if self.quick else 100)))

    def files(self, dataset: str) -> tuple[Path, ...]:
        """The files of a public data set.

        Raises:
          Missing: they are not there; the message says where to get them.
        """
        from solarjax.core.trace import TraceError
        from solarjax.traces.datasets import find

        try:
            return find(dataset, self.data)
        except TraceError as problem:
            raise Missing(str(problem)) from None

    def encoder(self) -> None:
        """Raises `Missing` if texts cannot be encoded here."""
        from solarjax.encoders.weights import EncoderError, locate

        try:
            locate()
        except EncoderError as problem:
            raise Missing(str(problem)) from None


@dataclass(frozen=True)
class Measurement:
    """A computation that is no sweep.

    config: JSON-able; decides the numbers.
    function: takes `config`, returns a Dataset; at module level, because its module's imports are part of the key.
    """

    config: Mapping[str, Any]
    function: Callable[[Mapping[str, Any]], xr.Dataset]


Entry = "Job | Measurement"
Plan = Mapping[str, Any]
Results = Mapping[str, "xr.Dataset"]


@dataclass(frozen=True)
class Row:
    """One stored figure. None: not defined here.

    table: which table of the artefact.     group: a setting (`uniform`, `P2 mean=30`), '' if there is one only.
    x_name, x: the column (`K`, `m/K`).     policy: label of the row.         measure: name of the variable.
    mean, sd, low, high, n, unit: over `n` replicates, each a `unit` (seed or trace); Student t 95 % interval.
    baseline, diff, diff_low, diff_high: paired difference to a policy; bootstrap 95 % interval over replicates.
    p_value, p_adjusted: paired t test; Benjamini-Hochberg within (table, measure).
    effect: Cohen's d_z.                     better: share of replicates above the baseline, a tie counts half.
    detectable: difference that a paired t test at 5 % with this sd and n finds with probability .8.
    published, published_decimals: the paper's figure.    gap, gap_low, gap_high: ours - published with its interval.
    gap_p: two-sided p of no difference, Holm-adjusted over the artefact.
    agrees: `reproduced`, `borderline` or `not reproduced`, see `statistics.compare`.
    entry: the plan entry the figure comes from; its command is in the artefact's provenance.
    """

    table: str
    policy: str
    measure: str
    mean: float | None
    group: str = ""
    x_name: str = ""
    x: float | None = None
    capacity: int | None = None
    sd: float | None = None
    low: float | None = None
    high: float | None = None
    n: int | None = None
    unit: str = ""
    baseline: str = ""
    diff: float | None = None
    diff_low: float | None = None
    diff_high: float | None = None
    p_value: float | None = None
    p_adjusted: float | None = None
    effect: float | None = None
    better: float | None = None
    detectable: float | None = None
    published: float | None = None
    published_decimals: int | None = None
    gap: float | None = None
    gap_low: float | None = None
    gap_high: float | None = None
    gap_p: float | None = None
    agrees: str = ""
    entry: str = ""

    @property
    def key(self) -> str:
        """Unique within an artefact."""
        x = "" if self.x is None else f"{self.x:g}"
        return "/".join((self.table, self.group, x, self.policy, self.measure))


ROW_FIELDS = {f.name: str(f.type) for f in fields(Row)}


@dataclass(frozen=True)
class Published:
    """A figure of the paper as printed. decimals: digits printed, so its rounding is known.  note: where, in words."""

    value: float
    decimals: int = 3
    note: str = ""


PublishedKey = tuple[str, float | None, str, str]
"""(group, x, policy, measure)."""


@dataclass(frozen=True)
class View:
    """What is shown of an artefact.

    table, measure: which rows.     title: heading.     figure: draw it against x as well.
    heat: draw it as a heat map (lines are policies, columns are x) instead of as curves.
    compare: also the table of paired differences.       note: a remark below.
    drawn: policies in the figure where the table holds too many to tell apart; () for all.
    """

    table: str
    measure: str
    title: str
    figure: bool = True
    compare: bool = True
    note: str = ""
    heat: bool = False
    drawn: tuple[str, ...] = ()


@dataclass(frozen=True)
class Artefact:
    """One table or figure of the paper, or a study of ours.

    id: file name and anchor.         title: heading.      source: table or figure it reproduces, or 'beyond the paper'.
    plan, rows: see the module.       views: what is shown, in order.
    published: figures to compare with.                    claims: ledger rows it serves.
    summary: what was done and how to read it.             quick: whether a quick run makes it.
    explain: (row, stored rows of the artefact) -> why a published cell is not reproduced, '' if it cannot say.
    absent: why published figures have no row of ours, where they never can.      published_x: what their x is.
    alone: it measures time, so nothing else of ours may run beside it.
    """

    id: str
    title: str
    source: str
    plan: Callable[[Context], Plan]
    rows: Callable[[Results], list[Row]]
    views: Sequence[View]
    summary: str = ""
    published: Mapping[PublishedKey, Published] = field(default_factory=dict)
    explain: Callable[[Row, Sequence[Row]], str] | None = None
    absent: str = ""
    published_x: str = "K"
    claims: tuple[str, ...] = ()
    quick: bool = True
    alone: bool = False
