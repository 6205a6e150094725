"""`solarjax plane`: run the memory plane and work with it.

`serve`, `token`, `backup` and `restore` open the database of a configuration file; the rest talks to a running plane.
"""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Iterable
from typing import TYPE_CHECKING, Annotated, Any

import typer

from solarjax.cli import plane_operate
from solarjax.cli.errors import UserError

if TYPE_CHECKING:
    from solarjax.plane.client import PlaneClient

TOKEN_VARIABLE, URL_VARIABLE = "SOLARJAX_PLANE_TOKEN", "SOLARJAX_PLANE_URL"
app = typer.Typer(no_args_is_help=True, rich_markup_mode=None, help="Run the memory plane and work with it.")

Url = Annotated[str | None, typer.Option("--url", help=f"The running plane (default: ${URL_VARIABLE}, else local).")]
Reason = Annotated[str, typer.Option("--reason", help="Why, for the audit trail.")]


_NEEDED = ("sqlalchemy", "pydantic", "fastapi", "uvicorn", "httpx2", "aiohttp", "httptools", "prometheus_client")


@app.callback()
def plane() -> None:
    """Run the memory plane and work with it."""
    missing = [name for name in _NEEDED if importlib.util.find_spec(name) is None]
    if missing:
        raise UserError(f"the memory plane needs {', '.join(missing)}: pip install solarjax[plane]")


for _name, _function, _short in (
    ("serve", plane_operate.serve, "Run the control plane."),
    ("token", plane_operate.token, "Make, list or revoke bearer tokens."),
    ("backup", plane_operate.backup, "Copy the catalogue into a file, while it is in use."),
    ("restore", plane_operate.restore, "Replace the catalogue by a backup."),
):
    app.command(_name, short_help=_short)(_function)


@app.command("capsule", short_help="Show, list, search, add or delete capsules.")
def capsule(
    name: Annotated[str | None, typer.Argument(help="Id; without it all capsules in force are listed.")] = None,
    text: Annotated[str | None, typer.Option("--text", help="Add a capsule with this text.")] = None,
    kind: Annotated[str, typer.Option("--kind", help="Kind of a new capsule.")] = "fact",
    source: Annotated[str, typer.Option("--source", help="Provenance of a new capsule.")] = "command line",
    depends_on: Annotated[list[str] | None, typer.Option("--from", help="id@version it is derived from.")] = None,
    search: Annotated[str | None, typer.Option("--search", help="Search instead of listing.")] = None,
    history: Annotated[bool, typer.Option("--history", help="All versions, ended ones included.")] = False,
    delete: Annotated[bool, typer.Option("--delete", help="End all versions, with all derived from them.")] = False,
    erase: Annotated[bool, typer.Option("--erase", help="Delete and wipe the content, derived content too.")] = False,
    reason: Reason = "",
    url: Url = None,
) -> None:
    """Work with capsules of a running plane; the token is read from $SOLARJAX_PLANE_TOKEN.

    \b
    Examples:
      solarjax plane capsule refund --text "Refunds are possible for 30 days."
      solarjax plane capsule --search "refund days"
      solarjax plane capsule refund --history
    """
    from solarjax.plane.capsules import CapsuleDraft, Provenance, VersionRef
    from solarjax.plane.retriever import Query

    with _client(url) as client:
        if text is not None:
            sources = _checked(lambda: tuple(VersionRef.parse(ref) for ref in depends_on or ()))
            draft = _checked(
                lambda: CapsuleDraft(
                    id=name, kind=kind, text=text, provenance=Provenance(source=source), depends_on=sources
                )
            )
            _print(client.create(draft, reason))
        elif search is not None:
            _show(hit.capsule for hit in client.search(_checked(lambda: Query(text=search))).hits)
        elif name is None:
            _show(client.capsules())
        elif delete or erase:
            _print(client.delete(name, erase=erase, reason=reason))
        elif history:
            _show(client.history(name))
        else:
            _print(client.get(name))


@app.command("correct", short_help="Correct a capsule, or preview what that would end.")
def correct(
    ref: Annotated[str, typer.Argument(help="id@version: the version that is wrong.")],
    text: Annotated[str | None, typer.Option("--text", help="What is right; without it only the preview.")] = None,
    reason: Reason = "",
    url: Url = None,
) -> None:
    """End a wrong version and everything derived from it, and put a right one in its place.

    Without --text nothing is changed: what a correction would end is listed, with the reason for each.

    \b
    Examples:
      solarjax plane correct refund@1
      solarjax plane correct refund@1 --text "Refunds are possible for 14 days." --reason "policy of May"
    """
    from solarjax.plane.capsules import CapsuleContent, VersionRef

    target = _checked(lambda: VersionRef.parse(ref))
    with _client(url) as client:
        if text is None:
            preview = client.preview(target)
            typer.echo(f"would end {preview.ended} versions; artifacts: {preview.artifacts_ended or 'none'}")
            for impact in preview.impacts:
                typer.echo(f"  {impact.ref}  {impact.kind}" + (f"  derived from {impact.via}" if impact.via else ""))
            return
        old = client.get(target.id, version=target.version)
        content = _checked(
            lambda: CapsuleContent(
                kind=old.kind, text=text, provenance=old.provenance, stability=old.stability, entities=old.entities
            )
        )
        _print(client.correct(target, content, reason))


@app.command("audit", short_help="What happened, and why a version ended.")
def audit(
    name: Annotated[str | None, typer.Argument(help="Capsule, or id@version for why it ended.")] = None,
    after: Annotated[int, typer.Option("--after", help="Only epochs above this.")] = 0,
    follow: Annotated[bool, typer.Option("--follow", help="Go on with events as they happen.")] = False,
    url: Url = None,
) -> None:
    """Print the audit trail, of everything or of one capsule, or explain the end of one version.

    \b
    Examples:
      solarjax plane audit
      solarjax plane audit summary-of-refund@1
      solarjax plane audit --follow
    """
    from solarjax.plane.capsules import VersionRef

    with _client(url) as client:
        if name is not None and "@" in name:
            endings = client.why(_checked(lambda: VersionRef.parse(name)))
            if not endings:
                typer.echo(f"{name} was not ended by anything")
            for ending in endings:
                event = ending.event
                typer.echo(
                    f"epoch {event.epoch}  {event.at:%Y-%m-%d %H:%M:%S}  {event.operation} by {event.actor}"
                    f"  {event.reason!r}  via {' -> '.join(map(str, ending.path))}"
                )
            return
        last = after
        for event in client.events(capsule=name, after=after):
            typer.echo(_line(event))
            last = event.epoch
        if follow:
            for event in client.stream(after=last):
                if name in (None, event.capsule):
                    typer.echo(_line(event))


@app.command("nodes", short_help="The engine nodes: health, speed, load, and what each holds.")
def nodes(url: Url = None) -> None:
    """List the engine nodes of a running plane; capsules are those of the token's tenant.

    \b
    Example:
      solarjax plane nodes
    """
    with _client(url) as client:
        found = client.nodes()
        if not found:
            typer.echo("no nodes are configured")
        for node in found:
            blocks = f"{'?' if node.resident_blocks is None else node.resident_blocks} of {node.blocks or '?'} blocks"
            speed = f"{node.ttft_base_ms:.0f} ms + {node.ttft_ms_per_1000_tokens:.0f} ms/1,000 tokens"
            typer.echo(
                f"{node.name}  {node.model}  {node.health}  {blocks}  {node.in_flight} in flight  "
                f"{speed}{'' if node.measured else ' (not measured yet)'}  "
                f"holds {', '.join(node.resident_capsules) or '-'}"
            )


def _client(url: str | None) -> PlaneClient:
    from solarjax.plane.client import DEFAULT_URL, PlaneClient

    token = os.environ.get(TOKEN_VARIABLE)
    if not token:
        raise UserError(f"set {TOKEN_VARIABLE} to a token made by `solarjax plane token`")
    return PlaneClient(token, url or os.environ.get(URL_VARIABLE) or DEFAULT_URL)


def _checked(make: Any) -> Any:
    """Runs a constructor; what it refuses is the user's error, in one line."""
    try:
        return make()
    except ValueError as error:
        problems = getattr(error, "errors", None)
        if problems is None:
            raise UserError(str(error)) from None
        first = problems()[0]
        raise UserError(f"{'.'.join(map(str, first['loc']))}: {first['msg']}") from None


def _print(value: Any) -> None:
    typer.echo(value.model_dump_json(indent=2))


def _show(capsules: Iterable[Any]) -> None:
    for found in capsules:
        mark = "" if found.in_force else "  (ended)"
        text = " ".join(found.text.split())
        typer.echo(f"{found.ref}  {found.kind}{mark}  {text[:100]}{'...' if len(text) > 100 else ''}")


def _line(event: Any) -> str:
    return (
        f"{event.epoch}  {event.at:%Y-%m-%d %H:%M:%S}  {event.operation}  {event.capsule or '-'}  by {event.actor}"
        f"  ended {event.result.ended}  {event.reason!r}"
    )
