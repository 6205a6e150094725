"""What is known now of how fast each node is: its own curve, as far as it is recent, else that of the others.

A node's curve is learnt from its own requests only (latency.py). Where requests go by that curve, a node that was
slow for a moment gets none any more, and would be thought slow for ever. So evidence fades while others are observed
instead, towards their mean: a node that was not asked for long is expected to be like the rest, gets a request, and is
judged anew. A node that has not been observed at all begins there as well, not at a prior for another machine.
"""

from __future__ import annotations

from collections.abc import Sequence

from solarjax.plane.placement.latency import Curve, Latency

FADE = 0.95
"""A node's own curve weighs this much less with every request that was observed elsewhere: half after 14."""


class Fleet:
    """Curves of several nodes beside one another."""

    def __init__(self) -> None:
        self._observed: dict[str, tuple[int, int]] = {}

    def curves(self, nodes: Sequence[tuple[str, Latency]]) -> dict[str, Curve]:
        """The curve to expect of each node, by name.

        Args:
          nodes: names, and what has been learnt of each so far; the same ones at each call, also while one is down.
        """
        total = sum(latency.observations for _, latency in nodes)
        weights = {name: self._weight(name, latency.observations, total) for name, latency in nodes}
        known = sum(weights.values())
        if known == 0:
            return {name: latency.curve for name, latency in nodes}
        shares = [(weights[name] / known, latency.curve) for name, latency in nodes]
        mean = [sum(share * curve[at] for share, curve in shares) for at in range(3)]
        return {name: _between(mean, latency.curve, weights[name]) for name, latency in nodes}

    def _weight(self, name: str, observations: int, total: int) -> float:
        """1 just after a request to the node, 0 if it never had one."""
        seen, at = self._observed.get(name, (0, total))
        if observations != seen or total < at:  # the latter: a node was replaced by a new one
            seen, at = observations, total
            self._observed[name] = seen, at
        return FADE ** (total - at) if observations else 0.0


def _between(mean: Sequence[float], own: Curve, weight: float) -> Curve:
    a, b, c = ((1 - weight) * other + weight * mine for other, mine in zip(mean, own, strict=True))
    return Curve(a, b, c)
