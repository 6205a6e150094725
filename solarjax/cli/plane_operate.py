"""The operator's half of `solarjax plane`: commands that open the database of a configuration file."""

from __future__ import annotations

import signal
import sys
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from solarjax.cli.errors import UserError

if TYPE_CHECKING:
    from solarjax.plane.services import Services

Config = Annotated[Path, typer.Option("--config", help="Configuration file (TOML); `--example` of serve prints one.")]


def serve(
    config: Annotated[Path | None, typer.Option("--config", help="Configuration file (TOML).")] = None,
    example: Annotated[bool, typer.Option("--example", help="Print an example configuration and stop.")] = False,
) -> None:
    """Run the control plane until it is stopped (Ctrl-C, SIGTERM); running requests get `shutdown_seconds` to finish.

    \b
    Examples:
      solarjax plane serve --example > plane.toml
      solarjax plane serve --config plane.toml
    """
    from solarjax.plane import settings

    if example:
        typer.echo(settings.EXAMPLE, nl=False)
        return
    if config is None:
        raise UserError("serve needs --config FILE (or --example to print one)")
    from solarjax.plane.api.app import create_app
    from solarjax.plane.server import make_server

    services = _services(config)
    if services.encoder is not None:
        services.encoder.embed(["loaded before the first request, or not at all"])
    at = services.settings
    server = make_server(create_app(services), at)
    typer.echo(f"memory plane on http://{at.host}:{at.port}, catalogue {services.catalogue.database.url!r}", err=True)
    # uvicorn ends by raising once more the signal that stopped it; to have stopped when told to is no failure.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    server.run()
    if not server.started:
        raise UserError(f"the plane could not start on {at.host}:{at.port}: is the port in use?")


def token(
    config: Config,
    tenant: Annotated[str | None, typer.Argument(help="Tenant to make a token for; made if it does not exist.")] = None,
    actor: Annotated[str, typer.Option("--actor", help="Name shown in the audit trail.")] = "default",
    revoke: Annotated[str | None, typer.Option("--revoke", help="Id of a token to end at once.")] = None,
) -> None:
    """Make a token (printed once, stored as a hash), revoke one, or list their ids.

    \b
    Examples:
      solarjax plane token acme --config plane.toml --actor support-desk
      solarjax plane token --config plane.toml
      solarjax plane token --config plane.toml --revoke 0123456789abcdef
    """
    with closing(_services(config)) as services:
        if revoke is not None:
            services.access.revoke(revoke)
        elif tenant is None:
            for known in services.access.tokens():
                typer.echo(f"{known.id}  {known.tenant}  {known.actor}{'  revoked' if known.revoked else ''}")
        else:
            services.catalogue.add_tenant(tenant)
            typer.echo(services.access.issue(tenant, actor))


def backup(config: Config, target: Annotated[Path, typer.Argument(help="New file.")]) -> None:
    """Write one snapshot of the catalogue to a file and prove that it is whole.

    \b
    Example:
      solarjax plane backup --config plane.toml plane-backup.db
    """
    from solarjax.plane.backup import backup as make

    with closing(_services(config)) as services:
        rows = make(services.catalogue, target)
    typer.echo(f"{target}: {rows['version']} versions of {rows['tenant']} tenants")


def restore(config: Config, source: Annotated[Path, typer.Argument(help="A file made by `backup`.")]) -> None:
    """Replace the catalogue by a backup in one transaction; if the backup is damaged nothing changes.

    \b
    Example:
      solarjax plane restore --config plane.toml plane-backup.db
    """
    from solarjax.plane.backup import restore as bring_back

    with closing(_services(config)) as services:
        rows = bring_back(services.catalogue, source)
    typer.echo(f"{rows['version']} versions of {rows['tenant']} tenants restored")


def _services(config: Path) -> Services:
    from solarjax.plane import services, settings

    return services.build(settings.load(config))
