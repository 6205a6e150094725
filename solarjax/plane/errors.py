"""Every way a request to the plane can fail; each class knows its HTTP status and its stable `type`."""

from __future__ import annotations


class PlaneError(ValueError):
    """Base class. `param` names the offending field where there is one."""

    status = 400
    type = "invalid_request"

    def __init__(self, message: str, param: str | None = None):
        super().__init__(message)
        self.param = param


class Invalid(PlaneError):
    """The request is malformed or breaks a rule that no later retry can satisfy."""

    status = 422


class NotFound(PlaneError):
    """No such thing, or it belongs to another tenant: the two are not to be told apart."""

    status = 404
    type = "not_found"


class Conflict(PlaneError):
    """The catalogue is not in the state the caller expected; read again and decide anew."""

    status = 409
    type = "conflict"


class Unauthorized(PlaneError):
    """No bearer token, or not a valid one."""

    status = 401
    type = "unauthorized"


class Forbidden(PlaneError):
    """The caller is known and may not do this."""

    status = 403
    type = "forbidden"


class Unsupported(PlaneError):
    """Part of the contract that no engine here can do; never silently replaced by something else."""

    status = 501
    type = "unsupported"


class TooLarge(PlaneError):
    """Body or headers exceed the configured limit."""

    status = 413
    type = "too_large"


class HeadersTooLarge(TooLarge):
    """The header section exceeds the configured limit."""

    status = 431


class Unavailable(PlaneError):
    """The database cannot be reached or is busy beyond the time allowed; nothing was written."""

    status = 503
    type = "unavailable"


class Upstream(PlaneError):
    """No engine node gave an answer, before anything was passed on to the client."""

    status = 502
    type = "upstream"


class UpstreamBusy(Upstream):
    """There is no node to ask now, or all said that they are busy; try again later."""

    status = 503


class UpstreamSilent(Upstream):
    """The nodes tried did not begin to answer in the time allowed."""

    status = 504


class DatabaseError(PlaneError):
    """A catalogue or a backup that cannot be used as it is: wrong schema, damaged, or written by a newer version."""

    status = 500
    type = "database"
