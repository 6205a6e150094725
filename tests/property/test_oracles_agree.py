"""Every policy against a plain-Python oracle, decision by decision, on random small traces.

Compared are the items retrieved, by rank, whether the arrival was written, and which item it replaced. The engine
computes in float32, the oracles in float64; nothing is tolerated, because what can be equal is equal exactly in
both: cosines are multiples of 1/64, grades and answer recalls are dyadic, and so are the parameters that are
accumulated. What is left, sums with an exponential or a square root in them, differs by far more than its rounding.
`lam` keeps the thresholds with a square root irrational: one that decays towards 1 from above reaches it in float32
after 24 steps, and never in exact arithmetic. (What happens exactly at a threshold: `fixed` here, the others in
`tests/unit/test_policies_gates.py`.)
Examples are derandomized, so a run repeats the previous one, and not shrunk: a difference names its lane and step.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

import hypothesis.strategies as st
import pytest
from hypothesis import HealthCheck, Phase, given, settings

from solarjax.core.lanes import Rules
from solarjax.core.trace import NO_ITEM
from solarjax.policies.registry import POLICIES, PolicyCase, case
from tests.oracles import ORACLES, Bernoulli, Composed, Fifo, RegretGate
from tests.oracles.arc import Arc
from tests.oracles.clairvoyant import Clairvoyant
from tests.oracles.classic import Always, Lfu, Lru, Random
from tests.oracles.controls import Reservoir
from tests.oracles.simulator import Moment
from tests.oracles.thompson import Thompson
from tests.property.agreement import differences
from tests.support.engine import LANES, VARIANTS, lanes_of, rules_of, run
from tests.support.worlds import TRACE_BYTES, TRACES, trace_of, world_of

POINTS: dict[str, tuple[float, ...]] = {
    "lam": (0.75, 1.25, 3, 5),
    "ema": (0, 0.25, 0.5, 1),
    "tau0": (0, 0.5, 0.75),
    "tau_per_lam": (0, 1, 2),
    "prior_alpha": (0.5, 1, 2),
    "prior_beta": (0.5, 1, 2),
    "bonus_weight": (0, 0.25, 1),
    "age_scale": (2, 20),
    "age_step": (0, 0.0625, 0.5),
    "age_period": (1, 2, 5),
    "discount": (0, 0.5, 1),
    "p": (0, 0.25, 0.5, 1),
    "recency_weight": (0, 0.4, 1),
    "frequency_weight": (0, 0.7),
    "novelty_weight": (0, 0.3),
    "recency_scale": (2, 100),
}
"""Values of every parameter that is not structural."""

REGISTERED = [(case(name), {}) for name in POLICIES]
VARIED: list[tuple[PolicyCase, dict[str, Any]]] = [
    (case("gated_fifo", threshold="fixed", signal="miss", fill="gated"), {}),
    (case("gated_fifo", threshold="fixed", signal="max_similarity", fill="free"), {"k": 2}),
    (case("gated_fifo", threshold="fixed", signal="mean_similarity"), {"k": 4}),
    (case("gated_fifo", threshold="paper_ema", signal="miss", fill="free"), {"k": 5, "quality": "recall"}),
    (case("gated_fifo", threshold="paper_ema", signal="answer_recall", fill="gated"), {}),
    (case("gated_fifo", threshold="eoq", signal="miss"), {"k": 2, "quality": "precision"}),
    (case("gated_fifo", signal="miss", fill="free"), {"quality": "f1"}),
    (
        case("solar", fill="gated", bonus="none", ageing="none", forget="discount"),
        {"quality": "recall", "feedback": "liked"},
    ),
    (case("solar_e", bonus="age", ageing="idle"), {"feedback": "liked_disliked"}),
    (
        case("solar_e", bonus="similarity_age", clock="queries", forget="discount"),
        {"quality": "f1", "feedback": "liked_disliked"},
    ),
    (case("lru"), {"k": 1, "feedback": "liked"}),
    (case("lfu"), {"k": 2, "quality": "recall", "feedback": "liked"}),
    (case("arc"), {"k": 5, "quality": "max_similarity", "feedback": "liked"}),
    (
        case("solar_a", threshold="paper_ema", signal="miss", fill="gated"),
        {"k": 1, "quality": "answer_recall", "feedback": "liked_disliked"},
    ),
    (case("bernoulli", fill="gated"), {}),
]
"""Structural choices beside the registry's own, with the sweep's static options."""


def traced_points(policy: PolicyCase) -> st.SearchStrategy[dict[str, list[float]]]:
    """Values of the policy's parameters in the VARIANTS of a batch."""
    values = {
        name: st.lists(st.sampled_from(POINTS[name]), min_size=VARIANTS, max_size=VARIANTS) for name, _ in policy.traced
    }
    return st.fixed_dictionaries(values)


def compare(policy: PolicyCase, rules: Rules, examples: int) -> Counter[str]:
    """Compares on so many examples; what happened in them. Raises AssertionError at the first disagreement."""
    seen: Counter[str] = Counter()

    @settings(
        max_examples=examples,
        derandomize=True,
        database=None,
        deadline=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(st.binary(min_size=TRACES * TRACE_BYTES, max_size=TRACES * TRACE_BYTES), st.data())
    def check(raw: bytes, data: st.DataObject) -> None:
        parts = [raw[i * TRACE_BYTES : (i + 1) * TRACE_BYTES] for i in range(TRACES)]
        world = world_of([trace_of(part, f"t{i}") for i, part in enumerate(parts)], grid=64)
        lanes = lanes_of(policy, data.draw(st.integers(0, 2**32 - 1)), data.draw(traced_points(policy)))
        record = run(rules, world, lanes)
        # A costly rule is compared on one variant per example, in turn: drawing single numbers takes its time.
        seen["examples"] += 1
        which = range(seen["examples"] % VARIANTS, LANES, VARIANTS) if rules.costly_victim else range(LANES)
        seen["admissions"] += int(record.outcome.admitted[:, which].sum())
        seen["evictions"] += int((record.outcome.evicted[:, which] != NO_ITEM).sum())
        found = differences(policy, rules, world, lanes, record, which)
        assert not found, found[0]

    check()
    return seen


@pytest.mark.parametrize(
    ("policy", "static"), REGISTERED + VARIED, ids=[f"{i}-{c.label}" for i, (c, _) in enumerate(REGISTERED + VARIED)]
)
def test_engine_agrees_with_the_oracle(policy: PolicyCase, static: dict[str, Any]) -> None:
    seen = compare(policy, rules_of(policy, **static), examples=5)
    assert seen["admissions"] > 200
    assert policy.spec.unbounded or policy.name == "keep_first" or seen["evictions"] > 100, seen


def test_every_policy_and_choice_is_compared() -> None:
    """No registered policy is without an oracle, and no structural choice without a case."""
    assert set(ORACLES) == set(POLICIES)
    tried = {(name, value) for c, _ in REGISTERED + VARIED for name, value in c.static}
    declared = {(n, v) for spec in POLICIES.values() for n, q in spec.params.items() if q.static for v in q.choices}
    assert declared <= tried
    assert {name for c, _ in REGISTERED for name, _ in c.traced} == set(POINTS)
    options = [set(o.items()) for _, o in VARIED]
    assert {("feedback", "liked"), ("feedback", "liked_disliked")} <= set.union(*options)


class StrictGate(RegretGate):
    """Needs more than the threshold, not as much."""

    def admit(self, m: Moment) -> bool:
        before = self.c
        admitted = super().admit(m)
        if admitted and before + self.tau == 2 * self.tau and not self._filling(m):
            self.c = before
            return False
        return admitted


class LateLru(Lru):
    """Ties go to the latest inserted."""

    def victim(self, m: Moment) -> int:
        return min(reversed(m.residents), key=lambda i: self.last[i])


class GenerousLfu(Lfu):
    """An arrival that is resident already counts as an access."""

    def touch(self, m: Moment) -> None:
        super().touch(m)
        if m.candidate in m.residents:
            self.count[m.candidate] += 1


class ForgetfulArc(Arc):
    """An arrival that is resident already is no access."""

    def touch(self, m: Moment) -> None:
        m.candidate, kept = None, m.candidate
        super().touch(m)
        m.candidate = kept


class EagerClairvoyant(Clairvoyant):
    """Admits an item that is worth as much as the victim."""

    def admit(self, m: Moment) -> bool:
        if m.candidate is None or not m.full:
            return m.candidate is not None
        return self._usefulness(m, m.candidate) >= self._usefulness(m, self.victim(m))


class GreedyReservoir(Reservoir):
    """Counts arrivals of residents too."""

    def admit(self, m: Moment) -> bool:
        self.seen += m.candidate is not None and m.candidate in m.residents
        return super().admit(m)


class ShiftedThompson(Thompson):
    """Draws the numbers of the next step."""

    def victim(self, m: Moment) -> int:
        m.t += 1
        chosen = super().victim(m)
        m.t -= 1
        return chosen


WRONG: dict[str, Any] = {
    "lru": lambda: Composed(Always(), LateLru()),
    "lfu": lambda: Composed(Always(), GenerousLfu()),
    "arc": ForgetfulArc,
    "oracle": EagerClairvoyant,
    "reservoir": lambda: Composed(GreedyReservoir(), Random()),
    "solar_e": lambda **params: Composed(Always(), ShiftedThompson(**params)),
    "bernoulli": lambda p, fill: Composed(Bernoulli(p * 0.9, fill), Fifo()),
    "gated_fifo": lambda **params: Composed(StrictGate(**params), Fifo()),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_slightly_wrong_oracle_is_noticed(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each wrong rule differs from the right one in a single detail."""
    monkeypatch.setitem(ORACLES, name, WRONG[name])
    policy = VARIED[0][0] if name == "gated_fifo" else case(name)
    with pytest.raises(AssertionError, match="Difference"):
        compare(policy, rules_of(policy), examples=7)
