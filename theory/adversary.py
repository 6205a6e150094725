"""The adversary suite: families with closed forms, the cruel adversary, and the search.

`FAMILIES` are the constructions; `cruel` builds the worst requests for one given policy by asking for what it lacks;
`search.search` knows none of them.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from solarjax.policies.registry import PolicyCase, parse_cases
from theory import opt
from theory.engine import play
from theory.errors import TheoryError
from theory.families import gate, paging
from theory.families.base import Family
from theory.model import Batch, Conventions

FAMILIES: dict[str, Family] = {f.name: f for f in (*paging.FAMILIES, *gate.FAMILIES)}
TOLERANCE = 1e-9


class ClosedForm(NamedTuple):
    """One policy on one member of a family: predicted and measured cost, predicted and exact OPT."""

    family: str
    policy: str
    params: dict[str, Any]
    cost: float
    predicted_cost: float
    opt: float
    predicted_opt: float

    @property
    def ratio(self) -> float:
        """Measured cost / exact OPT."""
        return self.cost / self.opt


def closed_forms(name: str, **params: Any) -> list[ClosedForm]:
    """Measures a family member with every policy it has a closed form for.

    Args:
      name: a key of FAMILIES.   **params: over the family's defaults.

    Raises:
      TheoryError: an unknown family or parameter, or a closed form that does not agree with the engine or exact OPT.
    """
    if name not in FAMILIES:
        raise TheoryError(f"unknown family {name!r} (known: {', '.join(FAMILIES)})")
    family = FAMILIES[name]
    unknown = set(params) - set(family.defaults)
    if unknown:
        raise TheoryError(
            f"family {name} has no parameter {sorted(unknown)[0]!r} (it has: {', '.join(family.defaults)})"
        )
    full = {**family.defaults, **params}
    one = family.build(**full)
    best, predicted = float(opt.exact(one).cost[0]), float(family.opt(**full))
    if predicted < best - TOLERANCE or (family.opt_exact and predicted > best + TOLERANCE):
        raise TheoryError(f"{one.names[0]}: the closed form says OPT = {predicted}, the recursion {best}")
    rows = []
    for text, formula in family.costs.items():
        case = parse_cases(text)[0][0]
        cost, expected = float(play(case, one).cost[0, 0]), float(formula(**full))
        if abs(cost - expected) > TOLERANCE * max(1.0, expected):
            raise TheoryError(f"{one.names[0]}: the closed form says {case.name} pays {expected}, the engine {cost}")
        rows.append(ClosedForm(name, case.label, full, cost, expected, best, predicted))
    return rows


def cruel(
    case: PolicyCase, K: int, lam: float, T: int, *, keys: int = 1, root_key: int = 0, touch: str = "retrieved"
) -> Batch:
    """Requests over K + 1 pages, each for the page that the policy is most likely to lack (Sleator and Tarjan, 1985).

    Built forwards: what a policy does up to step t does not depend on later requests, so each prefix is run and the
    next request read off its contents. A randomised policy is met by an oblivious adversary who knows its law (from
    `keys` runs) and not its coins. The page asked for arrives after its query.
    """
    conventions = Conventions(touch=touch)
    requests = np.zeros(T, np.int32)
    table = np.eye(K + 1)[None]
    for t in range(T + 1):
        one = Batch(
            relevance=table,
            similarity=table,
            query=requests[None],
            arrival=requests[None],
            lam=np.array([lam]),
            capacity=K,
            conventions=conventions,
            names=(f"cruel({case.name},K={K},lam={lam:g},T={T})",),
        )
        if t == T:
            return one
        held = play(case, one, keys=keys, root_key=root_key).contents[0, :, t].mean(axis=0)
        # Of equally likely misses, the page asked longest ago.
        last = np.array([np.flatnonzero(requests[:t] == i).max(initial=-1) for i in range(K + 1)])
        requests[t] = np.lexsort((last, np.round(held, 9)))[0]
    raise AssertionError("the loop returns")
