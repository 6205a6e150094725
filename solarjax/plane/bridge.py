"""Which capsules stay hot, decided by any cache policy of solarjax: where the plane meets the laboratory.

The hot set is a semantic cache of fixed capacity. What the plane keeps is the history of use: a question's vector, and
the capsule that answered it (it arrives at the cache with the question, and is what the question needs). The residents
are what the laboratory's own engine ends with when it runs the policy over that history: lookup, score, policy, write,
as in every experiment.

A correction takes a capsule out by taking its uses out of the history. The residents are then exactly those of a world
in which it never was, for every policy, also those that remember more than the cache holds (ghosts, posteriors,
regret): nothing learnt from a wrong capsule stays behind. The price is a run over the history at the next look, tens of
milliseconds; the history is bounded, old uses fall off its end.

jax is imported with the first look, never with this module.
"""

from __future__ import annotations

import importlib
import threading
from collections import deque
from collections.abc import Collection, Sequence
from typing import Any, NamedTuple

import numpy as np

from solarjax.plane.audit import Audit
from solarjax.plane.capsules import VersionRef
from solarjax.plane.errors import Invalid
from solarjax.plane.results import WriteResult

_SMALLEST = 64
Vector = Sequence[float] | np.ndarray


class Use(NamedTuple):
    """One question and the capsule that answered it; vectors `[D] f32`."""

    capsule: VersionRef
    question: np.ndarray
    vector: np.ndarray


class HotSet:
    """The hot capsules of one tenant.

    Args:
      tenant: whose writes count.
      audit: of the catalogue, to learn what has ended.
      capacity: capsules kept, at least 1.
      policy: as on the command line, e.g. "lru" or "solar(lam=5)".
      history: uses remembered.
      k: capsules looked up for a question.
      seed: of the policy's random numbers.

    Register `written` with `Catalogue.listeners`. All methods may be called from several threads.

    Raises:
      Invalid: for a capacity, history or k below 1.
    """

    def __init__(
        self, tenant: str, audit: Audit, capacity: int, policy: str, *, history: int = 4096, k: int = 3, seed: int = 0
    ):
        for name, value in (("capacity", capacity), ("history", history), ("k", k)):
            if value < 1:
                raise Invalid(f"{name} is {value}; it must be at least 1", name)
        self._tenant = tenant
        self._audit = audit
        self._capacity = capacity
        self._policy = policy
        self._k = k
        self._seed = seed
        self._uses: deque[Use] = deque(maxlen=history)
        self._residents: tuple[VersionRef, ...] | None = ()
        self._latest: dict[VersionRef, None] = {}
        self._recorded = self._forgotten = 0
        self._lock = threading.Lock()

    @property
    def latest(self) -> Collection[VersionRef]:
        """What `residents` found last, less what has ended since: runs nothing and waits for nothing.

        In the order of `residents`, and as quick as a set where one asks whether a version is among them.
        """
        return self._latest.keys()

    def used(self, capsule: VersionRef, question: Vector, vector: Vector) -> bool:
        """A question was answered with a capsule; False if that has ended meanwhile, and nothing is remembered.

        Raises:
          Invalid: if a vector is not finite, is zero, or has another length than those before.
          NotFound: if there is no such version.
        """
        made = [np.asarray(v, np.float32) for v in (question, vector)]
        with self._lock:
            size = len(self._uses[0].vector) if self._uses else made[1].size
            for name, row in zip(("question", "vector"), made, strict=True):
                if row.shape != (size,) or not np.isfinite(row).all() or not row.any():
                    raise Invalid(f"{name} is not {size} finite numbers that are not all zero", name)
            # Asked under the lock: either the ending is seen here, or its listener waits and takes this use out again.
            # The catalogue remembers what ended, so that nothing here grows with the number of corrections.
            if self._audit.has_ended(self._tenant, capsule):
                return False
            self._uses.append(Use(capsule, *made))
            self._recorded += 1
            self._residents = None
            return True

    def written(self, tenant: str, result: WriteResult) -> None:
        """Listener: what a write ended leaves the hot set, all of it, before the write is answered."""
        if tenant == self._tenant and result.ended:
            self.forget(self._audit.all_ended(tenant, result))

    def forget(self, ended: Collection[VersionRef]) -> None:
        """What `written` does, for a caller who knows already what has ended."""
        with self._lock:
            kept = [use for use in self._uses if use.capsule not in ended]
            self._latest = {ref: None for ref in self._latest if ref not in ended}
            self._forgotten += 1
            if len(kept) < len(self._uses):
                self._uses = deque(kept, maxlen=self._uses.maxlen)
                self._residents = None

    def residents(self) -> tuple[VersionRef, ...]:
        """The hot capsules, in the order of the cache's slots.

        Raises:
          Invalid: if the policy does not exist or sees the future.
        """
        while True:
            with self._lock:
                if self._residents is not None:
                    return self._residents
                uses, recorded, forgotten = list(self._uses), self._recorded, self._forgotten
            # Not under the lock: a correction does not wait for the policy, which then runs again without its capsule.
            found = self._run(uses) if uses else ()
            with self._lock:
                if self._forgotten == forgotten:
                    self._latest = dict.fromkeys(found)
                    if self._recorded == recorded:
                        self._residents = found
                    return found

    def _run(self, uses: list[Use]) -> tuple[VersionRef, ...]:
        refs = list(dict.fromkeys(use.capsule for use in uses))
        number = {ref: i for i, ref in enumerate(refs)}
        ids = final_residents(
            self._policy, self._capacity,
            items=np.stack([next(u.vector for u in reversed(uses) if u.capsule == ref) for ref in refs]),
            queries=np.stack([use.question for use in uses]), answers=[number[use.capsule] for use in uses],
            k=self._k, seed=self._seed,
        )  # fmt: skip
        return tuple(refs[i] for i in ids)


def policy_case(policy: str) -> Any:
    """The one online policy that a name stands for; imports jax.

    Raises:
      Invalid: if jax is not installed, the policy does not exist, it sees the future, or more than one is named.
    """
    try:
        importlib.import_module("jax")
    except ImportError:
        raise Invalid("a hot set needs jax: pip install solarjax with its dependencies") from None
    registry = importlib.import_module("solarjax.policies.registry")
    try:
        cases, _ = registry.parse_cases(policy, [])
    except ValueError as error:
        raise Invalid(str(error), "policy") from None
    if len(cases) != 1:
        raise Invalid(f"policy {policy!r} names {len(cases)} policies; one decides", "policy")
    if not cases[0].spec.online:
        raise Invalid(f"policy {policy!r} looks into the future, which a plane does not have", "policy")
    return cases[0]


def final_residents(
    policy: str, capacity: int, *, items: np.ndarray, queries: np.ndarray, answers: Sequence[int], k: int, seed: int
) -> list[int]:
    """Items in the cache after the engine has run a policy over a history.

    Args:
      items: `[M, D] f32`. queries: `[T, D] f32`. answers: the item that answers each query, and arrives with it.

    Raises:
      Invalid: see `HotSet.residents`.
    """
    case = policy_case(policy)
    jax = importlib.import_module("jax")
    jnp = jax.numpy
    engine = {n: importlib.import_module(f"solarjax.core.{n}") for n in ("execute", "lanes", "streams", "trace")}
    sources = importlib.import_module("solarjax.workloads.sources")
    # Powers of two: a longer history needs a new compilation only when it has doubled. Steps without a question and
    # without an arrival change nothing, by the policies' contract.
    steps, rows = _padded(len(queries)), _padded(len(items))
    asked = np.full(steps, engine["trace"].NO_QUERY, np.int32)
    asked[: len(queries)] = np.arange(len(queries))
    arrival = np.full(steps, engine["trace"].NO_ITEM, np.int32)
    arrival[: len(answers)] = answers
    indptr = np.minimum(np.arange(steps + 1), len(answers)).astype(np.int32)
    trace = engine["trace"].Trace(
        name="hot set", items=_filled(items, rows), queries=_filled(queries, steps), query=asked, arrival=arrival,
        mode=np.full(steps, int(engine["trace"].StepMode.SCORED), np.uint8), relevant_indptr=indptr,
        relevant_indices=np.asarray(answers, np.int32),
    )  # fmt: skip
    source = sources.RecordedSource([trace])
    needs = case.needs
    slots = rows if case.spec.unbounded else capacity
    rules = engine["execute"].make_rules(case, slots, source, min(k, slots), "hit", "retrieved", 0.5, False)
    block = source.block([(0, 0)], 0, needs.pairwise or needs.candidate_similarity, False)
    key = jax.random.key_data(engine["streams"].per_seed(seed, engine["streams"].POLICY, "hot set", [0]))
    zero = jnp.zeros(1, jnp.int32)
    lanes = engine["lanes"].Lanes(
        table=zero, pair=zero, capacity=jnp.full(1, slots, jnp.int32), key=jnp.asarray(key).T,
        params={name: jnp.full(1, value, jnp.float32) for name, value in case.traced},
    )  # fmt: skip
    tables = block.tables
    if not (rules.pairwise or rules.candidate_similarity):
        tables = tables._replace(item_similarity=None)
    schedule = block.schedule._replace(future_uses=None, next_use=None, last_asked=None)
    carry, _ = _compiled()(rules, tables, schedule, lanes)
    ids = np.asarray(carry.store.ids)[:, 0]
    return [int(i) for i in ids if i != engine["trace"].NO_ITEM]


_COMPILED: list[Any] = []


def _compiled() -> Any:
    if not _COMPILED:
        jax = importlib.import_module("jax")
        rollout = importlib.import_module("solarjax.core.rollout").rollout
        _COMPILED.append(jax.jit(rollout, static_argnums=0))
    return _COMPILED[0]


def _padded(count: int) -> int:
    return max(_SMALLEST, 1 << (count - 1).bit_length())


def _filled(rows: np.ndarray, count: int) -> np.ndarray:
    """Rows up to `count`; those that were added are never asked for, and must be unit vectors all the same."""
    filler = np.zeros((count - len(rows), rows.shape[1]), np.float32)
    filler[:, 0] = 1.0
    return np.concatenate([rows.astype(np.float32), filler])
