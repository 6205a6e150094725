"""Protocols: from a conversation to a trace whose schedule can be drawn again for every seed.

Registry of the protocols without a language model (spec: P1, P2, P3, P1mb). Adding one = one function in
`plans.py` (or beside it) and one entry here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from solarjax.core.trace import Trace, TraceError
from solarjax.traces import plans
from solarjax.traces.answers import recall_table
from solarjax.traces.conversation import Conversation
from solarjax.traces.items import GRANULARITIES, VIEWS
from solarjax.traces.parameters import Parameter, resolve, unknown
from solarjax.traces.schedule import Schedule, generator

Encode = Callable[[Sequence[str]], np.ndarray]
"""Texts to embeddings, `[n, D] f32`."""


@dataclass(frozen=True)
class ProtocolSpec:
    """One protocol: a line about it, its parameters, and the function that plans it."""

    summary: str
    parameters: Mapping[str, Parameter]
    plan: Callable[[Conversation, Mapping[str, Any]], plans.Plan]


_ITEMS = {
    "granularity": Parameter("turns", "what an item is", choices=GRANULARITIES),
    "chunk_size": Parameter(4, "turns per chunk", low=1, only_if=("granularity", "chunks")),
}
_VIEW = {"view": Parameter("dated", "text of a turn: with its session's date, or speaker and text", choices=VIEWS)}
_TRAIN = Parameter(0.8, "share of the questions used for training; the rest is scored", low=0, high=1)

PROTOCOLS: Mapping[str, ProtocolSpec] = {
    "P1": ProtocolSpec(
        "dialogue in order; 80 % of the questions asked between their last evidence and the end (training), "
        "20 % after the end (scored, frozen)",
        {**_ITEMS, **_VIEW, "train_fraction": _TRAIN},
        plans.asked_later,
    ),
    "P2": ProtocolSpec(
        "dialogue in order; every question an exponential delay after its last evidence, scored online",
        {"mean": Parameter(100.0, "mean delay in turns", low=1e-9), **_ITEMS, **_VIEW},
        plans.asked_soon,
    ),
    "P3": ProtocolSpec(
        "questions in random order, each stored as an experience afterwards; last 20 % scored, or all online",
        {
            "scoring": Parameter("frozen", "score the last questions, or all online", choices=("frozen", "online")),
            "train_fraction": Parameter(0.8, _TRAIN.help, low=0, high=1, only_if=("scoring", "frozen")),
        },
        plans.experiences,
    ),
    "P1mb": ProtocolSpec(
        "whole dialogue first; then 80 % of the questions, each stored as an experience, with its answer "
        "only after a hit; last 20 % scored (as MemoryBench)",
        {**_VIEW, "train_fraction": _TRAIN},
        plans.memory_bench,
    ),
}


@dataclass(frozen=True)
class ProtocolStream:
    """A trace and the law its schedule comes from.

    trace: with the schedule of seed 0.     conversation, protocol: names, part of the random stream.
    params: all parameters, defaults included.
    """

    trace: Trace
    conversation: str
    protocol: str
    params: Mapping[str, Any]
    _draw: Callable[[np.random.Generator], Schedule] = field(repr=False)

    def draw(self, seed: int) -> Schedule:
        """The schedule of a seed, a function of (seed, conversation, protocol, params); T equal for all
        seeds."""
        return self._draw(generator(seed, self.conversation, self.protocol))


def build(conversation: Conversation, protocol: str, params: Mapping[str, Any], encode: Encode) -> ProtocolStream:
    """Builds the stream of one conversation under one protocol.

    The trace holds everything but the schedule: embeddings and texts of items and queries, relevance, token
    recall of the gold answer (`answers.recall_table`; 0 for unanswerable questions), categories, and the
    import's counts in `meta`. Questions without usable evidence are not asked; `meta["import"]` counts them.

    Args:
      conversation: the dialogue and its questions.
      protocol: a key of `PROTOCOLS`.
      params: parameters of the protocol; missing ones take their default. Values may be text.
      encode: texts to embeddings; called once for the items and once for the queries.

    Returns:
      The stream. Its trace is named `conversation:protocol` plus the parameters that differ from the default.

    Raises:
      TraceError: for an unknown protocol or parameter, a value that is not allowed, too few usable questions,
        or embeddings that do not fit the texts.
    """
    if protocol not in PROTOCOLS:
        raise TraceError(unknown("protocol", protocol, PROTOCOLS))
    spec = PROTOCOLS[protocol]
    values = resolve(protocol, spec.parameters, params)
    questions = conversation.usable
    if not questions:
        raise TraceError(f"{conversation.name}: no question with evidence, so protocol {protocol} has nothing to ask")
    plan = spec.plan(conversation, values)
    schedule = plan.draw(generator(0, conversation.name, protocol))
    special = [
        f"{k}={v:g}" if isinstance(v, float) else f"{k}={v}"
        for k, v in values.items()
        if v != spec.parameters[k].default
    ]
    name = f"{conversation.name}:{protocol}" + (f"({','.join(special)})" if special else "")
    trace = Trace(
        name=name,
        items=_encoded(encode, plan.item_text, f"{name}: items"),
        queries=_encoded(encode, [q.text for q in questions], f"{name}: queries"),
        query=schedule.query,
        arrival=schedule.arrival,
        mode=schedule.mode,
        arrival_on_miss=schedule.arrival_on_miss,
        relevant_indptr=np.cumsum([0, *map(len, plan.relevant)]),
        relevant_indices=np.concatenate(plan.relevant).astype(np.int32),
        answer_recall=recall_table(questions, plan.item_text),
        category=np.array([q.category for q in questions], np.int32),
        category_names=conversation.category_names,
        item_text=plan.item_text,
        query_text=tuple(q.text for q in questions),
        item_time=plan.item_time,
        meta={
            "conversation": conversation.name,
            "protocol": protocol,
            "params": values,
            "import": conversation.summary(),
        },
    )
    return ProtocolStream(trace, conversation.name, protocol, values, plan.draw)


def _encoded(encode: Encode, texts: Sequence[str], where: str) -> np.ndarray:
    rows = np.asarray(encode(list(texts)))
    if rows.ndim != 2 or len(rows) != len(texts):
        raise TraceError(f"{where}: encode gave shape {rows.shape} for {len(texts)} texts; expected [{len(texts)}, D]")
    return rows
