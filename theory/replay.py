"""Counterexamples as files, and their replay: the step-by-step costs of the policy and of OPT."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from solarjax.core.trace import NO_ITEM, NO_QUERY
from solarjax.policies.registry import PolicyCase, PolicyError, case
from theory import opt
from theory.competitive import ratio
from theory.engine import play
from theory.errors import TheoryError
from theory.instances import from_json, read_json, to_json
from theory.losses import set_losses
from theory.model import Batch
from theory.opt_exact import paid_switches
from theory.results import write_json

FORMAT, VERSION = "solarjax counterexample", 1
TOLERANCE = 1e-9
"""Relative difference to the stored figures that a replay may have."""
FIELDS = {"format", "version", "check", "claim", "bound", "policy", "keys", "root_key", "instance", "figures"}


class Replay(NamedTuple):
    """cost, opt, ratio: as computed now.   stored: the same three from the file.   matches: equal to TOLERANCE.
    text: the table that was printed."""

    cost: float
    opt: float
    ratio: float
    stored: dict[str, float]
    matches: bool
    text: str


class Scored(NamedTuple):
    """Policy and OPT on one instance, step by step: contents `[T + 1, N]` (the policy's share of keys that hold the
    item), losses and switching costs `[T]`."""

    contents: np.ndarray
    losses: np.ndarray
    paid: np.ndarray
    opt_contents: np.ndarray
    opt_losses: np.ndarray
    opt_paid: np.ndarray

    @property
    def cost(self) -> float:
        """Mean cost of the policy."""
        return float(self.losses.sum() + self.paid.sum())

    @property
    def opt(self) -> float:
        """Exact OPT."""
        return float(self.opt_losses.sum() + self.opt_paid.sum())


def run(policy: PolicyCase, one: Batch, keys: int, root_key: int) -> Scored:
    """Plays one instance under `keys` policy keys, and OPT."""
    played = play(policy, one, keys=keys, root_key=root_key)
    plan = opt.exact_plan(one)
    lam = float(one.lam[0])
    return Scored(
        contents=played.contents[0].mean(axis=0),
        losses=played.losses[0].mean(axis=0),
        paid=lam * played.changed[0].mean(axis=0),
        opt_contents=plan.contents[0],
        opt_losses=set_losses(one, plan.contents[:, :-1])[0],
        opt_paid=lam * paid_switches(one, plan.contents)[0],
    )


def save(
    path: Path, policy: PolicyCase, one: Batch, *, keys: int, root_key: int, check: str, claim: str, bound: float | None
) -> Path:
    """Writes a counterexample with its figures.

    Args:
      bound: what the claim says the ratio is at most; None if it names no number.
    """
    keys = keys if policy.spec.stochastic else 1
    scored = run(policy, one, keys, root_key)
    cost = scored.cost - one.conventions.additive
    value = {
        "format": FORMAT,
        "version": VERSION,
        "check": check,
        "claim": claim,
        "bound": bound,
        "policy": {"name": policy.name, "parameters": dict(policy.static) | dict(policy.traced)},
        "keys": keys,
        "root_key": root_key,
        "instance": to_json(one),
        "figures": {"cost": cost, "opt": scored.opt, "ratio": float(ratio(cost, scored.opt))},
    }
    write_json(path, value)
    return path


def load(path: Path) -> tuple[PolicyCase, Batch, dict[str, Any]]:
    """Policy, instance and the other fields of a counterexample.

    Raises:
      TheoryError: the file cannot be read, or a field is missing, unknown or not allowed.
    """
    data = read_json(path)
    if not isinstance(data, dict) or data.get("format") != FORMAT:
        raise TheoryError(f"{path}: not a counterexample (format must be {FORMAT!r})")
    if data.get("version") != VERSION:
        raise TheoryError(f"{path}: version {data.get('version')!r} is not supported; this program reads {VERSION}")
    if set(data) != FIELDS:
        raise TheoryError(f"{path}: fields {sorted(set(data) ^ FIELDS)} are missing or unknown")
    one = from_json(data["instance"], f"{path}: instance")
    try:
        policy = case(str(data["policy"]["name"]), **data["policy"]["parameters"])
        keys, root, figures = int(data["keys"]), int(data["root_key"]), data["figures"]
        stored = {name: float(figures[name]) for name in ("cost", "opt", "ratio")}
    except (PolicyError, KeyError, TypeError, ValueError) as error:
        raise TheoryError(f"{path}: {error}") from error
    if keys < 1 or not 0 <= root < 2**32 or not np.isfinite(list(stored.values())).all():
        raise TheoryError(f"{path}: keys must be >= 1, root_key in 0..{2**32 - 1}, figures finite")
    return policy, one, {**data, "keys": keys, "root_key": root, "figures": stored}


def replay(path: Path | str, out: Callable[[str], Any] | None = print) -> Replay:
    """Runs the policy and OPT of a counterexample again and prints both, step by step.

    Args:
      path: a file that `save` wrote.   out: called once with the whole text; None prints nothing.

    Raises:
      TheoryError: see `load`.
    """
    policy, one, data = load(Path(path))
    scored = run(policy, one, data["keys"], data["root_key"])
    cost, best = scored.cost - one.conventions.additive, scored.opt
    now = {"cost": cost, "opt": best, "ratio": float(ratio(cost, best))}
    stored = data["figures"]
    matches = all(abs(now[k] - stored[k]) <= TOLERANCE * max(1.0, abs(stored[k])) for k in now)
    text = "\n".join(_table(policy, one, data, scored, now, matches))
    if out is not None:
        out(text)
    return Replay(cost, best, now["ratio"], stored, matches, text)


def _table(
    policy: PolicyCase, one: Batch, data: dict, scored: Scored, now: dict[str, float], matches: bool
) -> list[str]:
    lines = [
        f"{data['check']}: {data['claim']}",
        f"{policy.label} on {one.names[0]}: K = {one.capacity}, lam = {one.lam[0]:g}, quality {one.quality}, "
        f"k = {one.k}, {data['keys']} key(s)",
        f"conventions: {one.conventions}",
        "",
        "step  query answered by       arrives | policy holds          loss  switch"
        " | OPT holds             loss  switch",
    ]
    for t in range(one.num_steps):
        query, item = int(one.query[0, t]), int(one.arrival[0, t])
        asked = "-" if query == NO_QUERY else _answers(one, query)
        arrives = "-" if item == NO_ITEM else str(item)
        lines.append(
            f"{t:4d}  {asked:<22.22} {arrives:>8} | {_held(scored.contents[t]):<20.20} {scored.losses[t]:6.4g} "
            f"{scored.paid[t]:7.4g} | {_held(scored.opt_contents[t]):<20.20} {scored.opt_losses[t]:6.4g} "
            f"{scored.opt_paid[t]:7.4g}"
        )
    bound = "" if data["bound"] is None else f"; the claim says at most {data['bound']:.10g}"
    lines += [
        "",
        f"COST({policy.name}) = {now['cost']:.10g}, exact OPT = {now['opt']:.10g}, ratio = {now['ratio']:.12g}{bound}",
        f"stored ratio {data['figures']['ratio']:.12g}: " + ("reproduced" if matches else "NOT reproduced"),
    ]
    return lines


def _answers(one: Batch, query: int) -> str:
    graded = one.quality in ("max_similarity", "mean_similarity")
    row = (one.similarity if graded else one.relevance)[0, query]
    return " ".join(str(i) if row[i] == 1 else f"{i}({row[i]:.3g})" for i in np.flatnonzero(row > 0)) or "nothing"


def _held(share: np.ndarray) -> str:
    return " ".join(str(i) if share[i] == 1 else f"{i}({share[i]:.2g})" for i in np.flatnonzero(share > 0)) or "empty"
