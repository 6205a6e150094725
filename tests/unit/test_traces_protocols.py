"""Protocols: what every schedule must satisfy, and the laws the random parts are drawn from."""

from __future__ import annotations

import hashlib
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import stats

from solarjax.core.trace import NO_ITEM, NO_QUERY, StepMode, TraceError
from solarjax.traces import locomo
from solarjax.traces.answers import recall_table, tokens
from solarjax.traces.conversation import Conversation, ImportReport, Question, Session, Turn
from solarjax.traces.protocols import PROTOCOLS, ProtocolStream, build
from solarjax.traces.schedule import interleave

ALPHA = 1e-3
"""Chance that one law test fails although the law holds; the seeds are fixed, so it fails always or never."""

CASES: list[tuple[str, dict[str, Any]]] = [
    ("P1", {}),
    ("P1", {"granularity": "chunks"}),
    ("P1", {"granularity": "sessions"}),
    ("P1", {"train_fraction": 0.0}),
    ("P2", {"mean": 30}),
    ("P2", {"granularity": "chunks", "chunk_size": 3}),
    ("P3", {}),
    ("P3", {"scoring": "online"}),
    ("P1mb", {}),
]


def fake_encode(texts: Sequence[str]) -> np.ndarray:
    """Directions from a hash of the text, `[n, 8]`."""
    seeds = [int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "little") for text in texts]
    return np.stack([np.random.default_rng(seed).standard_normal(8) for seed in seeds]).astype(np.float32)


def dialogue(turns: int, evidence: Sequence[Sequence[int]], name: str = "talk", session: int = 7) -> Conversation:
    """A dialogue in sessions of `session` turns with one question per list of evidence."""
    return Conversation(
        name=name,
        sessions=tuple(Session(f"s{i}", f"May {i + 1}, 1995", float(i)) for i in range(-(-turns // session))),
        turns=tuple(Turn(f"t{i}", i // session, "AB"[i % 2], f"word{i}") for i in range(turns)),
        questions=tuple(
            Question(f"q{i}", f"question {i}?", (f"answer{i}",), i % 2, tuple(sorted(e)), answerable=i % 2 == 0)
            for i, e in enumerate(evidence)
        ),
        category_names=("plain", "adversarial"),
        report=ImportReport("made up"),
    )


SMALL = dialogue(50, [[0], [0, 3], [3, 40], [8, 9, 10], [49], [20], [21], []])


@pytest.fixture(scope="module")
def conv26(shared_data: Path) -> Conversation:
    return locomo.load(shared_data / "locomo" / "locomo10.json")[0]


def _case_ids(case: tuple[str, dict[str, Any]]) -> str:
    return case[0] + "".join(f"-{k}={v}" for k, v in case[1].items())


@pytest.mark.parametrize("case", CASES, ids=_case_ids)
def test_every_schedule_is_a_valid_stream(conv26: Conversation, case: tuple[str, dict[str, Any]]) -> None:
    """Arrivals in order and once, every question once, evidence before its question, T equal for all
    seeds."""
    protocol, params = case
    for conversation in (SMALL, conv26):
        stream = build(conversation, protocol, params, fake_encode)
        trace = stream.trace
        for seed in range(5):
            schedule = stream.draw(seed)
            assert len(schedule.query) == len(schedule.arrival) == len(schedule.mode) == trace.num_steps
            assert sorted(schedule.query[schedule.query != NO_QUERY]) == list(range(len(conversation.usable)))
            arrivals = schedule.arrival[schedule.arrival != NO_ITEM]
            assert len(set(arrivals)) == len(arrivals)
            if protocol in ("P1", "P2"):
                assert list(arrivals) == list(range(len(trace.items)))
                # A step is a query or an arrival, never both; every question comes after all of its evidence.
                assert np.all((schedule.query == NO_QUERY) != (schedule.arrival == NO_ITEM))
                arrived_at = np.flatnonzero(schedule.arrival != NO_ITEM)
                for step in np.flatnonzero(schedule.query != NO_QUERY):
                    q = schedule.query[step]
                    needed = trace.relevant_indices[trace.relevant_indptr[q] : trace.relevant_indptr[q + 1]]
                    assert len(needed) and arrived_at[needed].max() < step
            assert np.all(schedule.arrival[schedule.mode == StepMode.FROZEN] == NO_ITEM)


@pytest.mark.parametrize("case", CASES, ids=_case_ids)
def test_draws_depend_on_seed_name_and_protocol_only(case: tuple[str, dict[str, Any]]) -> None:
    protocol, params = case
    stream = build(SMALL, protocol, params, fake_encode)
    again = build(SMALL, protocol, params, lambda texts: fake_encode(texts)[:, ::-1])
    other = build(dialogue(50, [q.evidence for q in SMALL.questions], "other"), protocol, params, fake_encode)

    def drawn(source: ProtocolStream, seed: int) -> list[list[int]]:
        return [list(field) for field in source.draw(seed) if field is not None]

    assert drawn(stream, 3) == drawn(again, 3)
    assert drawn(stream, 0) == [
        list(getattr(stream.trace, name))
        for name in ("query", "arrival", "mode", "arrival_on_miss")
        if getattr(stream.trace, name) is not None
    ]
    assert any(drawn(stream, 3) != drawn(stream, seed) for seed in (4, 5, 6))
    assert any(drawn(stream, seed) != drawn(other, seed) for seed in (3, 4, 5))
    for seed in (-1, 1.5):
        with pytest.raises(ValueError, match="seed must be a whole number >= 0"):
            stream.draw(seed)  # type: ignore[arg-type]


def test_split_sizes(conv26: Conversation) -> None:
    """80 / 20, rounded: 158 and 39 of 197; all of the 20 % after everything else."""
    for protocol in ("P1", "P3", "P1mb"):
        schedule = build(conv26, protocol, {}, fake_encode).draw(1)
        asked = schedule.query != NO_QUERY
        modes = schedule.mode[asked]
        assert list(modes) == [StepMode.TRAIN] * 158 + [StepMode.FROZEN] * 39, protocol
        assert np.all(schedule.mode[-39:] == StepMode.FROZEN)
    everything = build(conv26, "P1", {"train_fraction": 0.99999}, fake_encode).draw(1)
    assert np.sum(everything.mode == StepMode.FROZEN) == 1  # something is always left to score


def _asked_after(stream: ProtocolStream, seeds: range, mode: StepMode) -> tuple[np.ndarray, np.ndarray]:
    """Query and number of items that arrived before it, for every query of a mode in every draw."""
    queries, counts = [], []
    for seed in seeds:
        schedule = stream.draw(seed)
        steps = np.flatnonzero((schedule.query != NO_QUERY) & (schedule.mode == mode))
        queries.append(schedule.query[steps])
        counts.append(np.cumsum(schedule.arrival != NO_ITEM)[steps])
    return np.concatenate(queries), np.concatenate(counts)


def test_p2_delays_are_exponential() -> None:
    """KS at alpha = 1e-3 on 8,000 delays.

    Only the number of turns before a question can be seen: ceil(last + 1 + E). Given K = ceil(E), the value
    F(K-1) + V (F(K) - F(K-1)) with V uniform is exactly uniform if E is Exp(30) (randomised probability
    transform).
    """
    last = np.arange(40) * 10
    stream = build(dialogue(3000, [[e] for e in last]), "P2", {"mean": 30}, fake_encode)
    query, count = _asked_after(stream, range(200), StepMode.SCORED)
    delay = count - (last[query] + 1)
    assert delay.min() == 1 and len(delay) == 8000
    within = np.random.default_rng(0).random(len(delay))

    def p_value(mean: float) -> float:
        low, high = stats.expon.cdf([delay - 1, delay], scale=mean)
        return stats.kstest(low + within * (high - low), "uniform").pvalue

    assert p_value(30) > ALPHA
    assert p_value(33) < ALPHA  # a mean 10 % off must fail, or the test would prove nothing


def test_p1_times_are_uniform_after_the_last_evidence() -> None:
    """KS at alpha = 1e-3: the count of turns before a question is uniform over last + 2 .. n."""
    n = 400
    last = np.array([3, 50, 200, 350, 10, 120, 260, 380])
    stream = build(dialogue(n, [[0, e] for e in last]), "P1", {}, fake_encode)
    query, count = _asked_after(stream, range(1000), StepMode.TRAIN)
    earliest = last[query] + 1
    assert np.all((count > earliest) & (count <= n))
    uniform = (count - 1 - earliest + np.random.default_rng(0).random(len(count))) / (n - earliest)
    assert stats.kstest(uniform, "uniform").pvalue > ALPHA
    assert stats.kstest(uniform**1.1, "uniform").pvalue < ALPHA


def test_split_is_a_random_permutation() -> None:
    """Chi-square at alpha = 1e-3: each of 10 questions is scored equally often, in each of the two places."""
    stream = build(dialogue(30, [[i] for i in range(10)]), "P1", {}, fake_encode)
    scored = np.array([stream.draw(seed).query[-2:] for seed in range(2000)])
    for place in (0, 1):
        assert stats.chisquare(np.bincount(scored[:, place], minlength=10)).pvalue > ALPHA


def test_p2_clamps_late_questions_to_the_end_in_order_of_their_time() -> None:
    conversation = dialogue(20, [[i] for i in range(15)])
    late = build(conversation, "P2", {"mean": 1e9}, fake_encode).draw(2)
    assert np.all(late.query[:20] == NO_QUERY) and np.all(late.query[20:] != NO_QUERY)
    # Common random numbers: a mean so short that no delay is cut only rescales the same draws.
    gap = build(dialogue(10_000, [[0]] * 15), "P2", {"mean": 100}, fake_encode).draw(2)
    assert list(gap.query[gap.query != NO_QUERY]) == list(late.query[20:])


def test_interleave_by_hand() -> None:
    """Items end with turns 1, 2 and 5. A query at time x comes before the item whose last turn is >= x."""
    times = np.array([2.0, 0.5, 2.0, 6.0, 2.5])
    schedule = interleave(np.array([1, 2, 5]), np.array([7, 1, 3, 9, 4]), times, StepMode.TRAIN)
    # .5: before all. 2: after turn 1, before turn 2, ties in the given order. 2.5: after turn 2. 6: at the end.
    assert list(schedule.query) == [1, NO_QUERY, 7, 3, NO_QUERY, 4, NO_QUERY, 9]
    assert list(schedule.arrival) == [NO_ITEM, 0, NO_ITEM, NO_ITEM, 1, NO_ITEM, 2, NO_ITEM]
    assert schedule.query.dtype == schedule.arrival.dtype == np.int32 and schedule.mode.dtype == np.uint8


def test_a_last_turn_question_is_asked_at_the_end() -> None:
    stream = build(dialogue(12, [[11], [0]]), "P1", {"train_fraction": 0.5}, fake_encode)
    for seed in range(20):
        schedule = stream.draw(seed)
        first = schedule.query[schedule.query != NO_QUERY][0]
        if first == 0:
            assert list(schedule.query[12:]) == [0, 1]


def test_items_of_each_granularity_by_hand() -> None:
    conversation = dialogue(9, [[1], [3, 8]], session=5)
    turns = build(conversation, "P1", {}, fake_encode).trace
    assert turns.item_text is not None and turns.item_time is not None
    assert turns.item_text[:2] == ("May 1, 1995 A: word0", "May 1, 1995 B: word1")
    assert list(turns.item_time) == [0.0] * 5 + [1.0] * 4
    # Sessions of 5 and 4 turns: chunks 0-3, 4, 5-8; never across the session border.
    chunks = build(conversation, "P1", {"granularity": "chunks"}, fake_encode).trace
    assert chunks.item_text == (
        "May 1, 1995 A: word0\nB: word1\nA: word2\nB: word3",
        "May 1, 1995 A: word4",
        "May 2, 1995 B: word5\nA: word6\nB: word7\nA: word8",
    )
    assert list(chunks.relevant_indptr) == [0, 1, 3] and list(chunks.relevant_indices) == [0, 0, 2]
    sessions = build(conversation, "P1", {"granularity": "sessions", "view": "speaker"}, fake_encode).trace
    assert sessions.item_text is not None
    assert sessions.item_text[1] == "B: word5\nA: word6\nB: word7\nA: word8"
    assert list(sessions.relevant_indices) == [0, 0, 1]
    assert sessions.name == "talk:P1(granularity=sessions,view=speaker)"


def test_chunk_arrives_with_its_last_turn() -> None:
    """A question about turn 0 of a chunk of turns 0-3 is asked after the chunk, so after turn 3, not after
    turn 0."""
    stream = build(dialogue(8, [[0]] * 6, session=8), "P2", {"granularity": "chunks", "mean": 0.001}, fake_encode)
    assert list(stream.draw(0).arrival) == [0] + [NO_ITEM] * 6 + [1]
    turns = build(dialogue(8, [[0]] * 6, session=8), "P2", {"mean": 0.001}, fake_encode)
    # At last + 1 + epsilon: turn 1 has index 1 < 1 + epsilon, so it comes first.
    assert list(turns.draw(0).arrival[:8]) == [0, 1] + [NO_ITEM] * 6


def test_p3_questions_come_before_their_own_experience() -> None:
    stream = build(SMALL, "P3", {}, fake_encode)
    trace = stream.trace
    assert trace.item_text is not None
    assert trace.item_text[1] == "user: question 1? assistant: answer1"
    schedule = stream.draw(4)
    assert list(schedule.arrival[1:12:2]) == list(schedule.query[0:12:2])
    assert list(schedule.query[1:12:2]) == [NO_QUERY] * 6 and list(schedule.arrival[0:12:2]) == [NO_ITEM] * 6
    online = build(SMALL, "P3", {"scoring": "online"}, fake_encode).draw(4)
    assert np.all(online.mode == StepMode.SCORED) and np.sum(online.arrival != NO_ITEM) == 7


def test_experiences_are_relevant_to_other_questions_on_the_same_evidence() -> None:
    # Questions 0 and 1 share turn 0, questions 1 and 2 share turn 3; a question's own experience never
    # counts.
    expected: dict[int, list[int]] = {0: [1], 1: [0, 2], 2: [1], 3: [], 4: [], 5: [], 6: []}
    trace = build(SMALL, "P3", {}, fake_encode).trace
    for q, items in expected.items():
        assert list(trace.relevant_indices[trace.relevant_indptr[q] : trace.relevant_indptr[q + 1]]) == items
    mixed = build(SMALL, "P1mb", {}, fake_encode).trace
    for q, items in expected.items():
        found = mixed.relevant_indices[mixed.relevant_indptr[q] : mixed.relevant_indptr[q + 1]]
        assert list(found) == list(SMALL.questions[q].evidence) + [50 + i for i in items]


def test_p1mb_stores_the_answer_only_after_a_hit() -> None:
    stream = build(SMALL, "P1mb", {}, fake_encode)
    trace, schedule = stream.trace, stream.draw(9)
    assert trace.item_text is not None and trace.query_text is not None and schedule.arrival_on_miss is not None
    assert list(schedule.arrival[:50]) == list(schedule.arrival_on_miss[:50]) == list(range(50))
    assert len(trace.items) == 50 + 7 + 7
    for step in range(50, 50 + 6):  # 80 % of 7 questions
        text = trace.query_text[schedule.query[step]]
        number = text.split()[1][:-1]
        assert trace.item_text[schedule.arrival[step]] == f"user: {text} assistant: answer{number}"
        assert trace.item_text[schedule.arrival_on_miss[step]] == f"user: {text}"
    assert list(schedule.mode[:56]) == [StepMode.TRAIN] * 56 and schedule.mode[56] == StepMode.FROZEN


def test_trace_carries_texts_categories_and_counts(conv26: Conversation) -> None:
    trace = build(conv26, "P2", {"mean": "30"}, fake_encode).trace
    assert trace.name == "conv-26:P2(mean=30)"
    assert trace.category is not None and trace.category_names == locomo.CATEGORY_NAMES
    assert trace.query_text == tuple(q.text for q in conv26.questions if q.evidence)
    assert trace.meta["params"] == {"mean": 30.0, "granularity": "turns", "chunk_size": 4, "view": "dated"}
    assert trace.meta["import"]["questions_without_evidence"] == 2
    assert trace.item_text is not None
    assert trace.item_text[4].startswith("1:56 pm on 8 May, 2023 Caroline: The transgender stories")
    assert trace.item_text[4].endswith(" [shared: a photo of a dog walking past a wall with a painting of a woman]")


def test_answer_recall(conv26: Conversation) -> None:
    trace = build(conv26, "P1", {}, fake_encode).trace
    assert trace.answer_recall is not None and trace.item_text is not None
    questions = conv26.usable
    rng = np.random.default_rng(1)
    positive = 0
    for q, m in zip(rng.integers(len(questions), size=2000), rng.integers(len(trace.items), size=2000), strict=True):
        left = tokens(trace.item_text[m])
        gold = tokens(questions[q].answers[0]) if questions[q].answerable else []
        found = 0
        for word in gold:  # one at a time, each word of the text used once
            if word in left:
                left.remove(word)
                found += 1
        assert trace.answer_recall[q, m] == pytest.approx(found / len(gold) if gold else 0.0)
        positive += found > 0
    assert positive > 100
    adversarial = [i for i, q in enumerate(questions) if not q.answerable]
    assert len(adversarial) == 47 and not trace.answer_recall[adversarial].any()


def test_answer_recall_by_hand() -> None:
    def ask(*answers: str, answerable: bool = True) -> Question:
        return Question("q", "?", answers, 0, (), answerable)

    assert tokens("The Sunday, and a run-on: it's 7!") == ["sunday", "runon", "its", "7"]
    table = recall_table(
        [ask("very very good"), ask("the"), ask("red car", "blue"), ask("good", answerable=False)],
        ["Very good!", "a blue sky", ""],
    )
    # "very" counts once of twice; "the" has no token; of several answers the best counts.
    np.testing.assert_allclose(table, [[2 / 3, 0, 0], [0, 0, 0], [0, 1, 0], [0, 0, 0]])


@pytest.mark.parametrize(
    ("protocol", "params", "message"),
    [
        ("P1mbb", {}, r"unknown protocol 'P1mbb'; did you mean 'P1mb'\? known: P1, P2, P3, P1mb"),
        (
            "P1",
            {"granularty": "turns"},
            r"parameter of P1 'granularty'; did you mean 'granularity'\? known: ",
        ),
        ("P1", {"granularity": "chunk"}, r"'chunk'; did you mean 'chunks'\? known: turns, chunks, sessions"),
        ("P1", {"chunk_size": 3}, r"chunk_size only applies with granularity=chunks, not granularity=turns"),
        (
            "P1",
            {"granularity": "chunks", "chunk_size": 0},
            r"chunk_size=0 is not allowed; .* a whole number >= 1",
        ),
        ("P1", {"granularity": "chunks", "chunk_size": "2.5"}, r"chunk_size='2.5' is not allowed"),
        ("P1", {"granularity": "chunks", "chunk_size": 2.5}, r"chunk_size=2.5 is not allowed"),
        ("P1", {"train_fraction": 1}, r"train_fraction=1 is not allowed; it must be a number >= 0 and < 1"),
        ("P1", {"train_fraction": True}, r"train_fraction=True is not allowed"),
        ("P2", {"mean": -1}, r"mean=-1 is not allowed"),
        ("P2", {"mean": "nan"}, r"mean='nan' is not allowed"),
        ("P2", {"mean": "inf"}, r"mean='inf' is not allowed"),
        ("P2", {"mean": None}, r"mean=None is not allowed"),
        ("P3", {"scoring": "online", "train_fraction": 0.5}, r"only applies with scoring=frozen"),
    ],
)
def test_parameter_errors(protocol: str, params: dict[str, Any], message: str) -> None:
    with pytest.raises(TraceError, match=message):
        build(SMALL, protocol, params, fake_encode)


def test_other_errors() -> None:
    with pytest.raises(TraceError, match="no question with evidence, so protocol P1 has nothing to ask"):
        build(dialogue(5, [[]]), "P1", {}, fake_encode)
    with pytest.raises(TraceError, match="needs at least 2 questions with evidence, it has 1"):
        build(dialogue(5, [[1]]), "P3", {}, fake_encode)
    with pytest.raises(TraceError, match=r"items: encode gave shape \(49, 8\) for 50 texts"):
        build(SMALL, "P1", {}, lambda texts: fake_encode(texts)[:-1])
    with pytest.raises(TraceError, match="holds NaN or infinity"):
        build(SMALL, "P1", {}, lambda texts: fake_encode(texts) * np.nan)


def test_registry_describes_itself() -> None:
    assert list(PROTOCOLS) == ["P1", "P2", "P3", "P1mb"]
    for spec in PROTOCOLS.values():
        assert spec.summary and all(parameter.help for parameter in spec.parameters.values())


def test_traces_do_not_import_jax() -> None:
    """The importers serve tools that must start fast; only the encoder needs jax."""
    modules = "protocols, format, jsonl, locomo, friendsqa, dialsim, datasets"
    code = f"import sys; from solarjax.traces import {modules}; sys.exit('jax' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
