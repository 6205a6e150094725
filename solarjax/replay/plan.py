"""What a replay runs, as a value: settings, the lanes, and the order of requests."""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

from solarjax.policies.registry import PolicyCase, case, parse_cases
from solarjax.replay import prompts
from solarjax.replay.completion import Sampling
from solarjax.replay.errors import BadOption
from solarjax.replay.scoring import LIKE_AT
from solarjax.replay.stepper import FEEDBACKS
from solarjax.replay.traces import ReplaySession

VERSION = 2
"""Part of a stored replay's identity; raised whenever results may change."""
ON_POLICY, FROZEN, SHADOW = "on-policy", "frozen", "shadow"
MODES = (ON_POLICY, FROZEN, SHADOW)
TESTS = ("online", "frozen")


@dataclass(frozen=True)
class Settings:
    """Everything but traces, policies and model that decides a replay's numbers.

    mode: one of `MODES`.   corpus_k, k: corpus texts and experiences per prompt.
    warmup: share of the questions that come first and are not scored; their order is drawn by the seed.
    test: whether the cache goes on learning while it is scored (`online`), or is frozen after the warm-up.
    feedback, like_at: what a policy sees, see `core.sweep.sweep`.   lambdas: prices of a cache change.
    context: tokens of prompt and answer together.   template: see `prompts.load`.   sampling: how answers are drawn.
    chat: ask the chat endpoint; else the completion endpoint, with the chat template applied here.
    """

    mode: str = ON_POLICY
    corpus_k: int = 5
    k: int = 3
    warmup: float = 0.8
    test: str = "online"
    feedback: str = "retrieved"
    like_at: float = LIKE_AT
    lambdas: tuple[float, ...] = (1.0,)
    root_seed: int = 0
    context: int = 2048
    template: str = prompts.DEFAULT
    sampling: Sampling = field(default_factory=Sampling)
    chat: bool = True

    def __post_init__(self) -> None:
        for name, value, allowed in (
            ("mode", self.mode, MODES), ("test", self.test, TESTS), ("feedback", self.feedback, FEEDBACKS),
        ):  # fmt: skip
            if value not in allowed:
                raise BadOption(f"{name} {value!r} is unknown; allowed are {', '.join(allowed)}")
        if not 0 <= self.warmup < 1:
            raise BadOption(f"warmup {self.warmup:g} is out of range; allowed are shares from 0 to below 1")
        if self.corpus_k < 0 or self.k < 1:
            raise BadOption(f"corpus_k {self.corpus_k} must be at least 0 and k {self.k} at least 1")
        if not 0 <= self.root_seed < 2**32:
            raise BadOption(f"root seed {self.root_seed} is out of range; allowed are 0..{2**32 - 1}")
        if self.context <= self.sampling.max_tokens:
            raise BadOption(
                f"context of {self.context} tokens leaves no room beside an answer of {self.sampling.max_tokens}"
            )


@dataclass(frozen=True)
class Lane:
    """One run: a policy at a capacity with a seed, on one session. number: its place in the order."""

    number: int
    case: PolicyCase
    capacity: int
    seed: int

    @property
    def key(self) -> tuple[str, int, int]:
        """(policy label, capacity, seed)."""
        return self.case.label, self.capacity, self.seed


@dataclass(frozen=True)
class Plan:
    """Sessions x policies x capacities x seeds under settings; the order of requests within a session follows from it.

    Order: session by session; within one, the first question of every lane, then the second, and so on; lanes by seed,
    then capacity, then policy, so that lanes which ask the same question come together and share its prefix. Sessions
    may run side by side; how they interleave is recorded by the loop.
    """

    sessions: tuple[ReplaySession, ...]
    cases: tuple[PolicyCase, ...]
    capacities: tuple[int, ...]
    seeds: tuple[int, ...]
    settings: Settings

    def lanes(self) -> list[Lane]:
        """The lanes of every session. What ignores its capacity runs once, at the first."""
        made: list[Lane] = []
        for seed in self.seeds:
            for at, capacity in enumerate(self.capacities):
                for one in self.cases:
                    if at == 0 or not one.spec.unbounded:
                        made.append(Lane(len(made), one, capacity, seed))
        return made

    def num_items(self) -> int:
        """M of all steppers: the longest session, rounded up so that few shapes are compiled."""
        longest = max(len(session.questions) for session in self.sessions)
        return -(-longest // 64) * 64

    def total(self) -> int:
        """Questions over all lanes and sessions."""
        return len(self.lanes()) * sum(len(session.questions) for session in self.sessions)

    def config(self, model: dict[str, Any], source: dict[str, Any]) -> dict[str, Any]:
        """JSON-able identity in the shape of `solarjax run`'s, so that `solarjax report` reads both."""
        settings = asdict(self.settings)
        template = prompts.load(self.settings.template)
        return {
            "replay": VERSION,
            "source": source | {"sessions": {s.name: s.identity() for s in self.sessions}},
            "policies": [_describe(one) for one in self.cases],
            "grid": {},
            "capacities": list(self.capacities),
            "seeds": list(self.seeds),
            "lambdas": list(self.settings.lambdas),
            "k": self.settings.k,
            "quality": "answer_f1" if self.settings.mode != SHADOW else "hit",
            "feedback": self.settings.feedback,
            "like_at": self.settings.like_at,
            "root_seed": self.settings.root_seed,
            "per_step": True,
            "settings": settings | {"lambdas": list(self.settings.lambdas)},
            "prompt": {
                "template": template.name,
                "sha256": template.sha256,
                "experience": prompts.load(prompts.EXPERIENCE).sha256,
            },
            "model": model,
        }


def replay_cases(text: str, params: Sequence[str] = ()) -> list[PolicyCase]:
    """Policies as `parse_cases` reads them, for work with live answers.

    A gate whose signal was left at the release's `information_gain` listens to the miss cost 1 - F1 instead: that is
    what the release does on real work (spec 2.2). Naming the signal keeps it.

    Raises:
      PolicyError: as `parse_cases`.   BadOption: a grid, or a policy that sees the future.
    """
    cases, grid = parse_cases(text, list(params))
    if grid:
        raise BadOption(f"{', '.join(grid)}: a replay takes one value per parameter; name the policy twice instead")
    out = []
    for one in cases:
        if not one.spec.online:
            raise BadOption(f"policy {one.label!r} sees the future; a live replay has none to show")
        given = dict(one.static) | dict(one.traced)
        if given.get("signal") == "information_gain" and "signal=information_gain" not in text:
            one = case(one.name, **(given | {"signal": "miss"}))
        out.append(one)
    labels = [one.label for one in out]
    twice = sorted({label for label in labels if labels.count(label) > 1})
    if twice:
        raise BadOption(f"policy {twice[0]!r} is named twice")
    return out


def question_order(session: ReplaySession, seed: int, root_seed: int, warmup: float) -> tuple[np.ndarray, int]:
    """(order `[n]` of question indices, how many of them are warm-up), drawn by the seed; at least one is scored."""
    n = len(session.questions)
    words = np.random.SeedSequence([root_seed, zlib.crc32(session.name.encode("utf-8", "surrogatepass")), seed])
    return np.random.default_rng(words).permutation(n), min(round(warmup * n), n - 1)


def _describe(one: PolicyCase) -> dict[str, Any]:
    spec = one.spec
    return {
        "label": one.label, "name": one.name, "params": {**dict(one.static), **dict(one.traced)},
        "online": spec.online, "stochastic": spec.stochastic, "summary": spec.summary, "paper": spec.paper,
    }  # fmt: skip
