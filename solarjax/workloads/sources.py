"""Sources: what turns workloads and recorded traces into device blocks for the sweep."""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from solarjax.core import streams
from solarjax.core.chunks import SweepError
from solarjax.core.metrics import slope_weights
from solarjax.core.source import Block, Pair, future_tables
from solarjax.core.tables import Schedule, Tables, workload_tables
from solarjax.core.trace import NO_ITEM, NO_QUERY, StepMode, Trace


def second_half(scored: np.ndarray) -> np.ndarray:
    """`[T] bool`: the scored steps after the first ceil(n/2)."""
    return scored & (np.cumsum(scored) > (int(scored.sum()) + 1) // 2)


def last_asked(query: np.ndarray, scored: np.ndarray, num_queries: int) -> Array:
    """`[Q, P] i32`: the last step at which each query is asked and scored, -1 if never. Inputs are `[T, P]`."""
    out = np.full((num_queries, query.shape[1]), -1, np.int32)
    step, pair = np.nonzero(scored)
    np.maximum.at(out, (query[step, pair], pair), step.astype(np.int32))
    return jnp.asarray(out)


class GeneratedSource:
    """A generated workload: every seed draws its own items, queries and order.

    Args:
      workload: from `workloads.registry.make`.
      availability: also count queries with a relevant resident (one more gather per step).
    """

    shared_tables = False
    same_for_all_seeds = False
    categories: tuple[str, ...] = ()
    answers = False

    def __init__(self, workload: Any, availability: bool = False):
        self.workload = workload
        self.availability = availability
        self.traces: tuple[str, ...] = (workload.name,)
        self.num_steps = workload.num_steps
        self.num_queries = workload.num_queries
        self.num_items = workload.num_items

    def fingerprint(self) -> dict:
        """Name and parameters; the content follows from them and the keys."""
        return {"workload": self.workload.name, "params": dict(self.workload.params)}

    def bytes_per_pair(self, pairwise: bool, future: bool) -> int:
        """Device bytes of one seed's tables."""
        q, m, t = self.num_queries, self.num_items, self.num_steps
        return 5 * q * m + 4 * m * m * pairwise + 8 * t * m * future + 4 * self.workload.dim * (q + m)

    def block(self, pairs: Sequence[Pair], root_seed: int, pairwise: bool, future: bool) -> Block:
        """Draws the workloads of the pairs' seeds."""
        keys = streams.per_seed(root_seed, streams.WORKLOAD, self.workload.name, [s for _, s in pairs])
        ok, tables, plan, futures = _generate(self.workload.generate, pairwise, future)(keys)
        ok = np.asarray(ok)
        if not ok.all():
            seed = pairs[int(np.argmin(ok))][1]
            raise SweepError(
                f"workload {self.workload.name}: seed {seed} found no centres that far apart; "
                "ask for fewer topics, more dimensions or a smaller min_sep"
            )
        query, arrival, mode = (np.asarray(x) for x in plan)
        scored = (mode >= StepMode.SCORED) & (query >= 0)
        schedule = Schedule(
            query=jnp.asarray(query.T),
            arrival=jnp.asarray(arrival.T),
            arrival_on_miss=None,
            mode=jnp.asarray(mode.T),
            second_half=jnp.asarray(np.stack([second_half(s) for s in scored], axis=1)),
            slope_weight=jnp.asarray(np.stack([slope_weights(s) for s in scored], axis=1), jnp.float32),
            future_uses=None if futures is None else futures[0],
            next_use=None if futures is None else futures[1],
            last_asked=last_asked(query.T, scored.T, self.num_queries),
        )
        return Block(tables, schedule, np.arange(len(pairs), dtype=np.int32))


@functools.lru_cache(maxsize=64)
def _generate(generate: Callable, pairwise: bool, future: bool) -> Callable:
    # One workload at a time: its bits then cannot depend on how many are drawn together.
    def one(key: Array) -> tuple:
        made = generate(key)
        tables = Tables(*workload_tables(made.items, made.queries, made.relevance, pairwise))
        futures = None
        if future:
            scored = made.mode >= np.uint8(StepMode.SCORED)
            futures = future_tables(made.relevance, made.query, scored)
        return made.ok, tables, (made.query, made.arrival, made.mode), futures

    @jax.jit
    def build(keys: Array) -> tuple:
        ok, tables, plan, futures = lax.map(one, keys)
        query_major = jax.tree.map(lambda x: jnp.swapaxes(x, 0, 1), tables)
        tables = query_major._replace(item_similarity=tables.item_similarity)
        if futures is not None:
            futures = tuple(jnp.swapaxes(x, 0, 1) for x in futures)
        return ok, tables, plan, futures

    return build


class RecordedSource:
    """Recorded traces, padded to common sizes so that one compilation serves them all.

    Args:
      traces: at least one; names must differ.
      draws: per trace a function seed -> (query, arrival, mode, arrival_on_miss) of the same length as the trace, for
        protocols whose order is random; None where the recorded order serves every seed.

    Raises:
      SweepError: no trace, or two of one name.
    """

    shared_tables = True

    def __init__(self, traces: Sequence[Trace], draws: Sequence[Callable | None] | None = None):
        if not traces:
            raise SweepError("no trace given")
        self.traces = tuple(t.name for t in traces)
        if len(set(self.traces)) < len(traces):
            twice = next(n for n in self.traces if self.traces.count(n) > 1)
            raise SweepError(f"two traces are named {twice!r}; names must differ")
        self._traces = list(traces)
        self._draws = list(draws) if draws is not None else [None] * len(traces)
        self.same_for_all_seeds = all(draw is None for draw in self._draws)
        self.num_steps = max(t.num_steps for t in traces)
        self.num_queries = max(1, *(len(t.queries) for t in traces))
        self.num_items = max(len(t.items) for t in traces)
        self.categories = tuple(dict.fromkeys(name for t in traces for name in t.category_names))
        self.answers = any(t.answer_recall is not None for t in traces)
        self.availability = True
        self._built: dict[bool, Tables] = {}
        scored = [int(((t.mode >= StepMode.SCORED) & (t.query >= 0)).sum()) for t in traces]
        if not any(scored):
            raise SweepError(f"trace {self.traces[0]!r} has no scored query, so there is nothing to measure")

    def fingerprint(self) -> dict:
        """Names and content hashes."""
        out = {}
        for trace, draw in zip(self._traces, self._draws, strict=True):
            digest = hashlib.sha256()
            for part in (
                trace.items,
                trace.queries,
                trace.query,
                trace.arrival,
                trace.mode,
                trace.relevance_matrix(),
                *(
                    np.zeros(0) if x is None else x
                    for x in (trace.arrival_on_miss, trace.answer_recall, trace.category)
                ),
            ):
                digest.update(repr(part.shape).encode())
                digest.update(np.ascontiguousarray(part).tobytes())
            digest.update(repr(trace.category_names).encode())
            out[trace.name] = {
                "sha256": digest.hexdigest(),
                "meta": dict(trace.meta),
                "drawn": draw is not None,
            }
        return {"recorded": out}

    def bytes_per_pair(self, pairwise: bool, future: bool) -> int:
        """Device bytes of one more schedule; the tables are shared."""
        return 32 * self.num_steps + 8 * self.num_steps * self.num_items * future

    def block(self, pairs: Sequence[Pair], root_seed: int, pairwise: bool, future: bool) -> Block:
        """Schedules of the pairs over the shared tables."""
        del root_seed  # a protocol draws from its own seed
        tables = self._tables(pairwise)
        graded = any(t.relevant_grade is not None for t in self._traces)
        plans = [self._plan(t, s) for t, s in pairs]
        query = np.stack([p[0] for p in plans], axis=1)
        arrival = np.stack([p[1] for p in plans], axis=1)
        mode = np.stack([p[2] for p in plans], axis=1)
        scored = (mode >= StepMode.SCORED) & (query >= 0)
        on_miss = None
        if any(t.arrival_on_miss is not None for t in self._traces) or any(p[3] is not None for p in plans):
            other: list[np.ndarray] = [plain if miss is None else miss for _, plain, _, miss in plans]
            on_miss = np.stack(other, axis=1)
        uses = ahead = None
        if future:
            both = _future_of(graded)(tables.relevance, np.asarray([t for t, _ in pairs], np.int32), query.T, scored.T)
            uses, ahead = both
        schedule = Schedule(
            query=jnp.asarray(query),
            arrival=jnp.asarray(arrival),
            arrival_on_miss=None if on_miss is None else jnp.asarray(on_miss),
            mode=jnp.asarray(mode),
            second_half=jnp.asarray(np.stack([second_half(s) for s in scored.T], axis=1)),
            slope_weight=jnp.asarray(np.stack([slope_weights(s) for s in scored.T], axis=1), jnp.float32),
            future_uses=uses,
            next_use=ahead,
            last_asked=last_asked(query, scored, self.num_queries),
        )
        return Block(tables, schedule, np.asarray([t for t, _ in pairs], np.int32))

    def _plan(self, index: int, seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray | None]:
        trace, draw = self._traces[index], self._draws[index]
        query, arrival, mode, other = (
            (trace.query, trace.arrival, trace.mode, trace.arrival_on_miss) if draw is None else draw(seed)
        )
        short = self.num_steps - len(query)

        def pad(x: np.ndarray, fill: int, dtype: Any) -> np.ndarray:
            return np.concatenate([x, np.full(short, fill)]).astype(dtype)

        return (
            pad(query, NO_QUERY, np.int32),
            pad(arrival, NO_ITEM, np.int32),
            pad(mode, StepMode.TRAIN, np.uint8),
            None if other is None else pad(other, NO_ITEM, np.int32),
        )

    def _tables(self, pairwise: bool) -> Tables:
        if True in self._built or pairwise in self._built:
            return self._built.get(True, self._built.get(pairwise))  # type: ignore[return-value]
        q, m = self.num_queries, self.num_items
        graded = any(t.relevant_grade is not None for t in self._traces)

        def pad(x: Any, rows: int, columns: int) -> np.ndarray:
            return np.pad(np.asarray(x), ((0, rows - x.shape[0]), (0, columns - x.shape[1])))

        parts: list[list[np.ndarray]] = [[], [], [], []]
        cosines = jax.jit(workload_tables, static_argnums=3)
        for t in self._traces:
            relevance = t.relevance_matrix().astype(np.float32 if graded else bool)
            similar, _, _, near = cosines(t.items, t.queries, relevance, pairwise)
            total = relevance.astype(np.float64).sum(axis=1).astype(np.float32)
            parts[0].append(pad(similar, q, m))
            parts[1].append(pad(relevance, q, m))
            parts[2].append(np.pad(total, (0, q - len(total))))
            parts[3].append(pad(near, m, m) if pairwise else np.zeros((0, 0)))
        answers = None
        if self.answers:
            none = np.zeros((1, 1), np.float32)
            padded = [pad(none if t.answer_recall is None else t.answer_recall, q, m) for t in self._traces]
            answers = np.stack(padded, axis=1)
        category = None
        if self.categories:
            category = np.stack([self._categories_of(t) for t in self._traces], axis=1)
        tables = Tables(
            similarity=jnp.asarray(np.stack(parts[0], axis=1)),
            relevance=jnp.asarray(np.stack(parts[1], axis=1)),
            relevant_total=jnp.asarray(np.stack(parts[2], axis=1)),
            item_similarity=jnp.asarray(np.stack(parts[3])) if pairwise else None,
            answer_recall=None if answers is None else jnp.asarray(answers),
            category=None if category is None else jnp.asarray(category),
        )
        self._built = {pairwise: tables}
        return tables

    def _categories_of(self, trace: Trace) -> np.ndarray:
        # Traces may name their categories in different orders; -1 (no category) matches no group.
        out = np.full(self.num_queries, -1, np.int32)
        if trace.category is not None:
            index = np.asarray([self.categories.index(n) for n in trace.category_names], np.int32)
            out[: len(trace.category)] = index[trace.category]
        return out


@functools.lru_cache(maxsize=2)
def _future_of(graded: bool) -> Callable:
    @jax.jit
    def build(relevance: Array, table: Array, query: Array, scored: Array) -> tuple[Array, Array]:
        def one(args: tuple) -> tuple[Array, Array]:
            index, plan, counts = args
            return future_tables(relevance[:, index] > 0, plan, counts)

        uses, ahead = lax.map(one, (table, query, scored))
        return jnp.swapaxes(uses, 0, 1), jnp.swapaxes(ahead, 0, 1)

    return build
