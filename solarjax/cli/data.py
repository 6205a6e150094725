"""`solarjax data`: the public data sets, where they come from, and whether the copy at hand is right."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from solarjax.cli.errors import UserError


def data(
    name: Annotated[str | None, typer.Argument(help="Only this data set.")] = None,
    folder: Annotated[
        Path | None,
        typer.Option("--data", help="Data folder (default: $SOLARJAX_DATA, else shared/data beside the checkout)."),
    ] = None,
    download: Annotated[bool, typer.Option("--download", help="Fetch what is missing into --data.")] = False,
) -> None:
    """Say where each data set comes from and check the local copies; optionally fetch them.

    Exit code 2 if the named data set is not there or not the published one.

    \b
    Examples:
      solarjax data
      solarjax data locomo --data ~/corpora --download
    """
    from solarjax.core.params import check_name
    from solarjax.traces import datasets

    if name is not None:
        check_name("data set", name, datasets.DATASETS, UserError)
    if download:
        if folder is None:
            raise UserError("--download needs --data FOLDER: where to put the files")
        for key in [name] if name else [k for k, d in datasets.DATASETS.items() if d.url]:
            datasets.download(key, folder)
    for key, entry in datasets.DATASETS.items():
        if name in (None, key):
            print(f"{key}: {entry.description}")
            print(f"  {len(entry.files)} file(s), {entry.size / 1e6:.1f} MB; licence: {entry.licence}")
            print(f"  from {entry.source}")
            print(f"  here: {_state(key, folder)}")
    if name is not None:
        datasets.verify(name, folder)


def _state(name: str, folder: Path | None) -> str:
    from solarjax.core.trace import TraceError
    from solarjax.traces import datasets

    try:
        paths = datasets.find(name, folder)
    except TraceError:
        return "not found"
    try:
        datasets.verify(name, folder)
    except TraceError as problem:
        return f"differs from the published files: {problem}"
    return f"{paths[0].parent}, as published"
