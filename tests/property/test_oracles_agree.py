"""Structural choices and static options against the plain-Python oracles, decision by decision.

The registry's own cases are compared in `tests/conformance/test_policies.py`, which has them compiled already.
"""

from __future__ import annotations

from typing import Any

import pytest

from solarjax.policies.registry import POLICIES, PolicyCase, case
from tests.oracles import ORACLES
from tests.property.agreement import POINTS, compare
from tests.support.engine import rules_of

VARIED: list[tuple[PolicyCase, dict[str, Any]]] = [
    (case("gated_fifo", threshold="fixed", signal="max_similarity", fill="free"), {"k": 2}),
    (case("gated_fifo", threshold="paper_ema", signal="miss", fill="free"), {"k": 5, "quality": "recall"}),
    (case("gated_fifo", threshold="eoq", signal="answer_recall"), {"k": 2, "quality": "precision"}),
    (case("gated_fifo", signal="mean_similarity", fill="gated"), {"k": 4}),
    (case("gated_fifo", signal="miss", fill="free"), {"quality": "f1"}),
    (case("solar_e", bonus="none", ageing="idle"), {"feedback": "liked_disliked"}),
    (
        case("solar", threshold="fixed", signal="miss", bonus="similarity_age", forget="discount"),
        {"quality": "f1", "feedback": "liked_disliked"},
    ),
    (case("lru"), {"k": 1, "feedback": "liked"}),
    (case("arc"), {"k": 5, "quality": "max_similarity", "feedback": "liked"}),
    (
        case("solar_a", threshold="paper_ema", signal="miss", fill="gated"),
        {"k": 1, "quality": "answer_recall", "feedback": "liked_disliked"},
    ),
    (case("bernoulli", fill="gated"), {}),
]


@pytest.mark.parametrize(("policy", "static"), VARIED, ids=[f"{i}-{c.label}" for i, (c, _) in enumerate(VARIED)])
def test_engine_agrees_with_the_oracle(policy: PolicyCase, static: dict[str, Any]) -> None:
    seen = compare(policy, rules_of(policy, **static), examples=6)
    assert seen["admissions"] > 200 and seen["evictions"] > 100, seen


def test_every_policy_and_choice_is_compared() -> None:
    """No registered policy is without an oracle, no structural choice without a case, no number without points."""
    assert set(ORACLES) == set(POLICIES)
    cases = [case(name) for name in POLICIES] + [c for c, _ in VARIED]
    tried = {(name, value) for c in cases for name, value in c.static}
    parameters = [(name, p) for spec in POLICIES.values() for name, p in spec.params.items()]
    assert {(name, value) for name, p in parameters if p.static for value in p.choices or ()} == tried
    assert {name for name, p in parameters if not p.static} == set(POINTS)
    assert {option for _, o in VARIED for option in o.items()} >= {
        ("feedback", "liked"),
        ("feedback", "liked_disliked"),
    }
    qualities = {o.get("quality", "hit") for _, o in VARIED}
    assert qualities == {"hit", "recall", "precision", "f1", "max_similarity", "answer_recall"}
