"""Plans that need not be optimal: upper bounds on OPT, found with the future in view.

All are guided by the relaxed gains (`opt_relaxed`) and priced exactly: a plan's cost is its real one. Action class
`online`; its plans are also allowed in the two richer classes at the same price.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from theory.errors import TheoryError
from theory.losses import set_losses
from theory.model import Batch
from theory.opt_exact import paid_switches
from theory.opt_lagrangian import Bound, values_ahead
from theory.opt_relaxed import Gains, gains

HORIZONS = (8, 32, 128, 512)
"""Steps ahead that greedy looks; each is tried and the cheapest plan kept."""


class Plan(NamedTuple):
    """contents: `[T + 1, N] bool`, S_0..S_T.   cost: exact cost of the plan.   method: how it was found."""

    contents: np.ndarray
    cost: float
    method: str


def price_plan(batch: Batch, contents: np.ndarray, method: str) -> Plan:
    """The plan of one instance with its exact cost."""
    states = contents[None]
    paid = float(paid_switches(batch, states).sum()) * float(batch.lam[0])
    return Plan(contents, float(set_losses(batch, states[:, :-1]).sum()) + paid, method)


def greedy(batch: Batch, horizons: tuple[int, ...] = HORIZONS) -> Plan:
    """Belady by marginal utility: swap if the next h steps gain more than lam; the best of several h."""
    plans = [beam(batch, 1, h) for h in horizons if h == horizons[0] or h < 2 * batch.num_steps]
    return min(plans, key=lambda plan: plan.cost)._replace(method="greedy")


def best_static(batch: Batch) -> Plan:
    """A set chosen in hindsight, one item at a time by marginal gain; each enters at its first arrival, for good."""
    found = gains(batch)
    steps, items = found.gain.shape
    first = np.where(found.may.any(axis=0), found.may.argmax(axis=0), steps)
    first = np.where(found.start, -1, first)
    usable = np.where(np.arange(steps)[:, None] > first, found.gain, 0.0)
    best = np.zeros((steps, found.slots))  # the largest gains of the chosen items, ascending
    chosen = found.start.copy() if found.start.sum() == batch.capacity else np.zeros(items, bool)
    while chosen.sum() < batch.capacity:
        gain = np.maximum(usable - best[:, :1], 0).sum(axis=0) - np.where(found.start, 0.0, batch.lam[0])
        gain[chosen] = -np.inf
        pick = int(gain.argmax())
        if gain[pick] <= 0:
            break
        chosen[pick] = True
        best[:, 0] = np.maximum(best[:, 0], usable[:, pick])
        best.sort(axis=1)
    contents = np.zeros((steps + 1, items), bool)
    contents[0] = found.start
    for t in range(steps):
        contents[t + 1] = contents[t]
        item = int(batch.arrival[0, t])
        if item >= 0 and chosen[item] and not contents[t, item]:
            if contents[t].sum() == batch.capacity:
                contents[t + 1, np.flatnonzero(contents[t] & ~chosen)[0]] = False
            contents[t + 1, item] = True
    return price_plan(batch, contents, "static")


def price_guided(batch: Batch, bound: Bound) -> Plan:
    """Follows the certificate's prices: an item is worth what having it saves ahead, at those prices.

    The arrival replaces the resident of least worth if it is worth more by lam. The better the prices, the smaller the
    gap between this plan and the bound.
    """
    found = gains(batch)
    ahead = values_ahead(found, float(batch.lam[0]), bound.capacity_price, bound.slot_price)
    worth = ahead[:, 0] - ahead[:, 1]
    contents = np.zeros((batch.num_steps + 1, batch.num_items), bool)
    contents[0] = found.start
    for t in range(batch.num_steps):
        now = contents[t].copy()
        item = int(batch.arrival[0, t])
        if item >= 0 and not now[item]:
            held = np.flatnonzero(now)
            full = len(held) == batch.capacity
            weakest = held[worth[t + 1, held].argmin()] if full else -1
            rival = max(float(worth[t + 1, weakest]), 0.0) if full else 0.0
            if worth[t + 1, item] - batch.lam[0] > rival:
                if full:
                    now[weakest] = False
                now[item] = True
        contents[t + 1] = now
    return price_plan(batch, contents, "price_guided")


def beam(batch: Batch, width: int = 16, horizon: int = 128) -> Plan:
    """Keeps the `width` best partial plans, by cost so far minus the gain of standing still for `horizon` steps.

    Raises:
      TheoryError: width or horizon < 1.
    """
    if width < 1 or horizon < 1:
        raise TheoryError(f"width = {width} and horizon = {horizon} must be >= 1")
    found, lam = gains(batch), float(batch.lam[0])
    alive: list[tuple[float, list[np.ndarray]]] = [(0.0, [found.start])]
    for t in range(batch.num_steps):
        ahead = found.gain[t + 1 : t + 1 + horizon]
        item = int(batch.arrival[0, t])
        pool: dict[bytes, tuple[float, float, np.ndarray, int]] = {}
        for number, (cost, contents) in enumerate(alive):
            now = contents[-1]
            held = np.flatnonzero(now)
            cost += float(found.asked[t]) - _top_sum(found.gain[t, held][None], found.slots)[0]
            stay = float(_top_sum(ahead[:, held], found.slots).sum())
            options = [(cost, cost - stay, now)]
            if item >= 0 and not now[item]:
                for gone, gain in _swaps(found, ahead, held, item, stay, batch.capacity):
                    after = now.copy()
                    after[item] = True
                    paid = lam
                    if gone >= 0:
                        after[gone] = False
                    elif batch.conventions.fill_free:
                        paid = 0.0
                    options.append((cost + paid, cost + paid - gain, after))
            for spent, score, after in options:
                key = after.tobytes()
                if key not in pool or spent < pool[key][0] - 1e-12:
                    pool[key] = (spent, score, after, number)
        ranked = sorted(pool.values(), key=lambda entry: entry[1])[:width]
        alive = [(spent, [*alive[number][1], after]) for spent, _, after, number in ranked]
    plans = (price_plan(batch, np.stack(contents), "beam") for _, contents in alive)
    return min(plans, key=lambda plan: plan.cost)


def _top_sum(values: np.ndarray, slots: int) -> np.ndarray:
    """Sum of the `slots` largest of each row of `values [H, m]`."""
    if values.shape[1] <= slots:
        return values.sum(axis=1)
    if slots == 1:
        return values.max(axis=1)
    return np.partition(values, -slots, axis=1)[:, -slots:].sum(axis=1)


def _swaps(
    found: Gains, ahead: np.ndarray, held: np.ndarray, item: int, stay: float, capacity: int
) -> list[tuple[int, float]]:
    """(item that leaves or -1, gain over the steps ahead) of inserting `item`."""
    new, slots = ahead[:, item], found.slots
    if len(held) < capacity:
        values = np.concatenate([ahead[:, held], new[:, None]], axis=1)
        return [(-1, float(_top_sum(values, slots).sum()))]
    padded = np.concatenate([ahead[:, held], np.zeros((len(ahead), 1))], axis=1)
    count = min(slots, len(held))
    order = np.argpartition(-padded, count, axis=1)[:, : count + 1] if padded.shape[1] > count + 1 else None
    if order is None:
        order = np.argsort(-padded, axis=1)[:, : count + 1]
    near = np.take_along_axis(padded, order, axis=1)
    rank = np.argsort(-near, axis=1, kind="stable")
    order, near = np.take_along_axis(order, rank, axis=1), np.take_along_axis(near, rank, axis=1)
    last, spare = near[:, count - 1], near[:, count]
    gain = np.full(len(held), stay + np.maximum(new - last, 0).sum())
    for r in range(count):
        # Where the leaving item was counted, the next best moves up and the new one competes with that.
        change = spare - near[:, r] + np.maximum(new - spare, 0) - np.maximum(new - last, 0)
        gain += np.bincount(order[:, r], change, minlength=len(held) + 1)[: len(held)]
    return [(int(i), float(g)) for i, g in zip(held, gain, strict=True)]
