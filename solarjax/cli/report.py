"""`solarjax report`: HTML, Markdown and CSV from stored runs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def report(
    folder: Annotated[
        Path, typer.Argument(help="A folder written by `solarjax run --out`, or one that holds several.")
    ],
    title: Annotated[str | None, typer.Option(help="Heading of the report.")] = None,
) -> None:
    """Render stored runs as a self-contained page, Markdown and CSV; nothing is computed again.

    \b
    Examples:
      solarjax run --workload topic_drift --out runs/drift
      solarjax report runs/
    """
    from solarjax.report import render

    for path in render.report(folder, title or render.TITLE):
        print(path)
