"""Everything that can go wrong between here and a model server, one class per thing a caller may want to tell apart.

`transient` errors are tried again by the client before they are raised; a message is one sentence that names what was
asked and what would help. No message holds an API key: the client removes it from whatever a server echoes.
"""

from __future__ import annotations


class ReplayError(Exception):
    """Base of all errors of this package.

    Attributes:
      transient: trying again may help.
      retry_after_s: how long the server asked to wait, in seconds; None where it did not say.
    """

    transient = False

    def __init__(self, message: str, *, retry_after_s: float | None = None):
        super().__init__(message)
        self.retry_after_s = retry_after_s


class BadOption(ReplayError, ValueError):
    """An argument is outside its range."""


class ServerDown(ReplayError):
    """Nothing answers at the address, or the connection broke before an answer began."""

    transient = True


class ServerTimeout(ReplayError):
    """The server accepted the request and stayed silent, or did not finish, within the time limit."""

    transient = True


class ServerBroken(ReplayError):
    """The server reported a fault of its own (5xx), as a status or inside a stream that had begun."""

    transient = True


class RateLimited(ReplayError):
    """The server asked to slow down (429) or said that it is overloaded (503)."""

    transient = True


class CutStream(ReplayError):
    """The stream ended before the answer was complete."""

    transient = True


class MalformedStream(ReplayError):
    """The stream held something that is not UTF-8, not JSON, or not a completion chunk."""

    transient = True


class BadResponse(ReplayError):
    """The server answered with something this protocol does not know; trying again would not help."""


class Refused(ReplayError):
    """The server refused the request as such (400, 413, 422)."""


class Unauthorized(ReplayError):
    """The server wants another API key (401, 403)."""


class ModelNotFound(ReplayError):
    """The server does not serve this model; the message lists what it serves."""


class ContextTooLong(ReplayError):
    """Prompt and answer together do not fit the model's context."""


class CacheFailed(ReplayError):
    """The response cache could not be read or written; what it held before is unharmed."""


class ServerFailed(ReplayError):
    """A server that was to be started or stopped did not do so.

    Attributes:
      tail: the last lines of its log.
    """

    def __init__(self, message: str, *, tail: str = ""):
        super().__init__(message)
        self.tail = tail
