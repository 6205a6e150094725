"""The transition capacity and the working set, against closed forms and brute force."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from experiments import transition
from solarjax.analysis.summary import AnalysisError
from solarjax.analysis.working_set_size import greedy_cover, working_set_size

KS = np.array([10, 20, 40])


def test_the_last_fall_counts_and_is_interpolated() -> None:
    means = np.array([[1.0, -1.0, -2.0], [-1.0, 3.0, -1.0], [2.0, 1.0, 0.5], [1.0, 0.0, 0.0]])
    found = transition.crossings(KS, means)
    assert found[:2].tolist() == [15.0, 35.0]
    assert np.isnan(found[2]) and found[3] == 20.0


def test_interval_covers_the_true_crossing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Gaps normal around the line 0.3 - K / 100: K* = 30. Of 200 intervals of 95 %, fewer than 175 would occur with
    probability below 1e-4 if each covered with .95 (binomial)."""
    monkeypatch.setattr(transition.resampled_means, "__defaults__", (400,))
    rng = np.random.default_rng(1)
    mean = 0.3 - KS / 100
    covered = 0
    for _ in range(200):
        found, _ = transition.crossing(KS, mean[:, None] + rng.normal(0, 0.3, (3, 200)))
        covered += found.low is not None and found.low <= 30 <= found.high  # type: ignore[operator]
    assert 175 <= covered < 200


def test_no_interval_where_the_data_do_not_say() -> None:
    found, samples = transition.crossing(KS, np.random.default_rng(2).normal(0.0, 1.0, (3, 20)) + 0.3)
    assert found.low is None and found.defined < 0.95 and np.isnan(samples).any()


def test_scaling_finds_an_exponent() -> None:
    sizes = np.array([5.0, 10.0, 20.0])
    points = 3 * sizes**0.5
    noise = np.exp(np.random.default_rng(3).normal(0, 0.01, (3, 500)))
    found = transition.scaling(sizes, points, points[:, None] * noise)
    assert found is not None and found.at == pytest.approx(0.5)
    assert found.low < 0.5 < found.high  # type: ignore[operator]
    assert transition.scaling(sizes, np.array([np.nan, np.nan, 3.0]), points[:, None] * noise) is None


def test_greedy_cover_is_within_its_bound() -> None:
    rng = np.random.default_rng(4)
    for _ in range(30):
        answers = rng.random((6, 7)) < 0.3
        answerable = answers[answers.any(axis=1)]
        best = next(
            n
            for n in range(8)
            if any(answerable[:, list(c)].any(axis=1).all() for c in itertools.combinations(range(7), n))
        )
        assert best <= greedy_cover(answers) <= best * (1 + np.log(6))


def test_working_set_of_topics_is_their_number() -> None:
    topic = np.arange(40) % 8
    relevance = topic[:, None] == (np.arange(24) % 8)[None]
    steps = np.insert(np.arange(40), 5, -1)  # a step without a query does not count
    assert working_set_size(relevance, steps, 8) == 8
    assert working_set_size(relevance, steps, 4) == 4
    assert working_set_size(relevance, steps, 1000) == 8
    with pytest.raises(AnalysisError, match="window = 0"):
        working_set_size(relevance, steps, 0)
    with pytest.raises(AnalysisError, match="asks nothing"):
        working_set_size(relevance, np.array([-1]), 3)
