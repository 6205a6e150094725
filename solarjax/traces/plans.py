"""The four protocols: each turns a conversation into items, relevance, and a law of schedules.

Times are in turns (`interleave` says what a time means). Queries are the Q usable questions, in order.
Every step that carries an arrival or a question of the same phase has the same mode, so a cache change is
counted with the phase it happens in.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from solarjax.core.trace import NO_ITEM, NO_QUERY, StepMode, TraceError
from solarjax.traces.conversation import Conversation
from solarjax.traces.items import dialogue_items, experience, experience_relevance
from solarjax.traces.schedule import Schedule, concatenate, interleave, steps


@dataclass(frozen=True)
class Plan:
    """What a protocol makes of a conversation.

    item_text: M item texts.                item_time: `[M] f64` or None.
    relevant: per query, the relevant items, increasing.
    draw: consumes a generator, returns one schedule.
    """

    item_text: tuple[str, ...]
    item_time: np.ndarray | None
    relevant: list[np.ndarray]
    draw: Callable[[np.random.Generator], Schedule]


def asked_later(conversation: Conversation, params: Mapping[str, Any]) -> Plan:
    """P1. Dialogue items in order; `train_fraction` of the questions at Uniform(last evidence + 1, n) as
    TRAIN steps, the rest after the end as FROZEN steps. The split is a random permutation per seed."""
    stream = dialogue_items(conversation, params["granularity"], params["chunk_size"], params["view"])
    earliest = np.array([stream.available_from(q) for q in conversation.usable], np.float64)
    count = len(earliest)
    train = _train_count(conversation, params["train_fraction"])

    def draw(rng: np.random.Generator) -> Schedule:
        order = rng.permutation(count)
        time = earliest + rng.random(count) * (len(conversation.turns) - earliest)
        asked = interleave(stream.last_turn, order[:train], time[order[:train]], StepMode.TRAIN)
        return concatenate(asked, _ask(order[train:], StepMode.FROZEN))

    return Plan(stream.text, stream.time, [stream.evidence(q) for q in conversation.usable], draw)


def asked_soon(conversation: Conversation, params: Mapping[str, Any]) -> Plan:
    """P2. Dialogue items in order; every question at last evidence + 1 + Exp(mean turns), clamped to n,
    SCORED online. Questions clamped to the end keep the order of their unclamped times."""
    stream = dialogue_items(conversation, params["granularity"], params["chunk_size"], params["view"])
    earliest = np.array([stream.available_from(q) for q in conversation.usable], np.float64)

    def draw(rng: np.random.Generator) -> Schedule:
        time = earliest + params["mean"] * rng.standard_exponential(len(earliest))
        order = np.argsort(time, kind="stable")
        clamped = np.minimum(time[order], len(conversation.turns))
        return interleave(stream.last_turn, order, clamped, StepMode.SCORED)

    return Plan(stream.text, stream.time, [stream.evidence(q) for q in conversation.usable], draw)


def experiences(conversation: Conversation, params: Mapping[str, Any]) -> Plan:
    """P3. Items are the experiences of the questions, asked in random order; each is asked first and stored
    by the next step. `scoring=frozen`: the first `train_fraction` are TRAIN, the rest are asked FROZEN and
    store nothing. `scoring=online`: all are SCORED and stored. Relevance: `experience_relevance`."""
    questions = conversation.usable
    count = len(questions)
    online = params["scoring"] == "online"
    stored = count if online else _train_count(conversation, params["train_fraction"])

    def draw(rng: np.random.Generator) -> Schedule:
        order = rng.permutation(count)
        query = np.full(2 * stored, NO_QUERY)
        arrival = np.full(2 * stored, NO_ITEM)
        query[0::2] = arrival[1::2] = order[:stored]
        told = steps(query, arrival, StepMode.SCORED if online else StepMode.TRAIN)
        return concatenate(told, _ask(order[stored:], StepMode.FROZEN))

    return Plan(tuple(map(experience, questions)), None, experience_relevance(questions), draw)


def memory_bench(conversation: Conversation, params: Mapping[str, Any]) -> Plan:
    """P1mb. All turns first; then, in random order, `train_fraction` of the questions as TRAIN steps that
    each store their experience in the same step: with the answer if the retrieval hit, without it if it
    missed (`arrival_on_miss`). The rest is FROZEN.

    Items are n turns, then Q experiences with answer, then Q without. Relevant to a question are its evidence
    turns and the experiences WITH answer of other questions that share evidence with it; an experience
    without its answer tells nothing and is never relevant."""
    questions = conversation.usable
    stream = dialogue_items(conversation, "turns", 1, params["view"])
    turns, count = len(stream.text), len(questions)
    train = _train_count(conversation, params["train_fraction"])
    told = tuple(experience(q) for q in questions)
    missed = tuple(experience(q, with_answer=False) for q in questions)
    relevant = [
        np.concatenate([stream.evidence(q), turns + shared])
        for q, shared in zip(questions, experience_relevance(questions), strict=True)
    ]

    def draw(rng: np.random.Generator) -> Schedule:
        order = rng.permutation(count)
        first = order[:train]
        dialogue = steps(np.full(turns, NO_QUERY), np.arange(turns), StepMode.TRAIN)
        warm_up = steps(first, turns + first, StepMode.TRAIN)
        warm_up = warm_up._replace(arrival_on_miss=(turns + count + first).astype(np.int32))
        return concatenate(dialogue, warm_up, _ask(order[train:], StepMode.FROZEN))

    return Plan(stream.text + told + missed, None, relevant, draw)


def _ask(query: np.ndarray, mode: StepMode) -> Schedule:
    return steps(query, np.full(len(query), NO_ITEM), mode)


def _train_count(conversation: Conversation, fraction: float) -> int:
    """round(fraction * Q), but at least one question is left to score."""
    count = len(conversation.usable)
    if count < 2 and fraction > 0:
        raise TraceError(
            f"{conversation.name}: a split into training and scored questions needs at least 2 questions "
            f"with evidence, it has {count}"
        )
    return min(int(fraction * count + 0.5), count - 1)
