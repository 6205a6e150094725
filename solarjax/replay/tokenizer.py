"""The model's own tokenizer and chat template, through `transformers`; no weights are loaded."""

from __future__ import annotations

import logging
import os
from pathlib import Path
from typing import Any

from solarjax.replay.errors import BadOption

VARIABLE = "SOLARJAX_TOKENIZER"
"""Folder or hub name of the tokenizer, where it is not given."""


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
