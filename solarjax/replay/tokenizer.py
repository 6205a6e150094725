"""The model's own tokenizer and chat template, through `transformers`; no weights are loaded."""

from __future__ import annotations

import logging
import os
from pathlib import Path
from typing import Any

from solarjax.replay.errors import BadOption

VARIABLE = "SOLARJAX_TOKENIZER"
"""Folder or hub name of the tokenizer, where it is not given."""


def chosen(given: str | None, server: str | None, model: str) -> str:
    """Where the tokenizer of a model is.

    Args:
      given: what was asked for; it decides, then $SOLARJAX_TOKENIZER.
      server: address of the model's server. One that `solarjax vllm up` started has its tokenizer beside its weights.
      model: name under which the server has it; the tokenizer's source where nothing else says one.
    """
    named = given or os.environ.get(VARIABLE)
    if named:
        return named
    from solarjax.replay import server as servers

    records = [entry.record for entry in servers.status()] if server else []
    address = (server or "").replace("//localhost:", "//127.0.0.1:").rstrip("/").removesuffix("/v1")
    here = [record.path for record in records if record.url == address and record.model == model]
    return here[0] if here else model


def load(source: str) -> Any:
    """A tokenizer with a chat template.

    Args:
      source: a folder with the model's tokenizer files, or a name of the Hugging Face hub.

    Raises:
      BadOption: it cannot be loaded, or has no chat template; names the source.
    """
    local = Path(source).is_dir()
    if not local and "/" not in source:
        # Names of the hub are owner/name; asking it for anything else only costs a minute of retries.
        raise BadOption(f"no tokenizer at {source!r}: it is no folder; name the tokenizer's with --tokenizer")
    os.environ.setdefault("TRANSFORMERS_NO_ADVISORY_WARNINGS", "1")  # it would advise to install a framework
    logging.getLogger("transformers").setLevel(logging.ERROR)
    try:
        from transformers import AutoTokenizer
    except ImportError as error:
        raise BadOption(f"chat templates need {error.name}: pip install solarjax[replay]") from None
    try:
        tokenizer = AutoTokenizer.from_pretrained(source, local_files_only=local)
    except Exception as error:  # the library raises whatever its parsers raise
        reason = " ".join(str(error).split())[:160]
        raise BadOption(f"no tokenizer at {source!r} ({reason}); name its folder with --tokenizer") from None
    if not tokenizer.chat_template:
        raise BadOption(f"the tokenizer at {source!r} has no chat template; an instruction-tuned model is needed")
    return tokenizer
