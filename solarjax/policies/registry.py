"""Every policy by name. A new policy is its file and one line here; tests, CLI, tables and docs read this."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from solarjax.core import params as parameters
from solarjax.core.params import Param
from solarjax.core.types import Policy
from solarjax.policies import solar as s
from solarjax.policies.admission.always import always
from solarjax.policies.admission.controls import bernoulli, keep_first, reservoir
from solarjax.policies.combine import combine
from solarjax.policies.joint.arc import arc
from solarjax.policies.joint.oracle import oracle
from solarjax.policies.joint.oracle_cover import oracle_cover
from solarjax.policies.victims.fifo import fifo
from solarjax.policies.victims.gdsf import gdsf
from solarjax.policies.victims.k_center import k_center
from solarjax.policies.victims.lfu import lfu
from solarjax.policies.victims.lru import lru
from solarjax.policies.victims.lru_k import DEEPEST, lru_k
from solarjax.policies.victims.posterior_mean import posterior_mean
from solarjax.policies.victims.redundancy import redundancy
from solarjax.policies.victims.s3_fifo import s3_fifo
from solarjax.policies.victims.sieve import sieve
from solarjax.policies.victims.thompson import NOVELTY_NEIGHBOURS
from solarjax.policies.victims.two_q import two_q
from solarjax.policies.victims.uniform import uniform
from solarjax.policies.victims.w_tinylfu import w_tinylfu
from solarjax.policies.victims.weighted_value import weighted_value


class PolicyError(ValueError):
    """An unknown policy or parameter, or a value out of range; the message says what is allowed."""


class Needs(NamedTuple):
    """What a policy asks of the engine; each costs something, so none is on by default.

    candidate_similarity: cosine of the arriving item to each resident.
    pairwise: cosine between residents, inside `victim` only.
    nearest: with `pairwise`, how many of a resident's nearest others the rule reads at most; 0 if it needs all pairs.
    costly_victim: run `victim` only for the lanes that need one.
    future: counts of later uses (offline policies only).
    coverage: which later queries each item serves (offline policies only).
    """

    candidate_similarity: bool = False
    pairwise: bool = False
    nearest: int = 0
    costly_victim: bool = False
    future: bool = False
    coverage: bool = False


class PolicySpec(NamedTuple):
    """One registry line.

    make(**params) -> Policy; may be called with traced values for parameters that are not static.
    paper: reference.  summary: one line.  params: what can be set.  needs(params) -> Needs.
    online: uses nothing of the future.  stochastic: draws random numbers.  unbounded: ignores K (keeps everything).
    stack: where only true hits count as accesses, a larger cache always holds what a smaller one does (inclusion).
    """

    make: Callable[..., Policy]
    paper: str
    summary: str
    params: Mapping[str, Param] = {}
    needs: Callable[[Mapping[str, Any]], Needs] = lambda params: Needs()
    online: bool = True
    stochastic: bool = False
    unbounded: bool = False
    stack: bool = False


SOLAR_PAPER = "SOLAR, arXiv 2607.00394"
_GATE, _TS, _WV = s.GATE_PARAMS, s.THOMPSON_PARAMS, s.WEIGHTED_PARAMS
# The rules as printed: EMA threshold on the miss cost, bonus decaying with age, ageing per idle item, flat prior.
_AS_PRINTED_GATE = {"threshold": "paper_ema", "signal": "miss", "fill": "gated"}
_AS_PRINTED_TS = {
    "bonus": "age",
    "ageing": "idle",
    "clock": "queries",
    "prior_alpha": 1.0,
    "prior_beta": 1.0,
    "age_period": 10,
}


def _with(params: Mapping[str, Param], **defaults: Any) -> dict[str, Param]:
    """The same parameters with other defaults: how a named variant differs from its base."""
    return {name: p._replace(default=defaults.get(name, p.default)) for name, p in params.items()}


def _needs(params: Mapping[str, Any]) -> Needs:
    """Needs of the SOLAR family, from its structural parameters."""
    bonus = params.get("bonus")
    nearest = NOVELTY_NEIGHBOURS if bonus in ("similarity", "similarity_age") else int("recency_weight" in params)
    return Needs(
        candidate_similarity=params.get("signal") == "information_gain",
        pairwise=nearest > 0,
        nearest=nearest,
        costly_victim=bonus is not None or "recency_weight" in params,
    )


def _gate(threshold: str) -> dict[str, Param]:
    return _with(_GATE, threshold=threshold, signal="miss", fill="gated")


_COIN = {
    "p": Param(0.17, "admission probability once full (or always, if fill=gated)", low=0.0, high=1.0),
    "fill": Param("free", "what is admitted regardless while filling up", choices=("free", "gated"), static=True),
}

_TWO_Q = {
    "in_fraction": Param(0.25, "share of the queue of new items, at least one slot", low=0.0, high=1.0),
    "out_fraction": Param(0.5, "ids remembered of those that left it, over K, at least one", low=0.0, high=1.0),
}
_TINY = {
    "window_fraction": Param(0.01, "share of the recency window, at least one slot", low=0.0, high=1.0),
    "protected_fraction": Param(0.8, "share of the rest that is protected", low=0.0, high=1.0),
}
_SMALL = {"small_fraction": Param(0.1, "share of the small queue that new items enter", low=0.0, high=1.0)}
_HISTORY = {"history": Param(2, "the K of LRU-K: accesses counted back", low=1, high=DEEPEST)}
_MISS_WEIGHT = {
    "miss_weight": Param(0.0, "cost of missing an item: 1 + this times the miss cost it came with", low=0.0)
}
_MEAN = {name: _TS[name] for name in ("prior_alpha", "prior_beta", "bonus_weight", "age_step", "age_period")}

# fmt: off
POLICIES: dict[str, PolicySpec] = {
    "unlimited": PolicySpec(lambda: combine(always(), fifo()), SOLAR_PAPER + ", 6.1.2", "keeps everything (upper reference)", unbounded=True),
    "fifo": PolicySpec(lambda: combine(always(), fifo()), SOLAR_PAPER + ", 6.1.2", "first in, first out"),
    "lru": PolicySpec(lambda: combine(always(), lru()), SOLAR_PAPER + ", 6.1.2", "least recently retrieved leaves", stack=True),
    "lfu": PolicySpec(lambda: combine(always(), lfu()), SOLAR_PAPER + ", 6.1.2", "least often retrieved leaves"),
    "arc": PolicySpec(arc, "Megiddo and Modha, FAST 2003", "adaptive recency/frequency balance with ghost lists"),
    "solar_e": PolicySpec(s.solar_e, SOLAR_PAPER + ", 4.3", "Thompson eviction, admits everything", _TS, _needs, stochastic=True),
    "solar_a": PolicySpec(s.solar_a, SOLAR_PAPER + ", 4.2", "regret-gated admission, weighted-value eviction", {**_GATE, **_WV}, _needs),
    "solar": PolicySpec(s.solar, SOLAR_PAPER + ", 4", "regret-gated admission, Thompson eviction", {**_GATE, **_TS}, _needs, stochastic=True),
    "solar_paper": PolicySpec(s.solar, SOLAR_PAPER + ", Algorithm 1", "SOLAR as printed: EMA threshold, ageing bonus", {**_with(_GATE, **_AS_PRINTED_GATE), **_with(_TS, **_AS_PRINTED_TS)}, _needs, stochastic=True),
    "solar_eoq": PolicySpec(s.solar, SOLAR_PAPER + ", 4.2", "SOLAR with tau = sqrt(2 lam / L) on the miss cost", {**_gate("eoq"), **_TS}, _needs, stochastic=True),
    "solar_fixed": PolicySpec(s.solar, SOLAR_PAPER + ", Theorem 3", "SOLAR with tau = 2 lam on the miss cost", {**_gate("fixed"), **_TS}, _needs, stochastic=True),
    "solar_e_paper": PolicySpec(s.solar_e, SOLAR_PAPER + ", 4.3", "Thompson eviction as printed: ageing bonus, idle ageing", _with(_TS, **_AS_PRINTED_TS), _needs, stochastic=True),
    "solar_e_discounted": PolicySpec(s.solar_e, "Raj and Kalyani, arXiv 1707.09727", "discounted Thompson eviction", _with(_TS, forget="discount", ageing="none"), _needs, stochastic=True),
    "posterior_mean": PolicySpec(lambda **p: combine(always(), posterior_mean(**p)), SOLAR_PAPER + ", 4.3 (greedy ablation)", "evicts by the posterior's mean, no sampling", _MEAN, lambda p: Needs(pairwise=True, nearest=NOVELTY_NEIGHBOURS, costly_victim=True)),
    "weighted_value": PolicySpec(lambda **p: combine(always(), weighted_value(**p)), SOLAR_PAPER + ", 4.2 (ablation)", "multi-score eviction alone, admits everything", _WV, _needs),
    "gated_fifo": PolicySpec(s.gated_fifo, SOLAR_PAPER + ", 4.2", "regret-gated admission, FIFO eviction", _GATE, _needs),
    "two_q": PolicySpec(lambda **p: combine(always(), two_q(**p)), "Johnson and Shasha, VLDB 1994", "2Q: queue of new items, LRU of those that came back", _TWO_Q),
    "s3_fifo": PolicySpec(lambda **p: combine(always(), s3_fifo(**p)), "Yang et al., SOSP 2023", "S3-FIFO: small and main queue with second chances", _SMALL),
    "sieve": PolicySpec(lambda: combine(always(), sieve()), "Zhang et al., NSDI 2024", "SIEVE: one queue, a visited bit and a moving hand"),
    "w_tinylfu": PolicySpec(lambda **p: combine(always(), w_tinylfu(**p)), "Einziger, Friedman and Manes, ACM ToS 2017", "W-TinyLFU: recency window, segmented LRU, frequency sketch", _TINY),
    "lru_k": PolicySpec(lambda **p: combine(always(), lru_k(**p)), "O'Neil, O'Neil and Weikum, SIGMOD 1993", "LRU-K: K-th last access longest ago leaves", _HISTORY),
    "gdsf": PolicySpec(lambda **p: combine(always(), gdsf(**p)), "Cherkasova, HPL-98-69R1, 1998", "GreedyDual-Size-Frequency: frequency times cost on a clock", _MISS_WEIGHT),
    "redundancy": PolicySpec(lambda: combine(always(), redundancy()), "after Carbonell and Goldstein, SIGIR 1998", "the resident closest to another leaves", needs=lambda p: Needs(pairwise=True, nearest=1, costly_victim=True)),
    "k_center": PolicySpec(lambda: combine(always(), k_center()), "after Gonzalez, TCS 1985", "diversity: whose removal hurts coverage least leaves", needs=lambda p: Needs(candidate_similarity=True, pairwise=True, costly_victim=True)),
    "random": PolicySpec(lambda: combine(always(), uniform()), "control", "admits everything, uniformly random victim", stochastic=True),
    "bernoulli": PolicySpec(lambda **p: combine(bernoulli(**p), fifo()), "control", "admits by a coin of probability p, FIFO eviction", _COIN, stochastic=True),
    "keep_first": PolicySpec(lambda: combine(keep_first(), fifo()), "control", "never changes a full cache", stack=True),
    "reservoir": PolicySpec(lambda: combine(reservoir(), uniform()), "Vitter, ACM TOMS 1985", "uniform sample of all arrivals", stochastic=True),
    "oracle": PolicySpec(oracle, "after Belady, IBM Systems Journal 1966", "clairvoyant heuristic: keeps the most future uses", needs=lambda p: Needs(future=True), online=False),
    "oracle_cover": PolicySpec(oracle_cover, "after Belady, IBM Systems Journal 1966", "clairvoyant heuristic: covers the most future queries", needs=lambda p: Needs(coverage=True), online=False),
}
# fmt: on

PAPER_EIGHT = ("unlimited", "fifo", "lru", "lfu", "arc", "solar_e", "solar_a", "solar")
"""The policies the paper compares, in its order."""


class PolicyCase(NamedTuple):
    """One policy of a sweep: registry name, label, and every parameter resolved.

    static: structural choices, they change the program.  traced: numbers, they may become a grid axis.
    """

    name: str
    label: str
    static: tuple[tuple[str, Any], ...]
    traced: tuple[tuple[str, float], ...]

    @property
    def spec(self) -> PolicySpec:
        """The registry line."""
        return POLICIES[self.name]

    @property
    def needs(self) -> Needs:
        """What this case asks of the engine."""
        return self.spec.needs(dict(self.static) | dict.fromkeys(n for n, _ in self.traced))


def case(name: str, label: str | None = None, **params: Any) -> PolicyCase:
    """A policy with parameters, checked.

    Raises:
      PolicyError: unknown policy or parameter (with a suggestion), or a value that is not allowed.
    """
    parameters.check_name("policy", name, POLICIES, PolicyError)
    spec = POLICIES[name]
    full = parameters.resolve(name, spec.params, params, PolicyError)
    # In the registry's order, so that one choice has one label however it was written.
    changed = {k: v for k, v in full.items() if v != spec.params[k].default}
    return PolicyCase(
        name=name,
        label=label or name + (f"({','.join(f'{k}={_show(v)}' for k, v in changed.items())})" if changed else ""),
        static=tuple((k, v) for k, v in full.items() if spec.params[k].static),
        traced=tuple((k, float(v)) for k, v in full.items() if not spec.params[k].static),
    )


def _show(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)


def parse_cases(text: str, params: list[str] | None = None) -> tuple[list[PolicyCase], dict[str, list[float]]]:
    """Cases from a command line.

    Args:
      text: comma-separated names, each with optional `(name=value,...)`; `all` is the paper's eight, `every` the
        whole registry.
      params: `name=value` sets a parameter of every named policy that has it; `name=v1,v2` makes it a grid axis.

    Returns:
      The cases, and the grid: parameter -> values.

    Raises:
      PolicyError: as `case`, also for a repeated case and for a parameter that none of the policies has.
    """
    names = _split_outside_brackets(text)
    if not names:
        raise PolicyError(f"no policy named in {text!r}; name some of {', '.join(POLICIES)}, or all, or every")
    wanted: list[tuple[str, dict[str, str]]] = []
    for part in names:
        groups = {"all": PAPER_EIGHT, "every": tuple(POLICIES)}
        if part in groups:
            wanted += [(name, {}) for name in groups[part]]
            continue
        name, _, inside = part.partition("(")
        if inside and not inside.endswith(")"):
            raise PolicyError(f"policy {part!r}: the bracket is not closed")
        pairs = [p for p in inside[:-1].split(",") if p] if inside else []
        wanted.append((name.strip(), dict(_pair(p) for p in pairs)))
    grid: dict[str, list[float]] = {}
    for text_pair in params or []:
        key, value = _pair(text_pair)
        for name, _ in wanted:
            parameters.check_name("policy", name, POLICIES, PolicyError)
        owners = [name for name, _ in wanted if key in POLICIES[name].params]
        if not owners:
            known = {k for name, _ in wanted for k in POLICIES[name].params}
            parameters.check_name("parameter of the named policies", key, known, PolicyError)
        values = value.split(",")
        spec = POLICIES[owners[0]].params[key]
        if len(values) > 1:
            if spec.static:
                raise PolicyError(
                    f"{key} is a structural choice; name the policy twice instead, as in {owners[0]}({key}={values[0]})"
                )
            grid[key] = [float(parameters.check_value(owners[0], key, spec, v, PolicyError)) for v in values]
            if len(set(grid[key])) < len(grid[key]):
                raise PolicyError(f"{key} = {value}: a grid needs different values")
            value = values[0]
        wanted = [(n, {key: value, **own} if n in owners and len(values) == 1 else own) for n, own in wanted]
    cases = [case(name, **own) for name, own in wanted]
    labels = [c.label for c in cases]
    twice = sorted({x for x in labels if labels.count(x) > 1})
    if twice:
        raise PolicyError(f"policy {twice[0]!r} is named twice")
    return cases, grid


def _pair(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals or not name.strip() or not value.strip():
        raise PolicyError(f"{text!r} is not name=value")
    return name.strip(), value.strip()


def _split_outside_brackets(text: str) -> list[str]:
    parts, depth = [""], 0
    for char in text:
        depth += (char == "(") - (char == ")")
        if char == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += char
    return [p.strip() for p in parts if p.strip()]
