"""The regret gate (specification 2.2) in its four variants, as a list of numbers.

Order within a step, found to reproduce every recorded run of the authors' release exactly: the signal of
the step enters the window and the accumulator (bootstrap steps and duplicates included), the threshold is
updated with it, and only then compared. Choices where the specification is silent:
  * A signal about the miss comes with a query, `information_gain` with an arrival. The gate is asked only
    when something arrives: on a step without an arrival c keeps what it has, even above the threshold.
  * `paper_ema` and `eoq` compare with tau_t and then form tau_(t+1), as the printed subscripts of the former say.
    For `eoq` Lhat starts at 1, the loss of an empty cache; while it is 0 nothing fires.
  * Except under `release` a comparison with c = 0 never fires, whatever tau has sunk to.
  * An admission while filling up (`fill` = bootstrap or free) resets c, as firing does.
"""

from __future__ import annotations

import math

from tests.oracles.simulator import Moment, Rule, clip01

WINDOW = 30


def information_gain(m: Moment) -> float:
    """How new the arriving item is to the residents, 1 for an empty cache."""
    if not m.residents:
        return 1.0
    cosines = sorted((m.cosine(m.candidate, i) for i in m.residents), reverse=True)
    nearest = cosines[:5]
    return max(0.0, 0.6 * (1 - clip01(cosines[0])) - 0.4 * clip01(sum(nearest) / len(nearest)))


def population_deviation(values: list[float]) -> float:
    """Root mean square distance from the mean."""
    mean = math.fsum(values) / len(values)
    return math.sqrt(math.fsum((x - mean) ** 2 for x in values) / len(values))


class RegretGate(Rule):
    """Admits when the accumulated loss exceeds a threshold."""

    def __init__(
        self,
        threshold: str = "release",
        signal: str = "information_gain",
        fill: str = "bootstrap",
        lam: float = 5.0,
        ema: float = 0.1,
        tau0: float = 0.5,
        tau_per_lam: float = 2.0,
    ) -> None:
        self.threshold, self.signal, self.fill, self.lam, self.ema = threshold, signal, fill, lam, ema
        self.c = 0.0
        self.signals: list[float] = []
        self.loss: float | None = 1.0 if threshold == "eoq" else None
        self.tau = {
            "release": math.sqrt(2 * lam / 2),
            "paper_ema": tau0,
            "eoq": math.sqrt(2 * lam),
            "fixed": tau_per_lam * lam,
        }[threshold]

    def _signal(self, m: Moment) -> float | None:
        if self.signal == "information_gain":
            return information_gain(m) if m.candidate is not None else None
        if not m.shown:
            return None
        return m.miss if self.signal == "miss" else 1 - m.scores[self.signal]

    def _update(self, signal: float) -> None:
        if self.threshold == "release" and len(self.signals) >= WINDOW:
            now = max(2 * population_deviation(self.signals[-WINDOW:]), 0.1)
            self.loss = now if self.loss is None else 0.7 * self.loss + 0.3 * now
            self.tau = min(max(math.sqrt(2 * self.lam / self.loss), 0.1), 5.0)
        if self.threshold == "eoq":
            assert self.loss is not None
            self.loss = (1 - self.ema) * self.loss + self.ema * signal
            self.tau = math.sqrt(2 * self.lam / self.loss) if self.loss > 0 else math.inf
        if self.threshold == "paper_ema":
            self.tau = (1 - self.ema) * self.tau + self.ema * signal

    def _filling(self, m: Moment) -> bool:
        if self.fill == "free":
            return not m.full
        return self.fill == "bootstrap" and len(m.residents) < min(max(m.capacity // 2, 5), 25)

    def admit(self, m: Moment) -> bool:
        signal = self._signal(m)
        compared_with = self.tau
        if signal is not None:
            self.signals.append(signal)
            self.c += signal
            self._update(signal)
        if m.candidate is None:
            return False
        enough = self.c > self.tau if self.threshold == "release" else self.c >= compared_with and self.c > 0
        if self._filling(m) or enough:
            self.c = 0.0
            return True
        return False
