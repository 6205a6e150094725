"""The linear-programming relaxation through HiGHS, for instances that are small enough for a general solver.

Cross-check of the Lagrangian bound, and a second certificate: HiGHS's dual prices are put into `certificate`, so the
bound does not rest on the solver's tolerance. T = N = 500 is already out of reach (half a million variables); use the
Lagrangian there. For k = 1 and exact matches the constraint matrix is an interval matrix, so the LP equals OPT.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy import sparse
from scipy.optimize import linprog

from theory.errors import TheoryError
from theory.model import Batch
from theory.opt_lagrangian import certificate
from theory.opt_relaxed import free_fills, gains, insertion_price

MAX_VARIABLES = 200_000


class LinearBound(NamedTuple):
    """value: the LP's optimum, up to the solver's tolerance.   certified: D(p, q) at its dual prices, no tolerance."""

    value: float
    certified: float


def lp_bound(batch: Batch) -> LinearBound:
    """Lower bound on OPT of one instance: x cached, y <= x retrieved, z inserted.

    Raises:
      TheoryError: more than MAX_VARIABLES variables, or the solver fails.
    """
    found = gains(batch)
    steps, items = found.gain.shape
    cells = steps * items
    if 3 * cells > MAX_VARIABLES:
        raise TheoryError(f"the LP has {3 * cells} variables, the limit is {MAX_VARIABLES}; use the Lagrangian bound")
    one, none = sparse.identity(cells, format="csr"), sparse.csr_matrix((cells, cells))
    per_step = sparse.kron(sparse.identity(steps), np.ones((1, items)), format="csr")
    blank = sparse.csr_matrix((steps, cells))
    # x_{t+1,i} - x_{t,i} - z_{t,i} <= 0; z is 0 where the item may not be inserted.
    later = sparse.eye(cells - items, cells, k=items, format="csr")
    now = sparse.eye(cells - items, cells, format="csr")
    rows = [
        sparse.hstack([per_step, blank, blank]),
        sparse.hstack([blank, per_step, blank]),
        sparse.hstack([-one, one, none]),
        sparse.hstack([later - now, sparse.csr_matrix((cells - items, cells)), -now]),
    ]
    limits = [np.full(steps, batch.capacity), np.full(steps, found.slots), np.zeros(cells), np.zeros(cells - items)]
    upper = np.ones((3, steps, items))
    upper[0, 0] = found.start
    upper[2] = found.may
    cost = np.concatenate([np.zeros(cells), -found.gain.ravel(), np.full(cells, insertion_price(batch))])
    bounds = np.stack([np.zeros(3 * cells), upper.ravel()], axis=1)
    done = linprog(
        cost, A_ub=sparse.vstack(rows, format="csr"), b_ub=np.concatenate(limits), bounds=bounds, method="highs"
    )
    if done.status != 0:
        raise TheoryError(f"HiGHS found no optimum: {done.message}")
    price = np.maximum(-done.ineqlin.marginals[: 2 * steps], 0).reshape(2, steps)
    certified = certificate(found, insertion_price(batch), batch.capacity, price[0], price[1])
    free = free_fills(batch)
    return LinearBound(max(float(found.asked.sum() + done.fun) - free, 0.0), max(certified - free, 0.0))
