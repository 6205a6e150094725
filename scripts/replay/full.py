"""The full replay behind reports/replay/: LoCoMo, session by session, through a running model server.

    solarjax vllm up
    scripts/replay_full --locomo ../shared/data/locomo/locomo10.json --server URL --model NAME --tokenizer DIR

Sessions are taken one after another, capacities in the outer loop, so whatever time there is gives whole sessions.
Journals, answers and embeddings stay in the work folder (runs/replay_full), so a stopped run continues and asks nothing
twice; at the end the summary in reports/replay/ is written anew from all sessions that are complete.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import shlex
import sys
from pathlib import Path

POLICIES = "unlimited,fifo,lru,lfu,arc,solar_e,solar_a,solar"


def arguments(given: list[str] | None = None) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--locomo", type=Path, required=True)
    parser.add_argument("--server", help="address of the model server; without it only the summary is written")
    parser.add_argument("--model", default="smollm2")
    parser.add_argument("--tokenizer", default=os.environ.get("SOLARJAX_TOKENIZER", ""))
    parser.add_argument("--policies", default=POLICIES)
    parser.add_argument("--capacities", default="10,20")
    parser.add_argument("--limit", type=int, default=30, help="questions per session, spread over its file")
    parser.add_argument("--warmup", type=float, default=0.5)
    parser.add_argument("--max-tokens", type=int, default=16)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--timeout", type=float, default=600.0)
    parser.add_argument("--work", type=Path, default=Path("runs/replay_full"))
    parser.add_argument("--out", type=Path, default=Path("reports/replay"))
    return parser.parse_args(given)


def main() -> None:
    """Runs what is not complete yet; after each session writes the summary."""
    options = arguments()
    from scripts.replay import complete, summary
    from solarjax.cli import runtime

    runtime.start()
    import jax

    jax.config.update("jax_cpu_enable_async_dispatch", False)  # as `solarjax replay` does
    command = shlex.join(["scripts/replay_full", *sys.argv[1:]])
    if options.server:
        from solarjax.cli.replay import progress
        from solarjax.cli.replay_source import encoder_of, source_of
        from solarjax.replay import run, tokenizer
        from solarjax.replay.completion import Sampling
        from solarjax.replay.plan import Plan, Settings, replay_cases
        from solarjax.replay.traces import choose

        sessions, source = source_of({"locomo": options.locomo}, None, None)
        settings = Settings(warmup=options.warmup, sampling=Sampling(max_tokens=options.max_tokens))
        server = run.Server(
            options.server, options.model, tokenizer.load(options.tokenizer or options.model), 16, options.timeout,
            options.work / "responses.sqlite",
        )  # fmt: skip
        encode = encoder_of(None, options.work)
        cases = tuple(replay_cases(options.policies))
        for capacity in (int(text) for text in options.capacities.split(",")):
            for session in choose(sessions, None, options.limit):
                plan = Plan((session,), cases, (capacity,), (options.seed,), settings)
                folder = options.work / f"K{capacity}" / session.name
                print(f"{session.name}, K = {capacity}: {plan.total()} questions", flush=True)
                with progress(False) as tell:
                    asyncio.run(run.execute(plan, source, encode, folder, server, command=command, tell=tell))
    run = complete.gather(options.work, command)
    for path in [] if run is None else summary.write(run, options.out):
        print(path)


if __name__ == "__main__":
    main()
