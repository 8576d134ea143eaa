"""How a call fails: a gRPC status with a message for the caller. The API server's answers become one of them here.

PERMISSION_DENIED is kept for identity: what the API server forbids is FAILED_PRECONDITION, or RESOURCE_EXHAUSTED where
it is a quota of the tenant's namespace.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterable, Iterator

import grpc

from app.errors import ApiError, BerthError

Code = grpc.StatusCode
_PREFIX = re.compile(r"^.*?: HTTP \d+: ")
_MESSAGE_LIMIT = 3500
"""Characters of a message: it travels in a header, and peers bound these to 8 KiB."""


class Refused(BerthError):
    """The call ends with this status; `trailing` is metadata for the caller."""

    def __init__(self, code: grpc.StatusCode, message: str, *, trailing: tuple[tuple[str, str], ...] = ()) -> None:
        super().__init__(message if len(message) <= _MESSAGE_LIMIT else message[:_MESSAGE_LIMIT] + " …")
        self.code = code
        self.trailing = trailing


def invalid(problems: Iterable[str]) -> Refused:
    """INVALID_ARGUMENT with every problem in one message."""
    return Refused(Code.INVALID_ARGUMENT, "; ".join(problems))


def later(message: str, delay: float) -> Refused:
    """RESOURCE_EXHAUSTED for so many seconds."""
    milliseconds = str(int(delay * 1000) + 1)
    # gRPC's own clients wait for so long before they try again.
    trailing = (("grpc-retry-pushback-ms", milliseconds),)
    return Refused(Code.RESOURCE_EXHAUSTED, f"{message}; try again in {milliseconds} ms", trailing=trailing)


@contextlib.contextmanager
def namespace_needed(namespace: str) -> Iterator[None]:
    """Around a creation: the tenant is known, but the namespace of its objects may be missing (yet)."""
    try:
        yield
    except ApiError as error:
        if not error.not_found:
            raise
        message = f"namespace {namespace} does not exist in the infra cluster (yet)"
        raise Refused(Code.FAILED_PRECONDITION, message) from error


def message_of(error: ApiError) -> str:
    """What the API server said, without our request; where it said nothing, that."""
    if error.status == 0:
        return "the API server of the infra cluster does not answer; try again"
    return _PREFIX.sub("", str(error), count=1)


def code_of(error: ApiError) -> grpc.StatusCode:
    """The status that the API server's answer stands for; UNAVAILABLE for what may pass by itself."""
    if error.status == 409:
        return Code.ALREADY_EXISTS if error.reason == "AlreadyExists" else Code.ABORTED
    if error.rejected:
        return Code.INVALID_ARGUMENT
    if error.status == 404:
        return Code.NOT_FOUND
    if error.status in (0, 401, 429) or error.status >= 500:
        return Code.UNAVAILABLE
    return Code.RESOURCE_EXHAUSTED if error.exceeded_quota else Code.FAILED_PRECONDITION
