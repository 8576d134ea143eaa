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
from app.kube.names import check_dns_subdomain
from app.wire import JSON

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


@contextlib.contextmanager
def creating(kind: str, name: str) -> Iterator[None]:
    """Around a creation: ALREADY_EXISTS for a name that is taken."""
    try:
        yield
    except ApiError as error:
        if error.reason != "AlreadyExists":
            raise
        raise Refused(Code.ALREADY_EXISTS, f"there is a {kind} {name!r} already") from error


@contextlib.contextmanager
def deleting() -> Iterator[None]:
    """Around a deletion: the object may be gone meanwhile, or another one of its name may be there."""
    try:
        yield
    except ApiError as error:
        if error.status not in (404, 409):
            raise


def checked_name(name: str, path: str) -> str:
    """A name that may stand in the path of a request; INVALID_ARGUMENT for any other."""
    try:
        return check_dns_subdomain(name)
    except ValueError as error:
        raise invalid([f"{path}: {error}"]) from error


def check_keeper(obj: JSON, what: str, *, keeper: str, owner: str) -> None:
    """FAILED_PRECONDITION for an object that another owner keeps, ABORTED for one that is being deleted."""
    if keeper != owner:
        named = repr(keeper) if keeper else "another client"
        raise Refused(Code.FAILED_PRECONDITION, f"{what} is kept by {named}, not by {owner!r}: delete it first")
    if obj["metadata"].get("deletionTimestamp"):
        raise Refused(Code.ABORTED, f"{what} is being deleted; try again")


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
