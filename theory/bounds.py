"""The stated bounds and their corrections, as formulas only. Nothing here runs a policy.

Symbols: K capacity, T steps, m topics, lam switching cost (in units of one full miss), tau threshold of the gate
(same unit), L mean miss cost per step, N steps that change the content, k retrieval depth, dmax largest miss cost of
one step. Ratios and counts have no unit; costs are in full misses. T1-T6, T3s, E1-E3, Def1: the supplement of "When
Classic Cache Policies Fail" (arXiv 2607.00394), section 5; S numbers: the claims ledger. "Corrected" means ours; the
derivations are in `theory/README.md`.
"""

from __future__ import annotations

from collections.abc import Callable
from math import ceil, floor, log, sqrt
from typing import NamedTuple

from theory.errors import TheoryError


def _positive(**values: float) -> None:
    for name, value in values.items():
        if not value > 0 or value == float("inf"):
            raise TheoryError(f"{name} = {value} must be > 0 and finite")


def fifo_cycle(K: int, lam: float) -> float:
    """T1: FIFO's ratio on the strict cycle of K + 1 topics tends to this."""
    return (K + 1) * (1 + lam)


def fifo_cycle_finite(K: int, lam: float, T: int) -> float:
    """T1 at finite T, corrected: COST = T (1 + lam), OPT <= K (1 + lam) + floor(T / (K + 1)), so the ratio is at least
    this. OPT >= floor(T / (K + 1)): in K + 1 steps without a miss nothing can be inserted, yet K + 1 items are hit."""
    return T * (1 + lam) / (K * (1 + lam) + T // (K + 1))


def soft_cycle(K: int, lam: float, miss: float, eps: float) -> float:
    """T1 with soft hits, corrected: a hit costs eps, a miss `miss`; limit over T of FIFO's ratio on the cycle."""
    return (miss + lam) * (K + 1) / (K * eps + miss)


def soft_saturation(lam: float, miss: float, eps: float) -> float:
    """T1 with soft hits, corrected: what `soft_cycle` tends to as K grows. FIFO's ratio is bounded if eps > 0."""
    _positive(eps=eps)
    return (miss + lam) / eps


def sqrt_remark(T: int) -> float:
    """T1's remark (S13): with K = 1 and m = sqrt(T) topics the ratio is said to be about this."""
    return sqrt(T)


def sqrt_corrected(T: int, lam: float) -> float:
    """S13, corrected. With K = 1 OPT hits at most once in m = sqrt(T) steps, so it pays at least T (1 - 1/m) too."""
    _positive(T=T - 1)
    return (1 + lam) / (1 - 1 / sqrt(T))


def admissions(T: int, tau: float) -> int:
    """T2 (S14): at most floor(T / tau) admissions, c reset to 0, no bootstrap. Says nothing (N <= T) for tau <= 1."""
    _positive(tau=tau)
    return floor(T / tau)


def admissions_by_loss(signal_sum: float, tau_min: float) -> int:
    """T2, the sharper form: each admission uses up at least tau_min of the accumulated signal."""
    _positive(tau_min=tau_min)
    # The gate adds in float32; a relative 1e-5 keeps equality from being lost to rounding.
    return floor(signal_sum / tau_min * (1 + 1e-5))


def bootstrap_size(K: int) -> int:
    """Residents below which the release admits everything."""
    return min(max(K // 2, 5), 25)


def admissions_bootstrap(signal_sum: float, tau_min: float, K: int, T: int) -> int:
    """T2, corrected for the release, for a start from the empty cache.

    While the cache holds fewer than b = bootstrap_size(K) residents every new arrival is written; nothing is evicted
    before the cache is full, so each of these writes adds a resident and there are at most b of them. After that each
    write uses up at least tau_min of the signal. For K < b (K < 5) the cache never holds b residents: the bootstrap
    never ends, every new arrival is written, and nothing better than N <= T can be said.
    """
    start = bootstrap_size(K)
    return T if K < start else min(T, start + admissions_by_loss(signal_sum, tau_min))


def cr_stated() -> float:
    """T3 (S15): under Def1 and tau = 2 lam the ratio is at most this."""
    return 3.0


def cr_overshoot(lam: float, dmax: float = 1.0) -> float:
    """T3, corrected for the overshoot: c ends an epoch anywhere below tau + dmax, so under Def1 and tau = 2 lam the
    ratio is at most 3 + dmax / lam, if an item arrives at every step (the gate opens at arrivals only)."""
    _positive(lam=lam)
    return 3 + dmax / lam


def cr_threshold(tau: float, lam: float, dmax: float = 1.0) -> float:
    """T3, corrected, for any tau: the worse of an epoch in which OPT changes (it pays lam) and one in which it does not
    (it pays at least half of the losses, Def1). An additive tau + dmax covers the last, unfinished epoch."""
    _positive(tau=tau, lam=lam)
    return max(1 + (tau + dmax) / lam, 2 + 2 * lam / tau)


def best_threshold(lam: float, dmax: float = 1.0) -> float:
    """The tau that minimises `cr_threshold`: both sides equal, tau^2 + (dmax - lam) tau - 2 lam^2 = 0. It is 2 lam for
    dmax = 0 (T3's choice) and less once the overshoot counts."""
    _positive(lam=lam)
    return ((lam - dmax) + sqrt((lam - dmax) ** 2 + 8 * lam**2)) / 2


def best_ratio(lam: float, dmax: float = 1.0) -> float:
    """`cr_threshold` at `best_threshold`."""
    return cr_threshold(best_threshold(lam, dmax), lam, dmax)


def overshoot_ratio(lam: float, tau: float) -> float:
    """Ratio of the overshoot family, in which Def1 holds: ceil(tau) full misses and a switch against one switch."""
    _positive(lam=lam, tau=tau)
    return 1 + max(1, ceil(tau * (1 - 1e-9))) / lam


def sufficient_length(tau: float, k: int, differing: int) -> float:
    """Def1's sufficient form |E| D / k <= tau / 2, solved for |E|. An epoch has ceil(tau) steps or more, so with D >= 1
    it can only hold where k >= 2 D: for k = 1 never, unless the caches agree."""
    _positive(tau=tau, k=k)
    return float("inf") if differing == 0 else tau * k / (2 * differing)


def lock_out(T: int, lam: float, tau: float) -> float:
    """S16: ratio of the lock-out family, without any bound in T."""
    _positive(lam=lam, tau=tau)
    return (T - 1 + lam * ((T - 1) // max(1, ceil(tau * (1 - 1e-9))))) / lam


def museum(T: int, lam: float) -> float:
    """E3: LFU's ratio on the museum family, T requests for the two new items."""
    return T * (1 + lam) / (2 + 2 * lam)


def harmonic(n: int) -> float:
    """H_n = 1 + 1/2 + ... + 1/n."""
    return sum(1 / i for i in range(1, n + 1))


def random_runs(K: int) -> float:
    """E3, after Fiat et al. 1991: on uniformly random requests over K + 1 pages every online eviction rule misses
    1 / (K + 1) of them, OPT one per phase, whose mean length is (K + 1) H_{K + 1} - 1 or less: ratio about H_K."""
    return harmonic(K)


def eoq_threshold(lam: float, L: float) -> float:
    """S10, S11, E1: the threshold as stated. Its unit is that of a PERIOD sqrt(lam / loss), not of a loss."""
    _positive(lam=lam, L=L)
    return sqrt(2 * lam / L)


def eoq_period(lam: float, growth: float) -> float:
    """E1, corrected: loss grows by `growth` per step after a swap; the best period minimises growth n / 2 + lam / n."""
    _positive(lam=lam, growth=growth)
    return sqrt(2 * lam / growth)


def eoq_accumulated(lam: float) -> float:
    """E1, corrected: loss accumulated over the best period, growth n^2 / 2 = lam, whatever the growth."""
    return lam


def fifo_regret(T: int, K: int) -> float:
    """T4 (S18): regret of FIFO on the cycle of m > K topics against the best fixed rule on the same admissions."""
    return T * K / (K + 1) - K


def thompson_regret(T: int, K: int) -> float:
    """T5 (S19): order of the regret of Beta-Thompson eviction, without its constant."""
    return sqrt(K * T * log(T))


def minimax_regret(T: int, K: int) -> float:
    """T6 (S20): order of the lower bound on any policy's regret under bandit feedback, without its constant."""
    return sqrt(K * T)


def unlearning_lag(retrievals: int, age_step: float = 0.05, age_period: int = 5) -> float:
    """S26: steps without a retrieval until a resident of prior Beta(2, 1) that was retrieved A times is back at mean
    1/2: beta grows by age_step / age_period per step and has A + 1 to make up. 100 (A + 1) for the release."""
    _positive(age_step=age_step, age_period=age_period)
    return (retrievals + 1) * age_period / age_step


def admission_rate(L: float, tau: float, overshoot: float) -> float:
    """S09: long-run share of steps on which the gate fires: L per step fills tau + the mean overshoot (renewal)."""
    _positive(tau=tau)
    return L / (tau + overshoot)


class Bound(NamedTuple):
    """A formula with its theorem. corrected: ours, not the papers'."""

    name: str
    source: str
    unit: str
    formula: Callable[..., float]
    corrected: bool = False


BOUNDS: tuple[Bound, ...] = (
    Bound("fifo_cycle", "T1, S12", "ratio", fifo_cycle),
    Bound("fifo_cycle_finite", "T1, S12", "ratio", fifo_cycle_finite, True),
    Bound("soft_cycle", "T1, S12", "ratio", soft_cycle, True),
    Bound("soft_saturation", "T1, S12", "ratio", soft_saturation, True),
    Bound("sqrt_remark", "T1 remark, S13", "ratio", sqrt_remark),
    Bound("sqrt_corrected", "T1 remark, S13", "ratio", sqrt_corrected, True),
    Bound("admissions", "T2, S14", "admissions", admissions),
    Bound("admissions_by_loss", "T2, S14", "admissions", admissions_by_loss, True),
    Bound("admissions_bootstrap", "T2, S14", "admissions", admissions_bootstrap, True),
    Bound("cr_stated", "T3, S15", "ratio", cr_stated),
    Bound("cr_overshoot", "T3, S15", "ratio", cr_overshoot, True),
    Bound("cr_threshold", "T3, S15", "ratio", cr_threshold, True),
    Bound("best_threshold", "T3, S15", "misses", best_threshold, True),
    Bound("best_ratio", "T3, S15", "ratio", best_ratio, True),
    Bound("overshoot_ratio", "T3, S15", "ratio", overshoot_ratio, True),
    Bound("sufficient_length", "Def1, S16", "steps", sufficient_length),
    Bound("lock_out", "S16", "ratio", lock_out, True),
    Bound("museum", "E3, S30", "ratio", museum),
    Bound("random_runs", "E3, S30", "ratio", random_runs),
    Bound("eoq_threshold", "E1, S10, S11", "misses", eoq_threshold),
    Bound("eoq_period", "E1, S11", "steps", eoq_period, True),
    Bound("eoq_accumulated", "E1, S11", "misses", eoq_accumulated, True),
    Bound("fifo_regret", "T4, S18", "misses", fifo_regret),
    Bound("thompson_regret", "T5, S19", "misses", thompson_regret),
    Bound("minimax_regret", "T6, S20", "misses", minimax_regret),
    Bound("unlearning_lag", "T5, S26", "steps", unlearning_lag, True),
    Bound("admission_rate", "E2, S09", "share of steps", admission_rate, True),
)
