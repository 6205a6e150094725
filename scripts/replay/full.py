"""The full replay behind reports/replay/: LoCoMo, session by session, through a running model server and without one.

    solarjax vllm up
    scripts/replay_full --locomo ../shared/data/locomo/locomo10.json --server URL --model NAME \\
        --capacities 10,50,20 --limit 40 --budget-minutes 60

Sessions are taken one after another, each under all policies and capacities before the next, so that whatever time
there is gives whole sessions (with --together N, whole groups of N, which keep more requests in flight). Where the
budget ends, or the server does, the session at work is left as it is: its answers are kept, and not reported yet.
Then the complete sessions are replayed without the model, and everything in reports/replay/ is written anew
(`publish`). The same command continues and asks nothing twice; without --server it only writes.

Journals, answers and embeddings stay in the work folder (runs/replay_full).
"""

from __future__ import annotations

import argparse
import asyncio
import shlex
import sys
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from scripts.replay.budget import Budget

POLICIES = "unlimited,fifo,lru,lfu,arc,solar_e,solar_a,solar,bernoulli,keep_first"


def arguments(given: Sequence[str] | None = None) -> argparse.Namespace:
    """The command line; what is wrong with it ends the process with a line about it."""
    parser = argparse.ArgumentParser(
        prog="scripts/replay_full", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--locomo", type=Path, required=True)
    parser.add_argument("--server", help="address of the model server; without it nothing is asked")
    parser.add_argument("--model", default="smollm2-135m-instruct")
    parser.add_argument("--tokenizer", help="as of `solarjax replay`")
    parser.add_argument("--policies", default=POLICIES)
    parser.add_argument("--capacities", default="10,20,50")
    parser.add_argument("--sessions", help="names separated by commas, in the order of work (default: all)")
    parser.add_argument(
        "--together",
        type=int,
        default=1,
        help="sessions at a time; policies share most prompts, so one keeps few in flight",
    )
    parser.add_argument("--limit", type=int, default=40, help="questions per session, spread over its file")
    parser.add_argument("--warmup", type=float, default=0.5)
    parser.add_argument("--lambda", dest="lambdas", default="0.1,1,5", help="prices of a cache change")
    parser.add_argument("--max-tokens", type=int, default=16)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--concurrency", type=int, default=16)
    parser.add_argument("--timeout", type=float, default=600.0)
    parser.add_argument("--budget-minutes", type=float, help="stop asking after that long")
    parser.add_argument("--until", help="stop asking at HH:MM (UTC)")
    parser.add_argument("--work", type=Path, default=Path("runs/replay_full"))
    parser.add_argument("--out", type=Path, default=Path("reports/replay"))
    options = parser.parse_args(given)
    if options.together < 1:
        parser.error(f"--together {options.together} is out of range; allowed are whole numbers from 1")
    try:
        options.budget = Budget.of(options.budget_minutes, options.until, datetime.now(UTC))
    except ValueError as error:
        parser.error(str(error))
    return options


def main(given: Sequence[str] | None = None) -> int:
    """Asks what is not complete yet, and writes what is. Exit code 0, or 2 if the server failed on the way."""
    options = arguments(given)
    from scripts.replay import complete, publish
    from solarjax.cli import runtime
    from solarjax.cli.parsing import numbers, whole_numbers
    from solarjax.cli.replay_source import encoder_of, source_of
    from solarjax.replay import run, stepper
    from solarjax.replay.completion import Sampling
    from solarjax.replay.errors import ReplayError
    from solarjax.replay.plan import SHADOW, Plan, Settings, replay_cases
    from solarjax.replay.traces import choose
    from solarjax.report.stored import PROVENANCE

    settings = Settings(
        warmup=options.warmup, sampling=Sampling(max_tokens=options.max_tokens),
        lambdas=numbers("--lambda", options.lambdas, 0.0),
    )  # fmt: skip
    sessions, source = source_of({"locomo": options.locomo}, None, None)
    names = [name.strip() for name in options.sessions.split(",")] if options.sessions else None
    cases = tuple(replay_cases(options.policies))
    capacities = tuple(sorted(whole_numbers("--capacities", options.capacities, 1)))
    chosen = choose(sessions, names, options.limit)
    groups = [tuple(chosen[at : at + options.together]) for at in range(0, len(chosen), options.together)]
    plans = [Plan(group, cases, capacities, (options.seed,), settings) for group in groups]
    runtime.start()
    stepper.in_this_thread()
    command = shlex.join(["scripts/replay_full", *map(portable, sys.argv[1:] if given is None else given)])
    encode = encoder_of(None, options.work)
    failed = None
    if options.server:
        try:
            _ask(options, plans, source, encode, command)
        except ReplayError as error:
            failed = error

    def folder(kind: str, plan: Plan) -> Path:
        return options.work / kind / _name(plan)

    done = [plan for plan in plans if (folder("on-policy", plan) / PROVENANCE).exists()]
    for plan in done:
        unasked = replace(plan, settings=replace(plan.settings, mode=SHADOW))
        asyncio.run(run.execute(unasked, source, encode, folder("shadow", plan), command=command))
    live, shadow = (complete.gather([folder(kind, p) for p in done], command) for kind in ("on-policy", "shadow"))
    if live is None or shadow is None:
        print("no session is complete yet, so nothing is written", file=sys.stderr)
    else:
        for path in publish.publish(live, shadow, options.out):
            print(path)
        complete_sessions = sum(len(plan.sessions) for plan in done)
        print(f"{complete_sessions} of {len(chosen)} sessions are complete", file=sys.stderr)
    if failed is not None:
        print(f"scripts/replay_full: {failed}", file=sys.stderr)
        return 2
    return 0


def _ask(options: argparse.Namespace, plans: Sequence[Any], source: dict[str, Any], encode: Any, command: str) -> None:
    """On-policy runs, in order, until all are complete or the budget has ended."""
    from solarjax.cli.replay import progress
    from solarjax.replay import run, tokenizer

    counts = tokenizer.load(tokenizer.chosen(options.tokenizer, options.server, options.model))
    server = run.Server(
        options.server, options.model, counts, options.concurrency,
        options.timeout, options.work / "responses.sqlite",
    )  # fmt: skip
    for number, plan in enumerate(plans, start=1):
        if options.budget.left_s() == 0:
            print(f"the budget has ended before {_name(plan)}", file=sys.stderr)
            return
        name = _name(plan)
        print(f"{name} ({number} of {len(plans)}): {plan.total()} questions", file=sys.stderr)
        with progress(False) as tell:
            work = run.execute(
                plan, source, encode, options.work / "on-policy" / name, server, command=command, tell=tell
            )
            if asyncio.run(options.budget.within(work)) is None:
                print(f"the budget has ended within {name}; its answers are kept", file=sys.stderr)
                return


def _name(plan: Any) -> str:
    return "+".join(session.name for session in plan.sessions)


def portable(word: str) -> str:
    """A word of the command line without folders of this machine: relative to this folder, or the bare name."""
    option, equals, value = word.partition("=") if word.startswith("--") else ("", "", word)
    path = Path(value)
    if not path.is_absolute():
        return word
    here = Path.cwd()
    return option + equals + (str(path.relative_to(here)) if path.is_relative_to(here) else path.name)


if __name__ == "__main__":
    from solarjax.cli.errors import run_guarded

    sys.exit(run_guarded(main))
