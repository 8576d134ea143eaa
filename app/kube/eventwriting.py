"""Writes core/v1 Events: a new one, or a higher count in an Event that says the same already.

It builds the Events and remembers those that were written. It makes one attempt; the recorder retries.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, NamedTuple

from app.errors import ApiError
from app.kube.client import KubeClient
from app.kube.resources import EVENTS
from app.wire import JSON

EventType = Literal["Normal", "Warning"]

WINDOW = 600.0
"""Seconds after its last occurrence in which the same thing is counted and not told anew."""
WORD_LIMIT = 128
"""Characters of a reason, and of who reports."""
_NAME_LIMIT = 253
_KNOWN_LIMIT = 1024
_NO_NAMESPACE = "default"
"""Where the API server wants the Events of objects that are in no namespace."""


class Regarding(NamedTuple):
    """The object that an Event is about; `namespace` is "" for one that is in none."""

    api_version: str
    kind: str
    name: str
    namespace: str = ""
    uid: str = ""


class Told(NamedTuple):
    """What makes two occurrences the same."""

    regarding: Regarding
    event: EventType
    reason: str
    message: str


@dataclass(slots=True)
class Occurrences:
    """What has happened since it was last written; `first` and `last` are times as the API has them.

    The name of the Event is made with it, so that an answer that was lost causes no second Event. `at` is monotonic.
    """

    name: str
    at: float
    first: str
    last: str
    count: int = 1


@dataclass(slots=True)
class _Known:
    """An Event that was written."""

    name: str
    at: float
    count: int


class EventWriter:
    """`component` and `instance` say who tells."""

    def __init__(self, *, component: str, instance: str, clock: Callable[[], float] = time.monotonic) -> None:
        self._component, self._instance = component, instance[:WORD_LIMIT]
        self._clock = clock
        self._known: dict[Told, _Known] = {}

    async def write(self, client: KubeClient, told: Told, happened: Occurrences) -> bool:
        """Write it; True for a new Event, False where the count of one was raised. Raises ApiError."""
        namespace = told.regarding.namespace or _NO_NAMESPACE
        known = self._known.get(told)
        if known is not None and self._clock() - known.at < WINDOW:
            count = known.count + happened.count
            change = {"count": count, "lastTimestamp": happened.last}
            try:
                await client.patch(EVENTS, known.name, change, patch_type="merge", namespace=namespace)
            except ApiError as error:
                if not error.not_found:  # an API server forgets Events
                    raise
            else:
                self._know(told, _Known(known.name, self._clock(), count))
                return False
        try:
            await client.create(EVENTS, self._body(told, happened, namespace), namespace=namespace)
        except ApiError as error:
            if not error.conflict:  # the answer to an earlier try was lost
                raise
        self._know(told, _Known(happened.name, self._clock(), happened.count))
        return True

    def _body(self, told: Told, happened: Occurrences, namespace: str) -> JSON:
        regarding = told.regarding
        involved = {"apiVersion": regarding.api_version, "kind": regarding.kind, "name": regarding.name}
        involved |= {"namespace": regarding.namespace} if regarding.namespace else {}
        involved |= {"uid": regarding.uid} if regarding.uid else {}
        return {
            "apiVersion": EVENTS.api_version,
            "kind": EVENTS.kind,
            "metadata": {"name": happened.name, "namespace": namespace},
            "involvedObject": involved,
            "type": told.event,
            "reason": told.reason,
            "message": told.message,
            "firstTimestamp": happened.first,
            "lastTimestamp": happened.last,
            "count": happened.count,
            "source": {"component": self._component},
            "reportingComponent": self._component,
            "reportingInstance": self._instance,
        }

    def _know(self, told: Told, known: _Known) -> None:
        """The latest is the last in the line; the first is forgotten when there are too many."""
        self._known.pop(told, None)
        self._known[told] = known
        if len(self._known) > _KNOWN_LIMIT:
            del self._known[next(iter(self._known))]


def event_name(name: str) -> str:
    """The object's name and something that no other Event has."""
    suffix = f".{secrets.token_hex(8)}"
    return name[: _NAME_LIMIT - len(suffix)].rstrip("-.") + suffix
