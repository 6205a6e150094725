"""The regret gate exactly at its thresholds, worked by hand, and the content-blind gates.

The signal is 1 - hit unless a test says otherwise, so c counts misses since the last admission.
"""

from __future__ import annotations

import math
from types import SimpleNamespace
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest

from solarjax.policies.admission.controls import keep_first
from solarjax.policies.admission.regret_gate import WINDOW, GateState, information_gain, regret_gate

GATE = {"signal": "miss", "fill": "gated", "lam": 1.0, "ema": 0.5, "tau0": 0.5, "tau_per_lam": 2.0}


def moment(miss: float | None = None, offer: bool = True, size: int = 9, capacity: int = 10, **more: Any) -> Any:
    """What a gate looks at in one step; `miss` None: nothing was asked."""
    return SimpleNamespace(
        has_query=jnp.bool_(miss is not None),
        has_candidate=jnp.bool_(offer),
        miss=jnp.float32(miss or 0),
        size=jnp.int32(size),
        capacity=jnp.int32(capacity),
        **more,
    )


def admissions(misses: list[float], **params: Any) -> tuple[list[int], GateState]:
    """Steps (all with an offer) at which the gate opens, and its state at the end."""
    gate = regret_gate(**(GATE | params))
    state, opened = gate.init(), []
    for t, miss in enumerate(misses):
        state, admit = gate.decide(jnp.zeros(2, jnp.uint32), state, moment(miss))
        opened += [t] if admit else []
    return opened, state


def test_fixed_opens_at_its_threshold() -> None:
    """tau = 2 lam = 2: every second miss, however many hits lie between."""
    assert admissions([1, 1, 0, 1, 0, 0, 1, 1], threshold="fixed")[0] == [1, 6]
    assert admissions([1] * 8, threshold="fixed", tau_per_lam=3.0)[0] == [2, 5]


def test_release_opens_above_its_threshold() -> None:
    """Before 30 signals tau = sqrt(lam) = 1: one miss is not more than 1, two are."""
    assert admissions([1, 1, 0, 1, 1], threshold="release")[0] == [1, 4]


def test_release_threshold_after_a_window() -> None:
    """30 signals, half of them 1: std 1/2, L = 1, tau = sqrt(2 lam). With the 31st the first drops out: 0.7 + 0.3 L."""
    misses = [1, 0] * (WINDOW // 2)
    _, before = admissions(misses[:-1], threshold="release", lam=3.0)
    assert float(before.threshold) == pytest.approx(math.sqrt(3))
    _, at = admissions(misses, threshold="release", lam=3.0)
    assert float(at.threshold) == pytest.approx(math.sqrt(6)) and float(at.loss) == pytest.approx(1)
    _, after = admissions([*misses, 0], threshold="release", lam=3.0)
    spread = 2 * np.std([0, *([1, 0] * 14), 0])
    assert float(after.loss) == pytest.approx(0.7 + 0.3 * spread)
    assert float(after.threshold) == pytest.approx(math.sqrt(6 / (0.7 + 0.3 * spread)))


def test_release_threshold_is_clipped() -> None:
    """No spread: L = 0.1 at least, and tau = sqrt(2 lam / 0.1) lies in 0.1..5."""
    for lam, tau in ((1.0, math.sqrt(20)), (5.0, 5.0), (1e-6, 0.1)):
        _, state = admissions([0.25] * WINDOW, threshold="release", lam=lam)
        assert float(state.threshold) == pytest.approx(tau)


def test_paper_ema_compares_before_it_moves() -> None:
    """tau: .5 -> .25 (hit) -> .625 (miss, opened at .25) -> .3125; c = 0 never opens, however small tau gets."""
    opened, state = admissions([0, 1, 0], threshold="paper_ema")
    assert opened == [1]
    assert float(state.threshold) == 0.3125
    assert admissions([0] * 200, threshold="paper_ema")[0] == []
    # tau0 = 1: the first miss reaches it exactly.
    assert admissions([1], threshold="paper_ema", tau0=1.0)[0] == [0]
    assert admissions([1], threshold="paper_ema", tau0=1.25)[0] == []


def test_paper_ema_admits_at_the_mean_loss() -> None:
    """The finding that the product shows: it opens at about the share of misses, not at 17 %."""
    rng = np.random.default_rng(0)
    for rate in (0.3, 0.7):
        misses = (rng.random(300) < rate).astype(float).tolist()
        assert len(admissions(misses, threshold="paper_ema", ema=0.1)[0]) == pytest.approx(sum(misses), abs=3)


def test_eoq_compares_before_it_moves() -> None:
    """lam = 2, Lhat = 1, tau = 2 while all misses; a hit halves Lhat (ema 1/2) and tau becomes sqrt(8)."""
    assert admissions([1, 1, 1, 1], threshold="eoq", lam=2.0)[0] == [1, 3]
    opened, state = admissions([1, 0, 1, 1], threshold="eoq", lam=2.0)
    assert opened == [3], "2 >= sqrt(8) is false, 3 is enough after Lhat has risen to 3/4"
    assert float(state.loss) == 0.875 and float(state.threshold) == pytest.approx(math.sqrt(4 / 0.875))


def test_signals_count_where_they_belong() -> None:
    """A step without a query adds nothing; without an offer nothing is admitted and c is kept, even above tau."""
    gate = regret_gate(**(GATE | {"threshold": "fixed"}))
    key, state = jnp.zeros(2, jnp.uint32), gate.init()
    seen = []
    for miss, offer in ((1, False), (1, False), (1, False), (None, False), (None, True), (None, True)):
        state, admit = gate.decide(key, state, moment(miss, offer))
        seen.append((bool(admit), float(state.accumulated)))
    assert seen == [(False, 1), (False, 2), (False, 3), (False, 3), (True, 0), (False, 0)]


@pytest.mark.parametrize(
    ("fill", "size", "capacity", "opens"),
    [
        ("bootstrap", 4, 10, True),
        ("bootstrap", 5, 10, False),
        ("bootstrap", 24, 100, True),
        ("bootstrap", 25, 100, False),
        ("bootstrap", 3, 3, True),
        ("free", 9, 10, True),
        ("free", 10, 10, False),
        ("gated", 0, 10, False),
    ],
)
def test_filling_up(fill: str, size: int, capacity: int, opens: bool) -> None:
    """`bootstrap` up to min(max(K // 2, 5), 25) residents, `free` up to K; admitting so resets c."""
    gate = regret_gate(**(GATE | {"threshold": "fixed", "fill": fill}))
    state = gate.init()._replace(accumulated=jnp.float32(1))
    state, admit = gate.decide(jnp.zeros(2, jnp.uint32), state, moment(0, True, size, capacity))
    assert bool(admit) == opens and float(state.accumulated) == (0 if opens else 1)


@pytest.mark.parametrize(
    ("cosines", "gain"),
    [
        ([], 1.0),
        ([0.0], 0.6),
        ([-0.5], 0.6),
        ([0.5], 0.3 - 0.2),
        ([0.9], 0.0),
        ([0.4, 0.2, 0.0, -0.2, -0.4, -1.0], 0.36),
        ([0.5, 0.4, 0.3, 0.2, 0.1, -1.0], 0.3 - 0.12),
    ],
)
def test_information_gain(cosines: list[float], gain: float) -> None:
    """0.6 (1 - best) - 0.4 mean of the five best, both clipped to [0, 1], never below 0."""
    near = np.full(8, -np.inf, np.float32)
    near[: len(cosines)] = cosines
    view = moment(size=len(cosines), candidate_similarity=jnp.asarray(near), occupied=jnp.asarray(near > -np.inf))
    assert float(information_gain(view)) == pytest.approx(gain, abs=1e-6)


def test_keep_first_admits_until_full() -> None:
    gate = keep_first()
    answers = [bool(gate.decide(jnp.zeros(2, jnp.uint32), (), moment(1, True, size, 3))[1]) for size in range(4)]
    assert answers == [True, True, True, False]
