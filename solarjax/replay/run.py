"""A replay from start to stored result: checks first, then requests, then the dataset with its provenance."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from solarjax import provenance
from solarjax.replay import dataset, modes
from solarjax.replay.client import Client
from solarjax.replay.corpus import Corpus, Encode
from solarjax.replay.errors import BadOption
from solarjax.replay.journal import FILE, Journal
from solarjax.replay.loop import Chat, Loop, Nobody, Progress
from solarjax.replay.plan import FROZEN, SHADOW, Plan, question_order
from solarjax.replay.prompts import Prompter, load
from solarjax.replay.response_cache import ResponseCache
from solarjax.report import stored

if TYPE_CHECKING:
    import xarray as xr

    from solarjax.report.stored import StoredRun

RESPONSES = "responses.sqlite"
Tell = Callable[[Progress], None]


@dataclass(frozen=True)
class Server:
    """Where answers come from. url: empty if all are recorded.   name: of the model.   tokenizer: what counts its
    tokens, see `tokenizer.load`.

    concurrency: requests in flight.   timeout_s: of one try.   cache: file of answers, None for one in the result's
    folder.
    """

    url: str
    name: str
    tokenizer: Any
    concurrency: int = 16
    timeout_s: float = 120.0
    cache: Path | None = None


@dataclass(frozen=True)
class Outcome:
    """data: the dataset.   stored: the folder's record.   asked: questions answered by this process, resumed ones and
    those of a finished run not counted.   reused: the folder held this very run already."""

    data: xr.Dataset
    stored: StoredRun
    asked: int
    reused: bool = False


async def execute(
    plan: Plan,
    source: dict[str, Any],
    encode: Encode,
    out: Path,
    server: Server | None = None,
    *,
    recorded: Path | None = None,
    command: str = "",
    tell: Tell | None = None,
) -> Outcome:
    """Runs a replay into `out`, or continues it, or reads it back if it is complete.

    Args:
      plan: what to run.   source: where the sessions come from, JSON-able.   encode: texts to unit rows.
      out: folder; the journal in it is what a stopped replay continues from.
      server: None for `shadow` mode only.
      recorded: for `frozen` mode, a folder whose recording is used, and continued if it is not complete; None records
        in `out`.
      command: the line that repeats it.   tell: progress.

    Raises:
      StoreError: `out` cannot be used, or holds something else.
      ReplayError: anything wrong with the server, the journal or the settings; what was answered is kept.
    """
    mode = plan.settings.mode
    if recorded is not None and mode != FROZEN:
        raise BadOption(f"mode {mode} makes its own answers; a recording is for mode {FROZEN}")
    if mode == SHADOW:
        model: dict[str, Any] = {}
    elif server is None:
        raise BadOption(f"mode {mode} asks a model; a server and the model's name are needed")
    else:
        model = {"name": server.name, "tokenizer": provenance_of(server.tokenizer)}
    config = plan.config(model, source)
    code = provenance.code_fingerprint(provenance.REPLAY)
    held = stored.prepare(out, config, code)
    if held is not None:
        return Outcome(held.data, held, 0, reused=True)
    began, cpu = time.perf_counter(), time.process_time()
    versions, timing, asked, recording = [], {}, 0, None
    if server is None:
        records = modes.offline(plan, encode, tell=tell)
    else:
        own, identity, folder = plan, config, out
        if mode == FROZEN:
            own, folder = modes.recording_plan(plan), recorded or out
            identity = own.config(model, source)
            if recorded is not None and not (folder / FILE).exists():
                raise BadOption(f"{folder} holds no recording: there is no {FILE}")
        records, progress = await _ask(own, identity, encode, folder, server, tell)
        # A replay may have been continued after the server was updated.
        versions = list(dict.fromkeys(str(r["server"]) for r in records))
        asked = progress.done - progress.resumed
        timing = {
            "asked": asked, "wall_s": round(time.perf_counter() - began, 3),
            "adapter_cpu_s": round(time.process_time() - cpu - progress.embed_cpu_s, 3),
            "embedding_cpu_s": round(progress.embed_cpu_s, 3),
        }  # fmt: skip
        if mode == FROZEN:
            recording = provenance.file_sha256(folder / FILE)
            records = modes.offline(plan, encode, records, tell)
    data = dataset.assemble(plan, records, {"model": model.get("name", ""), "server_version": ", ".join(versions)})
    record = provenance.collect(config, command, time.perf_counter() - began, code)
    record |= {
        "server_version": ", ".join(versions),
        "timing": timing,
        "sessions": {s.name: dict(s.dropped) for s in plan.sessions},
        "recording": recording,
    }
    return Outcome(data, stored.save(out, data, record), asked)


async def _ask(
    plan: Plan, identity: dict[str, Any], encode: Encode, folder: Path, server: Server, tell: Tell | None
) -> tuple[list[dict[str, Any]], Progress]:
    settings = plan.settings
    budget = settings.context - settings.sampling.max_tokens
    prompter = Prompter(load(settings.template), server.tokenizer, budget)
    with Journal(folder / FILE, identity) as journal:

        def loop_with(client: Chat) -> Loop:
            return Loop(plan, client, prompter, encode, journal, concurrency=server.concurrency, tell=tell)

        if len(journal.records) == plan.total():
            # Complete but for the result: no server is needed to finish.
            loop = loop_with(Nobody())
            await loop.run()
            return journal.records, loop.progress
        if not server.url:
            raise BadOption(
                f"{journal.path} holds {len(journal.records)} of {plan.total()} answers; "
                "give the address of a server with --server to ask the others"
            )
        with ResponseCache(server.cache or folder / RESPONSES) as cache:
            client = Client(
                server.url, server.name, concurrency=server.concurrency, timeout_s=server.timeout_s, cache=cache
            )
            loop = loop_with(client)
            async with client:
                loop.version = await client.check()
                await loop.run()
    return journal.records, loop.progress


@dataclass(frozen=True)
class Estimate:
    """What a replay would cost. requests: questions over all runs.   at_least: how many of them surely differ.
    tokens: prompt tokens, about.   answer_tokens: at most.   seconds: at the given speed, if all differ."""

    requests: int
    at_least: int
    tokens: int
    answer_tokens: int
    seconds: float


def estimate(plan: Plan, encode: Encode, tokenizer: Any, tokens_per_s: float, samples: int = 40) -> Estimate:
    """Counts requests, and tokens from a sample of prompts without a server.

    Experiences are taken at the length of those with right answers. Identical prompts are asked once; how many there
    are is not known before. Every question is asked at least once per seed.

    Args:
      tokens_per_s: prompt tokens a second that the server takes, answers included.   samples: prompts per session.
    """
    settings = plan.settings
    recorded = modes.recording_plan(plan) if settings.mode == FROZEN else plan
    prompter = Prompter(load(settings.template), tokenizer, settings.context - settings.sampling.max_tokens)
    total = 0.0
    for session in plan.sessions:
        corpus = Corpus(session, settings.corpus_k, encode)
        order, _ = question_order(session, plan.seeds[0], settings.root_seed, settings.warmup)
        chosen = order[:: max(1, len(order) // samples)]
        lengths = []
        for at, question in enumerate(chosen):
            texts = [_sample(session, int(order[(at + i) % len(order)])) for i in range(settings.k)]
            built = prompter.build(corpus.shown(int(question)), texts, session.questions[int(question)].text)
            lengths.append(built.tokens)
        total += float(np.mean(lengths)) * len(order)
    lanes = len(recorded.lanes())
    questions = sum(len(s.questions) for s in plan.sessions)
    tokens = int(total * lanes)
    requests = recorded.total() if settings.mode != SHADOW else 0
    return Estimate(
        requests, questions * len(plan.seeds), tokens, requests * settings.sampling.max_tokens, tokens / tokens_per_s
    )


def _sample(session: Any, question: int) -> str:
    from solarjax.replay.lane import right_answer
    from solarjax.replay.prompts import experience

    asked = session.questions[question]
    return experience(asked.text, right_answer(asked), True, "")


def provenance_of(tokenizer: Any) -> dict[str, Any]:
    """Name, vocabulary and chat template of a tokenizer, so that a result says which prompts were sent."""
    import hashlib

    template = str(tokenizer.chat_template)
    name = Path(str(tokenizer.name_or_path)).name
    return {"name": name, "size": len(tokenizer), "chat_template": hashlib.sha256(template.encode()).hexdigest()}
