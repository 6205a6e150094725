"""How far retrieval without a model ranks as the model's answers do.

Both sides ask the same questions under the same policies: F1 of the model's answer, and the hit of a `shadow` replay.
From the weakest question to the one that a study without a model rests on:

  questions                 within one policy: is a question better answered where the shadow's retrieval hit?
  policies x sessions       a point per policy and session, means over its scored questions. Sessions differ in how hard
                            they are for both sides at once, which alone makes a correlation;
  policies within sessions  the same with each session's mean taken off both sides. (Both: from two sessions on.)
  policies                  a point per policy: would the proxy have ranked the policies as the model did?

Intervals are percentile bootstrap intervals over other sessions: sessions are drawn with replacement, policies stay.
With a single session its scored questions are drawn instead, jointly for all policies; how sessions differ is then left
out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import xarray as xr
from scipy import stats

from solarjax.replay.errors import ReplayError

QUESTIONS, POINTS = "questions", "policies x sessions"
WITHIN, POLICIES = "policies within sessions", "policies"
CONFIDENCE = 0.95
LEAST = 3
"""Points below which no correlation is given: two always lie on a line."""
_SAME = 1e-9  # a range that is rounding and nothing else


def correlate(live: xr.Dataset, shadow: xr.Dataset, draws: int = 1000, seed: int = 0) -> list[dict[str, Any]]:
    """Correlations of the answers' F1 with the shadow's hit, over scored questions.

    Args:
      live, shadow: datasets of `replay.dataset` for the same sessions, policies, capacities and seeds.
      draws: bootstrap samples.   seed: of their random stream.

    Returns:
      Rows, by capacity: `over` (one of the four above), `policy` (for `questions`, else None), `capacity`, `n` points,
      means `f1` and `proxy`; `pearson` and `spearman` with `_low` and `_high` (None where a side is constant, there are
      fewer than `LEAST` points, or fewer than half of the bootstrap samples vary); `unit` that is drawn, `units` of it.

    Raises:
      ReplayError: the two do not cover the same runs.
    """
    _same_runs(live, shadow)
    names = [str(name) for name in live["policy"].values]
    rows: list[dict[str, Any]] = []
    for c, capacity in enumerate(live["capacity"].values):
        # The scored questions of a session and seed are the same for every policy.
        scored = live["step_scored"].values[:, 0, c] == 1
        pair = np.stack([live["step_quality"].values[:, :, c], shadow["step_hit"].values[:, :, c]])
        sessions = [pair[:, t][:, :, here] for t, here in enumerate(scored)]
        for over, points in _POINTS.items():
            if len(sessions) > 1 or over in (QUESTIONS, POLICIES):
                labels = names if over == QUESTIONS else [None]
                found = _rows(points, sessions, draws, seed)
                rows += [
                    {"over": over, "policy": label, "capacity": int(capacity)} | row
                    for label, row in zip(labels, found, strict=True)
                ]
    return rows


def _same_runs(live: xr.Dataset, shadow: xr.Dataset) -> None:
    for axis in ("trace", "policy", "capacity", "seed"):
        if list(live[axis].values) != list(shadow[axis].values):
            raise ReplayError(f"the two replays differ on the axis {axis!r}, so nothing can be correlated")
    for name in ("root_seed", "k", "feedback"):
        if live.attrs[name] != shadow.attrs[name]:
            raise ReplayError(f"{name} is {live.attrs[name]} in one replay and {shadow.attrs[name]} in the other")
    if not np.array_equal(live["step_scored"].values == 1, shadow["step_scored"].values == 1):
        raise ReplayError("the two replays score different questions, so nothing can be correlated")


# What is correlated: sessions, `[2, P, n_t]` each (F1 and hit, policies, scored questions), to points `[2, R, n]` of R
# correlations.
Sessions = Sequence[np.ndarray]


def _questions(sessions: Sessions) -> np.ndarray:
    return np.concatenate(sessions, axis=-1)


def _means(sessions: Sessions) -> np.ndarray:
    return np.stack([one.mean(axis=-1) for one in sessions], axis=-1)  # [2, P, T]


def _points(sessions: Sessions) -> np.ndarray:
    return _means(sessions).reshape(2, 1, -1)


def _within(sessions: Sessions) -> np.ndarray:
    means = _means(sessions)
    return (means - means.mean(axis=1, keepdims=True)).reshape(2, 1, -1)


def _policies(sessions: Sessions) -> np.ndarray:
    return _questions(sessions).mean(axis=-1)[:, None]


_POINTS: dict[str, Callable[[Sessions], np.ndarray]] = {
    QUESTIONS: _questions, POINTS: _points, WITHIN: _within, POLICIES: _policies,
}  # fmt: skip


def _rows(points: Callable[[Sessions], np.ndarray], sessions: Sessions, draws: int, seed: int) -> list[dict[str, Any]]:
    given = points(sessions)
    bounds = {}
    samples = [points(sample) for sample in _resampled(sessions, draws, seed)] if given.shape[-1] >= LEAST else []
    for name, rank in (("pearson", False), ("spearman", True)):
        middle = coefficients(given, rank) if samples else np.full(given.shape[1], np.nan)
        drawn = np.array([coefficients(sample, rank) for sample in samples]).reshape(len(samples), given.shape[1])
        bounds[name] = [_bounds(one, all_drawn) for one, all_drawn in zip(middle, drawn.T, strict=True)]
    unit, units = ("session", len(sessions)) if len(sessions) > 1 else ("question", sessions[0].shape[-1])
    means = _questions(sessions).mean(axis=-1)
    of_each = len(means[0]) == given.shape[1] > 1
    rows = []
    for r in range(given.shape[1]):
        f1, proxy = means[:, r] if of_each else means.mean(axis=-1)
        row: dict[str, Any] = {"n": given.shape[-1], "f1": float(f1), "proxy": float(proxy)}
        for name in ("pearson", "spearman"):
            row |= dict(zip((name, f"{name}_low", f"{name}_high"), bounds[name][r], strict=True))
        rows.append(row | {"unit": unit, "units": units})
    return rows


def coefficients(points: np.ndarray, ranks: bool) -> np.ndarray:
    """Correlations of `points [2, R, n]`, `[R] f64`: Pearson's r, or that of the mid-ranks, which is Spearman's rho.

    NaN where a side is constant.
    """
    if ranks:
        # What differs by rounding only is a tie.
        points = stats.rankdata(np.round(points, 9), axis=-1)
    centred = points - points.mean(axis=-1, keepdims=True)
    varies = (np.ptp(points, axis=-1) > _SAME).all(axis=0)
    spread = np.sqrt((centred**2).sum(axis=-1).prod(axis=0))
    return np.where(varies, centred.prod(axis=0).sum(axis=-1) / np.where(varies, spread, 1.0), np.nan)


def _resampled(sessions: Sessions, draws: int, seed: int) -> Iterator[list[np.ndarray]]:
    draw = np.random.default_rng(seed)
    for _ in range(draws):
        if len(sessions) > 1:
            yield [sessions[i] for i in draw.integers(len(sessions), size=len(sessions))]
        else:
            n = sessions[0].shape[-1]
            yield [sessions[0][..., draw.integers(n, size=n)]]


def _bounds(middle: float, drawn: np.ndarray) -> tuple[float | None, float | None, float | None]:
    if np.isnan(middle):
        return None, None, None
    known = drawn[~np.isnan(drawn)]
    if 2 * len(known) < len(drawn) or not len(known):
        return float(middle), None, None
    tail = (1 - CONFIDENCE) / 2
    low, high = np.quantile(known, [tail, 1 - tail])
    return float(middle), float(low), float(high)
