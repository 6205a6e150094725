"""`solarjax replay`: what a memory policy does to a language model's answers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from solarjax.cli.errors import UserError
from solarjax.cli.parsing import numbers, seed_list, whole_numbers
from solarjax.cli.replay_source import encoder_of, source_of

if TYPE_CHECKING:
    from solarjax.replay.loop import Progress
    from solarjax.replay.run import Outcome


def replay(
    locomo: Annotated[Path | None, typer.Option(help="A LoCoMo file (locomo10.json).")] = None,
    dialsim: Annotated[Path | None, typer.Option(help="A DialSim corpus; its questions are in --qa.")] = None,
    qa: Annotated[Path | None, typer.Option(help="Questions for --dialsim.")] = None,
    jsonl: Annotated[Path | None, typer.Option(help="Your own items and questions as JSON lines.")] = None,
    requests: Annotated[Path | None, typer.Option(help="A recorded log of OpenAI-style requests.")] = None,
    server: Annotated[str | None, typer.Option(help="Address of an OpenAI-compatible server.")] = None,
    model: Annotated[str | None, typer.Option(help="Name under which the server has the model.")] = None,
    tokenizer: Annotated[
        str | None,
        typer.Option(
            help="Folder or hub name of its tokenizer (default: $SOLARJAX_TOKENIZER, that of a server from `solarjax "
            "vllm up`, or --model)."
        ),
    ] = None,
    mode: Annotated[
        str, typer.Option(help="on-policy; frozen (one recorded run for all policies); shadow (no model).")
    ] = "on-policy",
    policies: Annotated[str, typer.Option(help="Names separated by commas, or all = the paper's eight.")] = "all",
    param: Annotated[list[str] | None, typer.Option(metavar="NAME=VALUE", help="A policy parameter.")] = None,
    capacities: Annotated[str, typer.Option(help="Cache sizes in experiences.")] = "10,20,50",
    seeds: Annotated[str, typer.Option(help="How many (0, 1, ...), or a list such as 42,1337.")] = "3",
    sessions: Annotated[str | None, typer.Option(help="Names separated by commas (default: all).")] = None,
    limit: Annotated[int | None, typer.Option(help="Questions per session, spread over the file.")] = None,
    warmup: Annotated[float, typer.Option(help="Share of the questions that come first and are not scored.")] = 0.8,
    test: Annotated[str, typer.Option(help="Scored part: online (goes on learning) or frozen.")] = "online",
    feedback: Annotated[str, typer.Option(help="What policies see: retrieved, liked, liked_disliked.")] = "retrieved",
    like_at: Annotated[float, typer.Option(help="F1 from which an answer is liked.")] = 0.5,
    lambdas: Annotated[str, typer.Option("--lambda", help="Prices of one cache change.")] = "1",
    k: Annotated[int, typer.Option("--k", help="Experiences per prompt.")] = 3,
    corpus_k: Annotated[int, typer.Option(help="Texts of the dialogue per prompt.")] = 5,
    root_seed: Annotated[int, typer.Option(help="Root of all random streams.")] = 0,
    template: Annotated[str, typer.Option(help="Prompt template: a name, or a file.")] = "locomo_v1",
    context: Annotated[int, typer.Option(help="Tokens of prompt and answer together.")] = 2048,
    max_tokens: Annotated[int, typer.Option(help="Most tokens of an answer.")] = 32,
    temperature: Annotated[float, typer.Option(help="0 is greedy.")] = 0.0,
    api: Annotated[str, typer.Option(help="chat, or completions (chat template applied here).")] = "chat",
    concurrency: Annotated[int, typer.Option(help="Requests in flight.")] = 16,
    timeout: Annotated[float, typer.Option(help="Seconds until a try is given up.")] = 120.0,
    cache: Annotated[Path | None, typer.Option(help="File of answers to share between runs.")] = None,
    encoder: Annotated[str | None, typer.Option(help="Sentence encoder: a folder or a hub name.")] = None,
    out: Annotated[Path | None, typer.Option(help="Folder for journal, dataset, provenance; continues.")] = None,
    against: Annotated[
        Path | None, typer.Option(help="Shadow mode: an on-policy result to correlate the proxy with.")
    ] = None,
    recorded: Annotated[
        Path | None, typer.Option(help="Frozen mode: folder with the recording to study; complete, it needs no server.")
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what would be asked, and stop.")] = False,
    speed: Annotated[float, typer.Option(help="Dry run: prompt tokens a second of the server.")] = 1500.0,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No table, no progress.")] = False,
) -> None:
    """Replay real questions through a language model under each policy, and score its answers.

    A replay that is stopped at any point continues with the same command and asks nothing twice. An API key is read
    from $SOLARJAX_API_KEY or $OPENAI_API_KEY.

    \b
    Examples:
      solarjax replay --locomo locomo10.json --server http://127.0.0.1:8000 \\
        --model smollm2-135m-instruct --policies fifo,solar --capacities 10 --seeds 3 --sessions conv-26 \\
        --limit 40 --out runs/replay
      solarjax replay --locomo locomo10.json --mode frozen --recorded runs/frozen \\
        --model smollm2-135m-instruct --policies lru,solar --capacities 10,20 --seeds 3 --out runs/frozen-lru
      solarjax replay --locomo locomo10.json --mode shadow --against runs/replay --policies fifo,solar \\
        --capacities 10 --seeds 3 --sessions conv-26 --limit 40 --out runs/shadow
    """
    import shlex
    import sys

    from solarjax.cli import runtime
    from solarjax.replay.completion import Sampling
    from solarjax.replay.plan import FROZEN, SHADOW, Plan, Settings, replay_cases
    from solarjax.replay.traces import choose, left_out

    if api not in ("chat", "completions"):
        raise UserError(f"--api {api} is unknown; allowed are chat, completions")
    if against is not None and mode != SHADOW:
        raise UserError("--against only applies to --mode shadow")
    if not speed > 0:
        raise UserError(f"--speed {speed:g} is out of range; allowed are numbers above 0")
    settings = Settings(
        mode=mode, corpus_k=corpus_k, k=k, warmup=warmup, test=test, feedback=feedback, like_at=like_at,
        lambdas=numbers("--lambda", lambdas, 0.0), root_seed=root_seed, context=context, template=template,
        sampling=Sampling(max_tokens=max_tokens, temperature=temperature), chat=api == "chat",
    )  # fmt: skip
    named = {"locomo": locomo, "dialsim": dialsim, "jsonl": jsonl, "requests": requests}
    loaded, source = source_of(named, qa, encoder)
    names = [name.strip() for name in sessions.split(",")] if sessions else None
    plan = Plan(
        tuple(choose(loaded, names, limit)), tuple(replay_cases(policies, param or ())),
        whole_numbers("--capacities", capacities, 1), seed_list(seeds), settings,
    )  # fmt: skip
    if mode != SHADOW and not model:
        raise UserError(f"--mode {mode} asks a model: name it with --model")
    if recorded is not None and mode != FROZEN:
        raise UserError(f"--recorded only applies to --mode {FROZEN}")
    if mode not in (SHADOW, FROZEN) and not dry_run and not server:
        raise UserError(f"--mode {mode} asks a model: give the address of its server with --server")
    if out is None and not dry_run:
        raise UserError("--out is needed: a replay keeps its answers there")
    if not quiet:
        for reason, number in left_out(plan.sessions).items():
            print(f"questions left out, and counted in the result: {number} {reason}", file=sys.stderr)
    runtime.start()
    from solarjax.replay import run, stepper
    from solarjax.replay import tokenizer as tokenizers

    stepper.in_this_thread()
    counts = None
    if mode != SHADOW:
        counts = tokenizers.load(tokenizers.chosen(tokenizer, server, model or ""))
    encode = encoder_of(encoder, out)
    if dry_run:
        if counts is None:
            print(f"shadow mode asks no model; {plan.total()} questions over {len(plan.lanes())} runs per session")
            return
        _say_estimate(run.estimate(plan, encode, counts, speed), speed)
        return
    assert out is not None, "checked above"
    remote = None
    if counts is not None:
        remote = run.Server(server or "", model or "", counts, concurrency, timeout, cache)
    import asyncio

    command = shlex.join(["solarjax", *sys.argv[1:]])
    with progress(quiet) as tell:
        outcome = asyncio.run(
            run.execute(plan, source, encode, out, remote, recorded=recorded, command=command, tell=tell)
        )
    if against is not None:
        _correlate(against, outcome, out, quiet)
    if not quiet:
        _show(outcome, out)


def _say_estimate(cost: Any, speed: float) -> None:
    print(f"requests: {cost.requests} (at least {cost.at_least} of them differ; the same prompt is asked once)")
    print(f"prompt tokens: about {cost.tokens:,}; answer tokens: at most {cost.answer_tokens:,}")
    print(
        f"time: about {cost.seconds / 60:.1f} min at {speed:g} prompt tokens a second, less what is cached or the same"
    )


@contextmanager
def progress(quiet: bool) -> Iterator[Callable[[Progress], None] | None]:
    """A line on stderr: a bar on a terminal, else a line every ten seconds."""
    import sys
    import time

    if quiet:
        yield None
        return
    last = 0.0

    def tell(at: Progress) -> None:
        nonlocal last
        end = at.done == at.total
        every = 0.2 if sys.stderr.isatty() else 10.0
        if not end and time.monotonic() - last < every:
            return
        last = time.monotonic()
        eta = f"{at.eta_s / 60:.1f} min left" if at.eta_s < float("inf") else ""
        line = f"{at.done}/{at.total} · {at.rate:.1f} requests/s · F1 {at.f1:.3f} · {eta}"
        line += f" · {at.resumed} from the journal" if at.resumed else ""
        print(f"\r{line}\033[K" if sys.stderr.isatty() else line, end="\n" if end or every > 1 else "", file=sys.stderr)

    yield tell


def _correlate(against: Path, outcome: Outcome, out: Path, quiet: bool) -> None:
    import json

    from solarjax.replay.correlation import correlate
    from solarjax.report import stored
    from solarjax.report.correlation import FILE

    rows = correlate(stored.load(against).data, outcome.data)
    stored.write_text(out / FILE, json.dumps(rows, indent=1, allow_nan=False) + "\n")
    if quiet:
        return
    for row in rows:
        rho = "constant" if row["spearman"] is None else f"{row['spearman']:+.3f}"
        what = row["policy"] or row["over"]
        print(f"K={row['capacity']} {what}: F1 {row['f1']:.3f}, hit {row['proxy']:.3f}, rho {rho}, n {row['n']}")


def _show(outcome: Outcome, out: Path) -> None:
    import sys

    data = outcome.data
    columns = [n for n in ("answer_f1", "answer_f1_answerable", "hit_rate", "support") if n in data]
    columns += [n for n in ("admissions", "evictions", "ttft_ms", "cached_share", "decision_ms_p50") if n in data]
    means = data[columns].mean([axis for axis in ("trace", "seed") if axis in data.dims])
    print("  ".join(["K", "policy", *columns]))
    for capacity in data["capacity"].values:
        for policy in data["policy"].values:
            cell = means.sel(capacity=capacity, policy=policy)
            print("  ".join([str(capacity), str(policy), *(f"{float(cell[name]):.3f}" for name in columns)]))
    state = "was complete already; nothing was asked" if outcome.reused else f"asked {outcome.asked} questions"
    print(f"{out}: {state}; `solarjax report {out}` renders it.", file=sys.stderr)
