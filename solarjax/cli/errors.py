"""User errors in one line, everything else with a traceback."""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Callable

OK, UNEXPECTED, USER_ERROR, INTERRUPTED = 0, 1, 2, 130
DEBUG = "SOLARJAX_DEBUG"


class UserError(ValueError):
    """Something the user can mend; the message names it and says what is allowed."""


def is_user_error(error: BaseException) -> bool:
    """True for the library's own errors and the file system's; a bare ValueError is a bug of ours."""
    return type(error).__module__.split(".")[0] == "solarjax" or isinstance(error, OSError)


def run_guarded(body: Callable[[], object]) -> int:
    """Runs `body` and returns the exit code.

    0: it returned. Its own code: it raised typer's Exit. 2 and one line on stderr: a user error.
    130: interrupted. 1 and a traceback: anything else. With SOLARJAX_DEBUG=1 in the environment user errors
    show their traceback too.
    """
    try:
        code = body()
    except KeyboardInterrupt:
        return _say("interrupted", INTERRUPTED)
    except BrokenPipeError:
        # The reader of a pipe has seen enough; silence the flush at exit as well.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return OK
    except Exception as error:
        if type(error).__name__ == "Abort":  # what the parser makes of a KeyboardInterrupt
            return _say("interrupted", INTERRUPTED)
        usage = getattr(error, "format_message", None)
        if usage is None and not is_user_error(error):
            traceback.print_exc()
            return UNEXPECTED
        if os.environ.get(DEBUG) == "1":
            traceback.print_exc()
        return _say(f"error: {usage() if usage else _text(error)}", USER_ERROR)
    return code if isinstance(code, int) else OK


def _text(error: BaseException) -> str:
    if isinstance(error, OSError) and error.filename is not None and error.strerror:
        return f"{error.filename}: {error.strerror}"
    return str(error)


def _say(message: str, code: int) -> int:
    print("solarjax: " + " ".join(message.split()), file=sys.stderr)
    return code
