"""The on-policy loop of spec 5: retrieve, ask, score, learn; many lanes at once.

Rounds. A session's lanes take their first question together, then their second ... Within a round the questions are
independent and go to the server in the order of `Plan`; the next round starts when all are answered. So lanes that ask
the same question share its prefix on the server, and lanes with the same prompt share one answer. A few sessions run
side by side, so that the server has work while a round ends.

Within a session the order of requests is fixed: it depends on the plan alone (`order` of a record). How the sessions
that run side by side interleave depends on the server's speed; it is recorded (`sent`: the number of the request,
counted as it is handed to the client, over all processes that worked on the replay).

Every settled question is in the journal before its lane goes on. On any error the answers that came are recorded first.
"""

from __future__ import annotations

import asyncio
import itertools
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np

from solarjax.replay.completion import Completion
from solarjax.replay.corpus import Corpus, Encode
from solarjax.replay.errors import ReplayError
from solarjax.replay.journal import Journal
from solarjax.replay.lane import LiveLane, Pending, by_lane
from solarjax.replay.plan import Plan
from solarjax.replay.prompts import Built, Prompter
from solarjax.replay.traces import ReplaySession


class Chat(Protocol):
    """What the loop needs of a client; see `replay.client.Client`."""

    async def chat(self, messages: Any, sampling: Any) -> Completion: ...
    async def complete(self, prompt: str, sampling: Any) -> Completion: ...


class Nobody:
    """The client of a replay whose questions are all recorded."""

    async def chat(self, messages: Any, sampling: Any) -> Completion:
        """Refuses."""
        raise ReplayError("a replay that is recorded completely asks nothing")

    complete = chat


@dataclass
class Progress:
    """What a display needs. f1 is the mean over scored questions so far, NaN before the first."""

    total: int
    done: int = 0
    resumed: int = 0
    scored: int = 0
    f1_sum: float = 0.0
    began: float = field(default_factory=time.monotonic)
    embed_cpu_s: float = 0.0

    @property
    def f1(self) -> float:
        """Mean score of the scored questions."""
        return self.f1_sum / self.scored if self.scored else float("nan")

    @property
    def rate(self) -> float:
        """Questions per second of this process."""
        return (self.done - self.resumed) / max(time.monotonic() - self.began, 1e-9)

    @property
    def eta_s(self) -> float:
        """Seconds left at this rate, infinite before the first answer."""
        return (self.total - self.done) / self.rate if self.rate > 0 else float("inf")

    def count(self, record: dict[str, Any], resumed: bool) -> None:
        """Adds a settled question."""
        self.done += 1
        self.resumed += resumed
        if record["scored"]:
            self.scored += 1
            self.f1_sum += record["quality"]


class Loop:
    """A replay against one model.

    Args:
      plan: what to run.   client: the model.   prompter: see `prompts`.   encode: texts to unit rows.
      journal: where answers are kept; its records are not asked again.
      concurrency: requests in flight that keep the server busy; decides how many sessions run side by side.
      tell: called with the progress after every round.
    """

    def __init__(
        self,
        plan: Plan,
        client: Chat,
        prompter: Prompter,
        encode: Encode,
        journal: Journal,
        *,
        concurrency: int = 16,
        tell: Callable[[Progress], None] | None = None,
    ):
        self.plan, self.client, self.prompter, self.journal = plan, client, prompter, journal
        self._encode, self._tell = encode, tell
        self.version = ""  # of the server, once it is known; part of every record
        self.progress = Progress(plan.total())
        self._recorded = by_lane(journal.records)
        self._sent = itertools.count(1 + max((int(r.get("sent", -1)) for r in journal.records), default=-1))
        lanes = max(1, len(plan.lanes()))
        self._side_by_side = asyncio.Semaphore(max(1, min(len(plan.sessions), -(-2 * concurrency // lanes))))
        self._embedding = asyncio.Lock()
        self._failed = False

    async def run(self) -> None:
        """Asks everything that is not in the journal.

        Raises:
          ReplayError: the first failure that could not be retried; what was answered until then is in the journal.
        """
        # One after the other and before any request: embedding and compiling block, and a server's time-out runs.
        made = [await self._prepare(session, at) for at, session in enumerate(self.plan.sessions)]
        self.progress.began = time.monotonic()
        tasks = [asyncio.create_task(self._session(lanes, base)) for lanes, base in made]
        try:
            # Not cancelled at the first failure: answers that are on their way are paid for, and end up in the journal.
            ended = await asyncio.gather(*tasks, return_exceptions=True)
        except asyncio.CancelledError:
            for task in tasks:
                task.cancel()
            # All must have finished with the journal before it is closed.
            await asyncio.gather(*tasks, return_exceptions=True)
            raise
        for error in ended:
            if error is not None:
                raise error

    async def _prepare(self, session: ReplaySession, at: int) -> tuple[list[LiveLane], int]:
        settings = self.plan.settings
        corpus = Corpus(session, settings.corpus_k, self._timed_encode)
        lanes = [LiveLane(lane, session, corpus, settings, self.plan.num_items()) for lane in self.plan.lanes()]
        known = [self._recorded.get((session.name, *lane.lane.key), []) for lane in lanes]
        pairs = [(lane, record) for lane, done in zip(lanes, known, strict=True) for record in done]
        texts = dict.fromkeys(self._experience(lane, record) for lane, record in pairs)
        rows = self._timed_encode(list(texts)) if texts else np.zeros((0, 1), np.float32)
        vectors = dict(zip(texts, rows, strict=True))
        for lane, record in pairs:
            lane.again(record, vectors.__getitem__)
            self.progress.count(record, resumed=True)
        base = len(lanes) * sum(len(s.questions) for s in self.plan.sessions[:at])
        return lanes, base

    def _experience(self, lane: LiveLane, record: dict[str, Any]) -> str:
        question = int(lane.order[record["position"]])
        return lane.learn(Pending(record["position"], question, (), ()), record["text"]).experience

    async def _session(self, lanes: Sequence[LiveLane], base: int) -> None:
        async with self._side_by_side:
            for position in range(len(lanes[0].order)):
                # After a kill some lanes of a round may be settled and others not.
                todo = [lane for lane in lanes if lane.position == position]
                if todo and not self._failed:
                    try:
                        await self._round(todo, base + position * len(lanes))
                    except BaseException:
                        self._failed = True  # the other sessions end with their round
                        raise
                    if self._tell is not None:
                        self._tell(self.progress)

    async def _round(self, lanes: Sequence[LiveLane], base: int) -> None:
        pending = [lane.ask() for lane in lanes]
        built: dict[tuple, Built] = {}
        for lane, wait in zip(lanes, pending, strict=True):
            key = (wait.question, wait.experiences)
            if key not in built:
                text = lane.session.questions[wait.question].text
                built[key] = self.prompter.build(lane.corpus.shown(wait.question), wait.experiences, text)
        asked = [built[wait.question, wait.experiences] for wait in pending]
        answers = await asyncio.gather(*(self._ask(prompt) for prompt in asked), return_exceptions=True)
        failed = [answer for answer in answers if isinstance(answer, BaseException)]
        came = {i: answer for i, answer in enumerate(answers) if not isinstance(answer, BaseException)}
        learned = {i: lanes[i].learn(pending[i], answer.text) for i, (_, answer) in came.items()}
        texts = list(dict.fromkeys(one.experience for one in learned.values()))
        vectors = dict(zip(texts, await self._embed(texts), strict=True)) if texts else {}
        for i, (sent, answer) in came.items():
            record = lanes[i].settle(pending[i], learned[i], vectors[learned[i].experience])
            record |= {"order": base + lanes[i].lane.number, "sent": sent, "server": self.version}
            record |= _measured(asked[i], answer)
            self.journal.append(record)
            self.progress.count(record, resumed=False)
        if failed:
            raise failed[0]

    async def _ask(self, prompt: Built) -> tuple[int, Completion]:
        sampling, sent = self.plan.settings.sampling, next(self._sent)
        if self.plan.settings.chat:
            return sent, await self.client.chat(prompt.messages, sampling)
        return sent, await self.client.complete(prompt.text, sampling)

    async def _embed(self, texts: list[str]) -> np.ndarray:
        async with self._embedding:  # one at a time: the encoder has no cores to spare for two
            return await asyncio.to_thread(self._timed_encode, texts)

    def _timed_encode(self, texts: Sequence[str]) -> np.ndarray:
        began = time.thread_time()
        rows = self._encode(texts)
        self.progress.embed_cpu_s += time.thread_time() - began
        return rows


def _measured(prompt: Built, answer: Completion) -> dict[str, Any]:
    gaps = answer.itl_s
    return {
        "prompt": prompt.sha256, "dropped": [list(one) for one in prompt.dropped], "counted_tokens": prompt.tokens,
        "finish": answer.finish_reason, "prompt_tokens": answer.prompt_tokens, "cached_tokens": answer.cached_tokens,
        "completion_tokens": answer.completion_tokens, "ttft_s": answer.ttft_s,
        "itl_s": sum(gaps) / len(gaps) if gaps else None, "total_s": answer.total_s, "attempts": answer.attempts,
        "from_cache": answer.from_cache,
    }  # fmt: skip
