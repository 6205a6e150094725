"""Epochs of a gated run against an optimal plan: what Def1, its sufficient form and the T3 certificate speak about.

An epoch runs from one opening of the gate to the next, the opening step included. A step at which the gate opens on a
resident arrival ends an epoch too (c starts again) but pays no switch.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from theory.engine import Played
from theory.errors import TheoryError
from theory.losses import set_losses
from theory.model import Batch
from theory.opt_exact import Path, paid_switches


class Epochs(NamedTuple):
    """One entry per finished epoch, over all instances.

    instance, first, last: where it is.      cost: SOLAR's losses plus its switch.    loss: SOLAR's losses c_j.
    opt_loss, opt_cost: OPT's losses, and with its switches.   opt_keeps: OPT changed nothing in it.
    length: steps.   differing: the largest number of items, over its steps, that one of the caches holds and the other
    does not (the larger side).
    """

    instance: np.ndarray
    first: np.ndarray
    last: np.ndarray
    cost: np.ndarray
    loss: np.ndarray
    opt_loss: np.ndarray
    opt_cost: np.ndarray
    opt_keeps: np.ndarray
    length: np.ndarray
    differing: np.ndarray

    def regular(self) -> np.ndarray:
        """`bool`: Def1 asks nothing (OPT changed) or is met (OPT loses at least half)."""
        return ~self.opt_keeps | (2 * self.opt_loss >= self.loss - 1e-6)

    def sufficient(self, tau: float, k: int) -> np.ndarray:
        """`bool`: |E| D / k <= tau / 2."""
        return self.length * self.differing / k <= tau / 2 + 1e-9

    def certificate(self) -> np.ndarray:
        """(c_j + lam) / OPT's cost in the epoch; inf where OPT pays nothing."""
        return np.where(self.opt_cost > 0, self.cost / np.maximum(self.opt_cost, 1e-300), np.inf)


def openings(batch: Batch, losses: np.ndarray, tau: np.ndarray) -> np.ndarray:
    """`[B, T] bool`: where a gate with fixed `tau [B]` opens, from its losses alone (in float32, as it is).

    Args:
      losses: `[B, T]`.
    """
    c = np.zeros(len(batch), np.float32)
    out = np.zeros(losses.shape, bool)
    limit = tau.astype(np.float32)
    for t in range(losses.shape[1]):
        c = c + losses[:, t].astype(np.float32)
        out[:, t] = (c >= limit) & (c > 0) & (batch.arrival[:, t] >= 0)
        c = np.where(out[:, t], np.float32(0), c)
    return out


def epochs(batch: Batch, played: Played, plan: Path, tau: np.ndarray) -> Epochs:
    """The finished epochs of a run of one key.

    Raises:
      TheoryError: a write where the gate cannot have opened: the run was of another gate or threshold.
    """
    losses, wrote = played.losses[:, 0], played.admitted[:, 0]
    opens = openings(batch, losses, tau)
    if (wrote & ~opens).any():
        raise TheoryError("the run wrote where a gate with this threshold is shut")
    lam = batch.lam[:, None]
    cost = losses + lam * played.changed[:, 0]
    opt_loss = set_losses(batch, plan.contents[:, :-1])
    opt_cost = opt_loss + lam * paid_switches(batch, plan.contents)
    own, best = played.contents[:, 0, :-1], plan.contents[:, :-1]
    differing = np.maximum((own & ~best).sum(axis=2), (best & ~own).sum(axis=2))
    where, last = np.nonzero(opens)
    fresh = np.concatenate([[True], where[1:] != where[:-1]])
    first = np.where(fresh, 0, np.concatenate([[0], last[:-1] + 1]))

    def total(x: np.ndarray) -> np.ndarray:
        run = np.concatenate([np.zeros((len(x), 1)), np.cumsum(x, axis=1)], axis=1)
        return run[where, last + 1] - run[where, first]

    most = np.array([differing[b, s : e + 1].max() for b, s, e in zip(where, first, last, strict=True)])
    return Epochs(
        instance=where,
        first=first,
        last=last,
        cost=total(cost),
        loss=total(losses),
        opt_loss=total(opt_loss),
        opt_cost=total(opt_cost),
        opt_keeps=total(plan.changed.astype(np.float64)) == 0,
        length=last - first + 1,
        differing=most,
    )
