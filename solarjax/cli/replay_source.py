"""Where the questions of a replay come from, and what embeds them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from solarjax.cli.errors import UserError


def source_of(
    named: Mapping[str, Path | None], qa: Path | None, encoder: str | None
) -> tuple[list[Any], dict[str, Any]]:
    """The sessions of the one file that is given, and a JSON-able record of where they come from.

    Args:
      named: locomo, dialsim, jsonl, requests -> file.   qa: questions, for dialsim.   encoder: as `encoder_of`.

    Raises:
      UserError: none or several files, or one that is missing.   TraceError, TraceProblem: one that cannot be read.
    """
    from solarjax.encoders.weights import fingerprint, locate
    from solarjax.replay import traces
    from solarjax.replay.requests import load_requests
    from solarjax.traces.datasets import sha256

    given = [(kind, path) for kind, path in named.items() if path is not None]
    if len(given) != 1:
        what = " and ".join(f"--{kind}" for kind, _ in given) + " were given" if given else "none was given"
        raise UserError(f"name one source: {', '.join('--' + kind for kind in named)}; {what}")
    kind, path = given[0]
    if (qa is not None) != (kind == "dialsim"):
        raise UserError("--dialsim and --qa go together: a corpus and the questions about it")
    for file in (path, qa):
        if file is not None and not file.is_file():
            raise UserError(f"{file} is {'a folder; a file is needed' if file.is_dir() else 'missing: no such file'}")
    load: dict[str, Callable[[], list[Any]]] = {
        "locomo": lambda: traces.load_locomo(path),
        "dialsim": lambda: traces.load_dialsim(path, qa or path),
        "jsonl": lambda: traces.load_jsonl(path),
        "requests": lambda: load_requests(path),
    }
    files = [{"name": file.name, "sha256": sha256(file)} for file in (path, qa) if file is not None]
    source = {
        "kind": kind, "name": kind, "protocol": "replay", "params": {}, "files": files,
        "summary": "Questions about a dialogue, answered by a language model from the dialogue and its own experiences",
        "encoder": fingerprint(locate(encoder)),
    }  # fmt: skip
    return load[kind](), source


def encoder_of(model: str | None, folder: Path | None) -> Callable[[Sequence[str]], Any]:
    """The sentence encoder; its embeddings are kept in `folder`: a continued run must see the very same bits."""
    from solarjax.encoders.minilm import encode

    return lambda texts: encode(list(texts), model=model, cache=None if folder is None else folder / "embeddings")
