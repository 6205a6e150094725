"""`solarjax replay` in the small world, as a process to kill: `python -m tests.replay.child_command WORD...`."""

import sys
from unittest import mock

from solarjax.replay import tokenizer
from tests.replay.commands import call
from tests.replay.worlds import Words, encode

if __name__ == "__main__":
    with (
        mock.patch.object(tokenizer, "load", lambda source: Words()),
        mock.patch("solarjax.cli.replay.encoder_of", lambda model, folder: encode),
    ):
        sys.exit(call(*sys.argv[1:]))
