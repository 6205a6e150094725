"""`solarjax run`: sweep policies over a workload or over recorded traces."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from solarjax.cli.errors import UserError
from solarjax.cli.parsing import numbers, seed_list, size_in_bytes, whole_numbers

if TYPE_CHECKING:
    from solarjax.cli.job import Outcome


def run(
    workload: Annotated[str | None, typer.Option(help="A generated workload; see `solarjax workloads`.")] = None,
    trace: Annotated[list[Path] | None, typer.Option(help="A trace file (npz); may be repeated.")] = None,
    prefill: Annotated[
        list[Path] | None, typer.Option(help="Items (npy) in the cache from the start; one per --trace.")
    ] = None,
    jsonl: Annotated[list[Path] | None, typer.Option(help="Your own trace as JSON lines; may be repeated.")] = None,
    locomo: Annotated[Path | None, typer.Option(help="A LoCoMo file (locomo10.json).")] = None,
    friendsqa: Annotated[list[Path] | None, typer.Option(help="A FriendsQA file; may be repeated.")] = None,
    dialsim: Annotated[Path | None, typer.Option(help="A DialSim corpus; its questions are in --qa.")] = None,
    qa: Annotated[Path | None, typer.Option(help="Questions for --dialsim.")] = None,
    protocol: Annotated[str | None, typer.Option(help="For dialogues: P1, P2 (default), P3 or P1mb.")] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="NAME=VALUE", help="A parameter of the workload or protocol."),
    ] = None,
    policies: Annotated[
        str,
        typer.Option(help="Names separated by commas, with parameters in brackets; all = the paper's eight, every."),
    ] = "all",
    param: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME=VALUES", help="A policy parameter; several values span a grid (lam=1,5)."),
    ] = None,
    capacities: Annotated[str, typer.Option(help="Cache sizes in items.")] = "10,20,50",
    seeds: Annotated[str, typer.Option(help="How many (0, 1, ...), or a list such as 42,1337.")] = "100",
    lambdas: Annotated[str, typer.Option("--lambda", help="Prices of one cache change, for the total cost.")] = "1",
    k: Annotated[int, typer.Option("--k", help="Items retrieved per question.")] = 3,
    quality: Annotated[str, typer.Option(help="What a retrieval is worth; 1 - quality is the miss cost.")] = "hit",
    feedback: Annotated[
        str, typer.Option(help="What policies learn from: retrieved, liked or liked_disliked.")
    ] = "retrieved",
    like_at: Annotated[float, typer.Option(help="Quality from which a retrieval is liked.")] = 0.5,
    root_seed: Annotated[int, typer.Option(help="Root of all random streams.")] = 0,
    encoder: Annotated[str | None, typer.Option(help="Sentence encoder: a folder or a hub name.")] = None,
    out: Annotated[Path | None, typer.Option(help="Folder for dataset, provenance and figures; resumes.")] = None,
    json_file: Annotated[
        str | None,
        typer.Option("--json", metavar="FILE", help="Rows as JSON; - is stdout (the table moves to stderr)."),
    ] = None,
    per_step: Annotated[bool, typer.Option("--per-step", help="Keep the hit of every scored step.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No table, no progress bar.")] = False,
    memory: Annotated[str | None, typer.Option(help="Memory budget, such as 2GB.")] = None,
    devices: Annotated[int | None, typer.Option(help="CPU: devices to split into (default: one per core).")] = None,
    no_compile_cache: Annotated[
        bool,
        typer.Option("--no-compile-cache", help="Do not keep compiled programs in ~/.cache/solarjax/xla."),
    ] = False,
    store: Annotated[
        str, typer.Option(help="netcdf, or zarr: results fill up on disk (see docs/scale.md).")
    ] = "netcdf",
    launcher: Annotated[str, typer.Option(help="local, array, distributed or ray (see docs/scale.md).")] = "local",
    processes: Annotated[
        int | None, typer.Option(help="array, distributed: how many processes share the work.")
    ] = None,
    process: Annotated[int | None, typer.Option(help="array, distributed: which of them this is, from 0.")] = None,
    coordinator: Annotated[
        str | None, typer.Option(metavar="HOST:PORT", help="distributed: process 0 (default: found by jax).")
    ] = None,
    timeout: Annotated[float, typer.Option(help="distributed: seconds to wait for silent processes.")] = 600.0,
    ray_address: Annotated[
        str | None,
        typer.Option(metavar="HOST:PORT", help="ray: a running cluster, or auto (default: one for this run)."),
    ] = None,
    ray_gpus: Annotated[float, typer.Option(help="ray: GPUs of each task.")] = 0.0,
    status: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Say how far the run in DIR is, and do nothing else.")
    ] = None,
) -> None:
    """Sweep memory policies over a workload or over recorded traces.

    Compiled programs are kept in ~/.cache/solarjax/xla (or $SOLARJAX_CACHE), so a second run starts at once;
    switch that off with --no-compile-cache or SOLARJAX_COMPILE_CACHE=0.

    \b
    Examples:
      solarjax run --workload cycling --set n_topics=50 --policies fifo,lru,solar --capacities 10 --seeds 1000
      solarjax run --workload working_set --policies all,oracle_cover --param lam=1,5,10 --out runs/working_set
      solarjax run --locomo locomo10.json --protocol P2 --set mean=100 --capacities 10,50 --seeds 100
      solarjax run --trace stream.npz --prefill first.npy --policies "solar(threshold=eoq),fifo" --json -
      solarjax run --jsonl mine.jsonl --capacities 100 --json rows.json --per-step
    """
    from solarjax.cli import job as jobs
    from solarjax.cli import launch as launching
    from solarjax.cli import runtime, terminal
    from solarjax.cli.sources import SourceSpec

    if status is not None:
        from solarjax.scale.status import status as look

        print(look(status).line())
        return
    named = {
        "--workload": workload, "--trace": trace, "--jsonl": jsonl,
        "--locomo": locomo, "--friendsqa": friendsqa, "--dialsim": dialsim,
    }  # fmt: skip
    given = [option for option, value in named.items() if value]
    if len(given) != 1:
        what = " and ".join(given) + " were given" if given else "none was given"
        raise UserError(f"name one source: {', '.join(named)}; {what}")
    files = trace or jsonl or friendsqa or [path for path in (locomo, dialsim) if path]
    source = SourceSpec(
        kind=given[0].removeprefix("--"), name=workload or "", settings=tuple(settings or ()),
        files=tuple(files), prefill=tuple(prefill or ()), qa=qa, protocol=protocol, encoder=encoder,
    )  # fmt: skip
    if not 0 <= root_seed < 2**32:
        raise UserError(f"--root-seed {root_seed} is out of range; allowed are 0..{2**32 - 1}")
    job = jobs.Job(
        source=source, policies=policies, params=tuple(param or ()),
        capacities=whole_numbers("--capacities", capacities, 1), seeds=seed_list(seeds),
        lambdas=numbers("--lambda", lambdas, 0.0), k=k, quality=quality, feedback=feedback,
        like_at=like_at, root_seed=root_seed, per_step=per_step,
        memory_bytes=size_in_bytes("--memory", memory),
    )  # fmt: skip
    launch = launching.Launch(
        launcher, store, processes, process, coordinator, timeout, ray_address, ray_gpus
    )  # fmt: skip
    launch.check(out)
    _check_writable(json_file)
    launch.join()
    runtime.start(devices, not no_compile_cache)
    outcome: Outcome | None
    with terminal.progress(quiet) as bar:
        if launch.plain:
            outcome = jobs.execute(job, out, bar)
        else:
            outcome = launching.execute(job, launch, out, bar, not no_compile_cache)
    if outcome is None:
        if not quiet and out is not None:
            from solarjax.scale.status import status as look

            print(look(out).line(), file=sys.stderr)
        return
    _deliver(outcome, out, json_file, quiet)


def _check_writable(json_file: str | None) -> None:
    """A file that cannot be written should be known before the sweep, not after it."""
    if json_file not in (None, "-"):
        from solarjax.report.stored import check_writable

        if Path(json_file).is_dir():
            raise UserError(f"--json {json_file} is a folder; a file is needed")
        check_writable(Path(json_file).parent)


def _deliver(outcome: Outcome, out: Path | None, json_file: str | None, quiet: bool) -> None:
    import json

    from solarjax.cli import terminal
    from solarjax.cli.rows import rows
    from solarjax.report import stored

    if outcome.stored is not None and out is not None and not outcome.reused:
        from solarjax.report.render import pictures, write_pictures
        from solarjax.report.sections import build

        (section,) = build([outcome.stored])
        write_pictures(pictures(section), out / "figures")
    if json_file is not None:
        text = json.dumps(rows(outcome.data), indent=1, allow_nan=False) + "\n"
        if json_file == "-":
            sys.stdout.write(text)
        else:
            stored.write_text(Path(json_file), text)
    if quiet:
        return
    if outcome.reused:
        print(f"{out} holds this run already; nothing was computed.", file=sys.stderr)
    offline = {p["label"] for p in outcome.config["policies"] if not p["online"]}
    terminal.print_table(outcome.data, offline, sys.stderr if json_file == "-" else None)
    if out is not None:
        print(
            f"{out} holds dataset, provenance and figures; `solarjax report {out}` renders them.",
            file=sys.stderr,
        )
