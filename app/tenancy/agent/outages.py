"""Since when and why a stream to the gateway is not up, as the objects that wait for it show it.

The texts are stable: thousands of objects may show one, and each change is a write of every one of them.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace

import grpc

from app.tenancy.agent.answers import word
from app.text import stamp

NOT_CONNECTED = "NotConnected"
"""The reason of the condition Ready of objects while the gateway does not accept the agent."""
OF_THE_LINK = (NOT_CONNECTED, "GatewayUnavailable", "PermissionDenied")
"""The reasons of errors that say nothing of the object: the gateway answers PERMISSION_DENIED to identities alone."""
_SINCE, _BECAUSE = "not connected since ", " because "
_ELSEWHERE = word(grpc.StatusCode.FAILED_PRECONDITION)
_REFUSALS = (_ELSEWHERE, word(grpc.StatusCode.PERMISSION_DENIED), word(grpc.StatusCode.UNAUTHENTICATED))


@dataclass(frozen=True, slots=True)
class Cause:
    """Why a stream is not up. `code` is the gRPC code in words, "" where the agent itself cannot call."""

    code: str
    text: str

    @property
    def refused(self) -> bool:
        """Whether the gateway has answered, and refuses this agent."""
        return self.code in _REFUSALS

    @property
    def passing(self) -> bool:
        """Whether the gateway did not answer: the words for it may differ from one try to the next."""
        return self.code != "" and not self.refused

    @property
    def reason(self) -> str:
        if self.refused:
            return f"the gateway refuses the agent: {self.text}"
        if not self.code:
            return self.text
        return f"the gateway cannot be reached: {self.text if self.text == self.code else f'{self.code}: {self.text}'}"


UNKNOWN = Cause("", "")
"""Before the first answer."""


@dataclass(frozen=True, slots=True)
class Outage:
    """`since` is the time in RFC 3339, `began` the same on the monotonic clock.

    `changes` counts the refusals that took the place of another; the next one does so after `held`.
    """

    since: str
    began: float
    cause: Cause
    changes: int = 0
    held: float = 0.0

    @property
    def elsewhere(self) -> bool:
        """Whether the gateway refuses all calls from this cluster; that does not pass by itself."""
        return self.cause.code == _ELSEWHERE

    @property
    def message(self) -> str:
        return f"{_SINCE}{self.since}{_BECAUSE}{self.cause.reason}"

    def shown_by(self, message: str) -> bool:
        """Whether the message says the same, perhaps with the time of another agent."""
        return message.startswith(_SINCE) and message.endswith(f"{_BECAUSE}{self.cause.reason}")


_LONGEST = 20
"""The longest pause between two refusals that are shown, in units of `patience`."""


class Outages:
    """Those of each stream. After `patience` seconds the words for a gateway that does not answer stay as they are.

    Replicas of a gateway may refuse for different reasons. Another refusal is shown at once, the next ones after pauses
    that begin with `patience` and double.
    """

    def __init__(self, *, patience: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._patience, self._clock = patience, clock
        self._outages: dict[str, Outage] = {}

    def __getitem__(self, stream: str) -> Outage:
        return self._outages[stream]

    def note(self, stream: str, cause: Cause) -> bool:
        """The stream is not up; whether that is new, or has another cause than before."""
        known = self._outages.get(stream)
        if known is None:
            self._outages[stream] = Outage(stamp(), self._clock(), cause)
            return True
        if cause == known.cause or (cause.passing and not self._replaceable(known)):
            return False
        changed = replace(known, cause=cause)
        if cause.refused and known.cause.refused:
            if self._clock() < known.held:
                return False
            pause = self._patience * min(2**known.changes, _LONGEST)
            changed = replace(changed, changes=known.changes + 1, held=self._clock() + pause)
        self._outages[stream] = changed
        return True

    def over(self, stream: str) -> None:
        self._outages.pop(stream, None)

    def _replaceable(self, known: Outage) -> bool:
        """Whether another word for silence may take its place: a refusal says more, and what is shown stays."""
        if known.cause.refused:
            return False
        return not known.cause.passing or self._clock() - known.began < self._patience
