"""The error tree: the class says who can fix the error and when to try again.

Imports no other module of Berth.
"""

from __future__ import annotations


class BerthError(Exception):
    """Base of every error that Berth raises on purpose."""


class UsageError(BerthError):
    """The command line or a file of the user is wrong; the message is one line, the exit status 2."""


class BadReview(BerthError):
    """The request body is not an AdmissionReview that can be answered; `status` is the HTTP status to send."""

    def __init__(self, message: str, *, status: int = 400) -> None:
        super().__init__(message)
        self.status = status


class Denied(BerthError):
    """The object cannot be admitted as it is, and its author can fix it: `allowed: false` with this message.

    `code` goes into the Status of the answer (400 malformed, 403 forbidden, 422 invalid); `reason` is a short CamelCase
    word for logs, metrics and audit annotations.
    """

    def __init__(self, message: str, *, reason: str, code: int = 422) -> None:
        super().__init__(message)
        self.reason = reason
        self.code = code


class Transient(BerthError):
    """A fault that may pass; `delay` is the wait in seconds before the next try, None for the usual backoff.

    An `expected` one may come thousands of times. It is logged at debug, since a status reports it.
    """

    expected = False

    def __init__(self, message: str, *, delay: float | None = None) -> None:
        super().__init__(message)
        self.delay = delay


class Overloaded(Transient):
    """There is no room for a request now; `delay` is the wait in seconds that its client is asked for."""

    def __init__(self, message: str, *, delay: float = 1.0) -> None:
        super().__init__(message, delay=delay)


class Terminal(BerthError):
    """A fault that stays until the input changes; do not retry."""


EXCEEDED_QUOTA = "exceeded quota"
"""Part of the message for an object that exceeds a ResourceQuota. Only this text distinguishes it from a denial."""
DRIVER_PERMISSION = 'requires resource="resourceclaims/driver"'
"""Part of the message, with HTTP 422, for a status of a ResourceClaim whose writer may not act for a driver."""
TOO_LARGE = (
    # More than etcd takes; the second comes from its client, for what is larger still.
    "etcdserver: request is too large",
    "rpc error: code = ResourceExhausted desc = trying to send message larger than max",
)
REJECTED = (
    # Server-side apply: a field that this version of the API has not, or a value of another type.
    "failed to create typed patch object",
    "failed to convert new object",
    *TOO_LARGE,
)
"""How an API server begins what it says, with HTTP 500 and no reason, of an object that it will never take."""


ANSWER_TOO_LARGE = "AnswerTooLarge"
"""The reason of an answer that has more bytes than the client reads."""


class ApiError(Transient):
    """An answer of the API server that is not a success.

    `status` is the HTTP status, or 0 where no answer came (refused, cut, timed out); `reason` the Status reason
    (`NotFound`, `Conflict`, `Expired` …) or ""; `delay` the server's Retry-After. The message is truncated and never
    carries a body that is not a Status, so that no secret reaches a log. `warnings` are those of the answer.
    """

    def __init__(
        self,
        message: str,
        *,
        status: int,
        reason: str = "",
        delay: float | None = None,
        warnings: tuple[str, ...] = (),
    ) -> None:
        super().__init__(message, delay=delay)
        self.status = status
        self.reason = reason
        self.warnings = warnings

    @property
    def not_found(self) -> bool:
        return self.status == 404

    @property
    def unserved(self) -> bool:
        """HTTP 404 for the path and not for an object: the API server serves no such kind."""
        return self.status == 404 and not self.reason

    @property
    def answer_too_large(self) -> bool:
        """The answer has more bytes than the client reads."""
        return self.status == 0 and self.reason == ANSWER_TOO_LARGE

    @property
    def conflict(self) -> bool:
        return self.status == 409

    @property
    def timed_out(self) -> bool:
        """No answer, or not all of it, within the deadline of the request."""
        return self.status == 0 and self.reason == TimeoutError.__name__

    @property
    def late(self) -> bool:
        """No answer in time, here or where the API server had to ask."""
        return self.timed_out or self.status == 504

    @property
    def expired(self) -> bool:
        """HTTP 410: the resource version or continue token is gone; list again."""
        return self.status == 410

    @property
    def rejected(self) -> bool:
        """The object as it is will not pass at any time."""
        if self.status == 500 and not self.reason:
            return str(self).partition("HTTP 500: ")[2].startswith(REJECTED)
        return self.status in (400, 413, 422)

    @property
    def about_object(self) -> bool:
        """The API server does not take this object; it may take the next one."""
        return self.rejected or self.status in (403, 404, 409)

    @property
    def about_server(self) -> bool:
        """The API server, or the way to it, fails or asks to wait: the next request would meet the same."""
        return self.status in (401, 429, 503) or (self.status == 0 and not (self.timed_out or self.answer_too_large))

    @property
    def too_large(self) -> bool:
        """The object has more bytes, or a field more items, than the API server takes."""
        text = str(self).partition(f"HTTP {self.status}: ")[2]
        if self.status == 422:
            return ": Too long: " in text or ": Too many: " in text
        return self.status == 413 or (self.status == 500 and not self.reason and text.startswith(TOO_LARGE))

    @property
    def lacks_driver(self) -> bool:
        """HTTP 422: the role may write the status of ResourceClaims, but not for the drivers of what has changed."""
        return self.status == 422 and DRIVER_PERMISSION in str(self)

    @property
    def exceeded_quota(self) -> bool:
        """HTTP 403: there may be room again later."""
        return self.status == 403 and EXCEEDED_QUOTA in str(self)


def is_final(error: Exception) -> bool:
    """Whether it stays until the input changes. What is too large for the API server is so, and costs much to send."""
    return isinstance(error, Terminal) or (isinstance(error, ApiError) and error.too_large)
