"""The interfaces by which agent and gateway report calls for tracing, without a dependency on the tracing package."""

from __future__ import annotations

from typing import Protocol


class CallSpan(Protocol):
    """The span of a call that is under way."""

    @property
    def metadata(self) -> tuple[tuple[str, str], ...]:
        """What tells the other side of it; to be sent with the call."""

    def end(self, code: str) -> None:
        """It ended with this gRPC status, in capitals."""


class CallSpans(Protocol):
    """Told by the agent of the calls that it makes. Neither method may raise or wait."""

    def calling(self, service: str, method: str) -> CallSpan:
        """A call begins now."""


class ServedSpans(Protocol):
    """Told by the gateway of the calls that it served. May neither raise nor wait.

    Not of streams, which stay open for days, and not of services that are for anyone, such as health.
    """

    def served(
        self, service: str, method: str, code: str, *, seconds: float, metadata: tuple[tuple[str, str | bytes], ...]
    ) -> None:
        """A call has ended with this gRPC status, in capitals."""
