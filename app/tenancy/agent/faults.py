"""Classifies failed calls to the gateway: those to retry, and those that fail until something is changed."""

from __future__ import annotations

import grpc
import grpc.aio

from app.errors import EXCEEDED_QUOTA, Terminal, Transient

_MESSAGE_LIMIT = 8192

_REFUSALS = frozenset(
    {
        grpc.StatusCode.INVALID_ARGUMENT,
        grpc.StatusCode.NOT_FOUND,
        grpc.StatusCode.ALREADY_EXISTS,
        grpc.StatusCode.PERMISSION_DENIED,
        grpc.StatusCode.FAILED_PRECONDITION,
        grpc.StatusCode.OUT_OF_RANGE,
        grpc.StatusCode.UNIMPLEMENTED,
    }
)


class GatewayUnavailable(Transient):
    """No answer, or one that may be another soon (unavailable, deadline, rate limit, internal)."""

    reason = "GatewayUnavailable"


class GatewayRefused(Terminal):
    """The gateway said no; `reason` is its code as a CamelCase word for conditions."""

    def __init__(self, message: str, *, code: grpc.StatusCode) -> None:
        super().__init__(message)
        self.code = code

    @property
    def reason(self) -> str:
        return "".join(part.capitalize() for part in self.code.name.split("_"))

    @property
    def not_found(self) -> bool:
        return self.code is grpc.StatusCode.NOT_FOUND


def fault(error: grpc.aio.AioRpcError) -> GatewayUnavailable | GatewayRefused:
    """The error of our tree for an answer that is not OK."""
    code, details = error.code(), (error.details() or "")[:_MESSAGE_LIMIT]
    # The rate of calls is exhausted for a moment; a quota until something is removed.
    if code in _REFUSALS or (code is grpc.StatusCode.RESOURCE_EXHAUSTED and EXCEEDED_QUOTA in details):
        return GatewayRefused(details or word(code), code=code)
    return GatewayUnavailable(f"gateway: {word(code)}: {details}" if details else f"gateway: {word(code)}")


def word(code: grpc.StatusCode) -> str:
    """The code as it stands in messages, logs and metrics: `unavailable`, `deadline_exceeded`."""
    return code.name.lower()
