"""Writes results where the user looks: the status of WorkloadRules, UVS objects and mirrors, only where it changes."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from app.errors import ApiError
from app.kube.client import KubeClient
from app.kube.events import Events, Regarding
from app.kube.readyevents import ReadyEvents
from app.kube.resources import Resource
from app.tenancy.agent.views import ObjectView
from app.tenancy.messages import canonical
from app.text import stamp
from app.wire import JSON

_MANAGER = "berth-agent"
_MESSAGE_LIMIT = 32768
_REASON_LIMIT = 1024
_FIELDS = (
    ("rule.data.rule_template", "spec.template"),
    ("rule.data", "spec"),
    ("rule.id", "metadata.name"),
    ("obj.obj_spec", "spec.object"),
)


@dataclass(frozen=True, slots=True)
class Report:
    """One outcome; `reason` is a CamelCase word for the condition Ready, `extra` further fields of the status.

    An empty result means that nothing is known yet.
    """

    result: Literal["success", "error", ""]
    reason: str
    message: str = ""
    extra: Mapping[str, Any] = field(default_factory=dict)


def status_of(report: Report, *, generation: int, previous: JSON, now: str) -> JSON:
    """The status that says it. `lastTransitionTime` is `now` only where Ready changes its status."""
    ready = {"success": "True", "error": "False", "": "Unknown"}[report.result]
    before: JSON = next((c for c in previous.get("conditions") or () if c.get("type") == "Ready"), {})
    since = before.get("lastTransitionTime") if before.get("status") == ready else None
    return {
        "result": report.result,
        "message": report.message,
        "observedGeneration": generation,
        **report.extra,
        "conditions": [
            {
                "type": "Ready",
                "status": ready,
                "reason": report.reason[:_REASON_LIMIT],
                "message": report.message[:_MESSAGE_LIMIT],
                "observedGeneration": generation,
                "lastTransitionTime": since or now,
            }
        ],
    }


class StatusWriter:
    """Writes the statuses of the objects of one resource in one namespace, and tells of changes by `events`."""

    def __init__(
        self,
        client: KubeClient,
        resource: Resource,
        *,
        namespace: str,
        events: Events | None = None,
    ) -> None:
        self._client = client
        self._resource = resource
        self._namespace = namespace
        self._events = ReadyEvents(events)

    async def report(self, view: ObjectView, report: Report) -> None:
        """Raises ApiError; an object that is gone needs no status."""
        now = stamp()
        await self.write(view, status_of(report, generation=view.generation, previous=view.decoded_status(), now=now))

    async def write(self, view: ObjectView, status: JSON) -> None:
        """Make `status` the whole of what we say of the object. Raises ApiError."""
        if canonical(status) == view.status:
            return
        body = self._resource.body({"name": view.name, "namespace": self._namespace}, status=status)
        try:
            await self._client.apply(
                self._resource,
                view.name,
                body,
                namespace=self._namespace,
                field_manager=_MANAGER,
                subresource="status",
            )
        except ApiError as error:
            if not error.not_found:
                raise
            return
        resource = self._resource
        regarding = Regarding(resource.api_version, resource.kind, view.name, self._namespace, view.uid)
        self._events.changed(regarding, before=view.decoded_status(), after=status)


def in_terms_of_the_object(message: str) -> str:
    """The gateway names the fields of its messages; the user knows those of the object."""
    for theirs, ours in _FIELDS:
        message = message.replace(theirs, ours)
    return message


class Patience:
    """Since when a key has been waiting for the gateway; `limit` in seconds."""

    def __init__(self, limit: float, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._limit = limit
        self._clock = clock
        self._since: dict[str, float] = {}

    def left(self, key: str) -> float:
        """Seconds of patience left for `key`, counted from the first question; 0 when it has run out."""
        began = self._since.setdefault(key, self._clock())
        return max(0.0, began + self._limit - self._clock())

    def settle(self, key: str) -> None:
        """`key` has its answer."""
        self._since.pop(key, None)
