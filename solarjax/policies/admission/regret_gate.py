"""The regret gate: change the cache only when enough loss has accumulated.

References:
  "When Classic Cache Policies Fail", section 4.2 and Algorithm 1 (threshold rules), and the authors' release.
  The two disagree; each threshold rule is a named variant and every result says which one ran.
"""

from __future__ import annotations

from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jax import Array

from solarjax.core.types import Key, View, given
from solarjax.policies.combine import Admission
from solarjax.policies.slots import top_mean

WINDOW = 30
"""Signals over which the release measures their spread."""

SIGNALS = ("information_gain", "miss", "max_similarity", "mean_similarity", "answer_recall")
THRESHOLDS = ("release", "paper_ema", "eoq", "fixed")
FILLS = ("bootstrap", "free", "gated")


class GateState(NamedTuple):
    """accumulated: `[] f32` c.  threshold: `[] f32` tau.  loss: `[] f32` running loss estimate Lhat (0: none yet).
    window: `[30] f32` last signals, oldest overwritten; None unless `release`.  signals: `[] i32` signals so far."""

    accumulated: Array
    threshold: Array
    loss: Array
    window: Array | None
    signals: Array


def information_gain(view: View) -> Array:
    """How new the candidate is: `max(0, 0.6 (1 - max cos) - 0.4 mean of the 5 largest cos)`, 1 in an empty cache.

    Both cosines are clipped to [0, 1] (the mean is clipped, not its terms). Over the residents before the write.
    """
    near = given(view.candidate_similarity, "candidate_similarity")
    best = jnp.clip(near.max(), 0, 1)
    mean = jnp.clip(top_mean(near, 5), 0, 1)
    gain = jnp.maximum(np.float32(0.6) * (1 - best) - np.float32(0.4) * mean, 0)
    return jnp.where(view.size == 0, np.float32(1), gain)


def regret_gate(
    threshold: str,
    signal: str,
    fill: str,
    lam: Array | float,
    ema: Array | float,
    tau0: Array | float,
    tau_per_lam: Array | float,
) -> Admission:
    """Admits the arrival at which the accumulated signal passes the threshold, then starts again from 0.

    Threshold rules (`threshold`):
      release    c > tau. Once the last 30 signals are there, L = max(2 std, 0.1) (population std);
                 Lhat = L at first, then 0.7 Lhat + 0.3 L; tau = clip(sqrt(2 lam / Lhat), 0.1, 5). Before that
                 tau = sqrt(2 lam / 2). The signal enters the window and moves tau before the comparison, during the
                 bootstrap too: orders that reproduce the release's admissions exactly.
      paper_ema  c >= tau, then tau <- (1 - ema) tau + ema * signal, exactly as printed; starts at tau0. It converges
                 to the mean signal, so it opens on about that share of the steps.
      eoq        c >= tau with tau = sqrt(2 lam / Lhat), Lhat <- (1 - ema) Lhat + ema * signal after the comparison;
                 Lhat starts at 1, the loss of an empty cache.
      fixed      c >= tau with tau = tau_per_lam * lam; 2 lam is Theorem 3's choice.

    Signals (`signal`): `information_gain` of the arriving item (counted at arrivals); the others are counted at
    queries: `miss` = 1 - quality, `max_similarity` = 1 - best cosine, `mean_similarity` = 1 - mean cosine of the
    retrieved, `answer_recall` = 1 - best answer recall.

    Fill (`fill`): `bootstrap` admits everything while size < min(max(K // 2, 5), 25) and resets c each time (release);
    `free` admits everything until the cache is full and resets c each time; `gated` has no exception.

    A comparison with c = 0 never fires: in float32 an EMA over long runs of hits underflows to 0, and 0 >= 0 would
    then admit on hits, which exact arithmetic never does.
    """

    def init() -> GateState:
        start = {
            "release": jnp.sqrt(jnp.asarray(lam, jnp.float32)),
            "paper_ema": jnp.asarray(tau0, jnp.float32),
            "eoq": jnp.sqrt(2 * jnp.asarray(lam, jnp.float32)),
            "fixed": jnp.asarray(tau_per_lam, jnp.float32) * jnp.asarray(lam, jnp.float32),
        }[threshold]
        return GateState(
            accumulated=jnp.float32(0),
            threshold=start,
            loss=jnp.float32(1 if threshold == "eoq" else 0),
            window=jnp.zeros(WINDOW, jnp.float32) if threshold == "release" else None,
            signals=jnp.int32(0),
        )

    def decide(key: Key, state: GateState, view: View) -> tuple[GateState, Array]:
        del key  # deterministic
        if signal == "information_gain":
            value, counts = information_gain(view), view.has_candidate
        else:
            value = view.miss if signal == "miss" else 1 - getattr(view.scores, signal)
            counts = view.has_query
        accumulated = state.accumulated + jnp.where(counts, value, np.float32(0))
        if threshold == "release":
            state = _release_threshold(state, value, counts, lam)
            opens = accumulated > state.threshold
        else:
            opens = (accumulated >= state.threshold) & (accumulated > 0)
        if fill == "bootstrap":
            opens = opens | (view.size < jnp.clip(view.capacity // 2, 5, 25))
        elif fill == "free":
            opens = opens | (view.size < view.capacity)
        admit = view.has_candidate & opens
        state = state._replace(
            accumulated=jnp.where(admit, np.float32(0), accumulated),
            signals=state.signals + counts.astype(jnp.int32),
        )
        if threshold == "paper_ema":
            moved = (1 - ema) * state.threshold + ema * value
            state = state._replace(threshold=jnp.where(counts, moved, state.threshold))
        elif threshold == "eoq":
            loss = jnp.where(counts, (1 - ema) * state.loss + ema * value, state.loss)
            # An all-hit stream drives Lhat to 0 and tau to infinity; the floor keeps the quotient finite.
            tau = jnp.sqrt(2 * lam / jnp.maximum(loss, np.float32(1e-12)))
            state = state._replace(loss=loss, threshold=tau)
        return state, admit

    return Admission(init=init, decide=decide)


def _release_threshold(state: GateState, value: Array, counts: Array, lam: Array | float) -> GateState:
    index = jnp.arange(WINDOW, dtype=jnp.int32)
    here = (index == state.signals % np.int32(WINDOW)) & counts
    window = jnp.where(here, value, given(state.window, "window"))
    full = counts & (state.signals >= WINDOW - 1)
    mean = window.sum() / np.float32(WINDOW)
    std = jnp.sqrt(jnp.square(window - mean).sum() / np.float32(WINDOW))
    spread = jnp.maximum(2 * std, np.float32(0.1))
    loss = jnp.where(state.loss == 0, spread, np.float32(0.7) * state.loss + np.float32(0.3) * spread)
    loss = jnp.where(full, loss, state.loss)
    tau = jnp.clip(jnp.sqrt(2 * lam / jnp.where(full, loss, np.float32(1))), np.float32(0.1), np.float32(5))
    return state._replace(window=window, loss=loss, threshold=jnp.where(full, tau, state.threshold))
