"""Replays that ask nothing: `shadow` by retrieval alone, `frozen` with the answers of one recorded run.

shadow   The experience of a question carries its right answer, and what a policy learns from is the hit: an experience
         that shares evidence was retrieved. Its figures are proxies; `correlation` says how good they are.
frozen   One model answers every question once per seed under the full memory (the on-policy loop with `unlimited`).
         Any policies at any capacities are then studied on those recorded exchanges and scores, without a server: every
         one sees the same feedback, so what differs is what it keeps. `support` is the share of the full memory's
         experiences that it retrieves too. F1 is the recorded one for all, and says nothing about a policy by itself.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from solarjax.policies.registry import case
from solarjax.replay.corpus import Corpus, Encode
from solarjax.replay.errors import ReplayError
from solarjax.replay.lane import LiveLane, Pending
from solarjax.replay.loop import Progress
from solarjax.replay.plan import FROZEN, Plan, Settings

FULL = "unlimited"


def recording_plan(plan: Plan) -> Plan:
    """What `frozen` mode asks a model: every question once per seed, under the full memory.

    The same for all policies, capacities and prices, so that one recording serves every study of it.
    """
    settings = replace(plan.settings, lambdas=Settings.lambdas)
    return replace(plan, cases=(case(FULL),), capacities=(1,), settings=settings)


def offline(
    plan: Plan, encode: Encode, recorded: Sequence[Mapping[str, Any]] = (), tell: Any = None
) -> list[dict[str, Any]]:
    """Runs every lane without a model.

    Args:
      plan: its mode is `shadow` or `frozen`.   encode: texts to unit rows.
      recorded: for `frozen`, the records of a complete `recording_plan`.
      tell: called with the progress after every lane.

    Returns:
      Records as the loop makes them, without what is measured on requests.

    Raises:
      ReplayError: a recorded answer is missing.
    """
    answers = {(r["session"], r["seed"], r["question"]): r for r in recorded}
    progress = Progress(plan.total())
    records = []
    for session in plan.sessions:
        corpus = Corpus(session, 0, encode)
        vectors: dict[str, np.ndarray] = {}
        for lane in plan.lanes():
            live = LiveLane(lane, session, corpus, plan.settings, plan.num_items())
            _embed_ahead(live, answers, encode, vectors)
            for _ in range(len(session.questions)):
                pending = live.ask()
                held = _answer(live, pending.question, answers)
                learned = live.learn(pending, None if held is None else held["text"])
                record = live.settle(pending, learned, vectors[learned.experience])
                if held is not None:
                    full = held["retrieved"]
                    share = len(set(full) & set(pending.retrieved)) / len(full) if full else None
                    record["support"] = share
                records.append(record)
                progress.count(record, resumed=False)
            if tell is not None:
                tell(progress)
    return records


def _answer(live: LiveLane, question: int, answers: Mapping[tuple, Mapping[str, Any]]) -> Mapping[str, Any] | None:
    if live.settings.mode != FROZEN:
        return None
    key = (live.session.name, live.lane.seed, live.session.questions[question].id)
    if key not in answers:
        raise ReplayError(f"{key[0]}, seed {key[1]}: no recorded answer to question {key[2]!r}")
    return answers[key]


def _embed_ahead(
    live: LiveLane, answers: Mapping[tuple, Mapping[str, Any]], encode: Encode, vectors: dict[str, np.ndarray]
) -> None:
    """Embeds all experiences of a lane in one call; what a lane asks does not depend on its policy here."""
    texts = []
    for question in range(len(live.session.questions)):
        held = _answer(live, question, answers)
        texts.append(live.learn(Pending(0, question, (), ()), None if held is None else held["text"]).experience)
    missing = [text for text in dict.fromkeys(texts) if text not in vectors]
    if missing:
        vectors.update(zip(missing, encode(missing), strict=True))
