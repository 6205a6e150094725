"""`solarjax vllm`: start, show and stop local vLLM servers."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated

import typer

from solarjax.cli.errors import UserError

app = typer.Typer(no_args_is_help=True, rich_markup_mode=None, help="Start, show and stop local vLLM servers.")

Name = Annotated[str, typer.Argument(help="Name of the server; several may run side by side.")]


@app.callback()
def vllm() -> None:
    """Start, show and stop local vLLM servers, installed by scripts/setup_vllm."""


@app.command("up", short_help="Start a server and wait until it answers.")
def up(
    name: Name = "default",
    model: Annotated[str | None, typer.Option("--model", help="Folder or hub name (default: the small model).")] = None,
    served_name: Annotated[str | None, typer.Option("--served-name", help="Name that clients use.")] = None,
    port: Annotated[int, typer.Option("--port", help="On 127.0.0.1; 0 picks a free one.")] = 8000,
    dtype: Annotated[str, typer.Option("--dtype", help="auto, bfloat16, float16 or float32.")] = "auto",
    max_model_len: Annotated[int, typer.Option("--max-model-len", help="Tokens of prompt and answer.")] = 4096,
    kv_cache_gib: Annotated[int, typer.Option("--kv-cache-gib", help="Memory of the cache, CPU servers only.")] = 1,
    kv_blocks: Annotated[int | None, typer.Option("--kv-blocks", help="Blocks of the cache, to make it small.")] = None,
    block_size: Annotated[int | None, typer.Option("--block-size", help="Tokens in a block of the cache.")] = None,
    prefix_caching: Annotated[bool, typer.Option("--prefix-caching/--no-prefix-caching")] = True,
    threads: Annotated[int | None, typer.Option("--threads", help="Number of cores (default: all).")] = None,
    cores: Annotated[str | None, typer.Option("--cores", help="These cores, `1` or `0,2-3`.")] = None,
    eager: Annotated[
        bool | None,
        typer.Option("--eager/--compile", help="Quick start, or a third quicker answers (default: eager on CPU)."),
    ] = None,
    gpu: Annotated[bool | None, typer.Option("--gpu/--cpu", help="Default: a GPU if nvidia-smi lists one.")] = None,
    kv_events: Annotated[Path | None, typer.Option("--kv-events", help="Folder for sockets of cache events.")] = None,
    dev: Annotated[bool, typer.Option("--dev", help="Also vLLM's endpoints for development.")] = False,
    timeout: Annotated[float, typer.Option("--timeout", help="Most seconds to wait.")] = 600.0,
    vllm_arguments: Annotated[
        list[str] | None, typer.Option("--arg", help="A further vLLM argument; repeatable.")
    ] = None,
) -> None:
    """Start a server on the loopback interface and wait until it answers; its URL is printed.

    If it fails, the end of its log is shown and nothing is left running. A key is not needed to use it.

    \b
    Examples:
      solarjax vllm up
      solarjax vllm up node-b --port 8001 --cores 1
      solarjax vllm up --model ~/models/qwen --dtype bfloat16 --arg=--max-num-seqs=32
    """
    from solarjax.replay import server
    from solarjax.replay.errors import ServerFailed
    from solarjax.replay.server_options import ServerOptions

    options = ServerOptions(
        name=name, model=model, served_name=served_name, port=port, dtype=dtype, max_model_len=max_model_len,
        kv_cache_gib=kv_cache_gib, kv_blocks=kv_blocks, block_size=block_size, prefix_caching=prefix_caching,
        cores=_cores(cores), threads=threads, eager=eager, gpu=gpu, kv_events=kv_events, dev_mode=dev,
        extra=tuple(vllm_arguments or ()),
    )  # fmt: skip
    next_word = 10.0

    def progress(seconds: float) -> None:
        nonlocal next_word
        if seconds >= next_word:
            typer.echo(f"  {seconds:.0f} s ...", err=True)
            next_word += 10.0

    where = "a GPU" if options.on_gpu() else f"CPU cores {','.join(map(str, options.used_cores()))}"
    typer.echo(f"server {name!r}: {options.model_path()} on {where}; log in {server.state_folder()}", err=True)
    try:
        record, started = server.up(options, timeout_s=timeout, progress=progress)
    except ServerFailed as error:
        if error.tail:
            typer.echo(error.tail, err=True)
        raise
    seconds = f" after {time.time() - record.started_at:.0f} s" if started else ", as before"
    typer.echo(f"ready{seconds}: process {record.pid}, model {record.model}", err=True)
    typer.echo(record.url)


@app.command("status", short_help="Which servers run.")
def status(name: Annotated[str | None, typer.Argument(help="Only this one.")] = None) -> None:
    """Show the servers that were started and not stopped; exit code 1 if one of them is not ready, or there is none.

    \b
    Example:
      solarjax vllm status
    """
    from solarjax.replay import server

    found = [entry for entry in server.status() if name in (None, entry.record.name)]
    for entry in found:
        record = entry.record
        up_for = f"for {time.time() - record.started_at:.0f} s" if entry.state != "dead" else "see the log"
        where = f"{record.url}  model {record.model}  process {record.pid}  log {record.log}"
        typer.echo(f"{record.name}  {entry.state} {up_for}  {where}")
    if not found:
        typer.echo(f"no server {name!r}" if name else "no servers", err=True)
    if not found or any(entry.state != "ready" for entry in found):
        raise typer.Exit(1)


@app.command("down", short_help="Stop a server, or all.")
def down(
    name: Name = "default",
    every: Annotated[bool, typer.Option("--all", help="All servers.")] = False,
) -> None:
    """Stop a server with all its processes and wait until they are gone.

    \b
    Examples:
      solarjax vllm down
      solarjax vllm down --all
    """
    from solarjax.replay import server

    names = [entry.record.name for entry in server.status()] if every else [name]
    for one in names:
        if not server.down(one):
            raise UserError(f"no server {one!r} was started; `solarjax vllm status` lists them")
        typer.echo(f"{one} stopped", err=True)


def _cores(text: str | None) -> tuple[int, ...]:
    """`0,2-3` as (0, 2, 3)."""
    found: list[int] = []
    for part in (text or "").split(",") if text else []:
        first, dash, last = part.strip().partition("-")
        if not first.isdigit() or (dash and not last.isdigit()):
            raise UserError(f"--cores is {text!r}; expected numbers and ranges, `0,2-3` say")
        found += range(int(first), int(last if dash else first) + 1)
    return tuple(sorted(set(found)))
