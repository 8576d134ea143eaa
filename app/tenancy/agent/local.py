"""The objects of one kind in this cluster: what the cache holds of them, and the statuses that are written to them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from app.kube.client import KubeClient
from app.kube.events import EventRecorder, Regarding
from app.kube.ready_events import ReadyEvents
from app.kube.resources import Resource
from app.kube.retry import get_or_none, if_there
from app.kube.writing import apply_status
from app.tenancy.agent.outages import NOT_CONNECTED, Outage
from app.tenancy.agent.settings import AgentOptions
from app.tenancy.agent.views import Objects, ObjectView, Outcome, project_object

_MANAGER = "berth-agent"


class Local:
    """`store` holds the objects of `resource` in `namespace`; `events` records changes of their condition Ready."""

    def __init__(
        self,
        client: KubeClient,
        resource: Resource,
        store: Objects,
        options: AgentOptions,
        events: EventRecorder | None = None,
    ) -> None:
        self.client, self.resource, self.store, self.options = client, resource, store, options
        self.namespace = options.settings.namespace
        self._events = ReadyEvents(events)

    def get(self, name: str) -> ObjectView | None:
        """The object as the cache has it."""
        return self.store.get(self.namespace, name)

    async def read(self, name: str) -> ObjectView | None:
        """The object as the API server has it: a cache may lag behind another agent."""
        found = await get_or_none(self.client, self.resource, name, namespace=self.namespace)
        return project_object(found) if found is not None else None

    async def delete(self, view: ObjectView) -> None:
        """Delete this object; one that is gone need not be."""
        await if_there(self.client.delete(self.resource, view.name, namespace=self.namespace, uid=view.uid))

    async def report(
        self,
        view: ObjectView,
        result: Outcome,
        reason: str,
        message: str = "",
        extra: Mapping[str, Any] | None = None,
    ) -> None:
        """Show an outcome in the status. An empty result means that nothing is known yet. Raises ApiError."""
        await self.write_status(view, view.status_of(result, reason, message, extra or {}))

    async def report_outage(self, view: ObjectView, outage: Outage) -> None:
        """Show that the agent is not connected. An object that shows it already is not written. Raises ApiError."""
        shown = view.observed
        if shown and view.ready_reason == NOT_CONNECTED and outage.shown_by(view.message):
            return
        # What was a success is not known any more. What was never sent is an error, as is an agent in a wrong cluster.
        known = shown and view.result != "error" and not outage.elsewhere
        await self.report(view, "" if known else "error", NOT_CONNECTED, outage.message)

    async def write_status(self, view: ObjectView, status: dict[str, Any]) -> None:
        """Make `status` the whole of what we say of the object; one that is gone needs none. Raises ApiError."""
        if view.shows(status):
            return
        key = self.namespace, view.name
        written = await apply_status(self.client, self.resource, key, view.uid, status, manager=_MANAGER)
        if written is not None:
            regarding = Regarding.of(self.resource, key, view.uid)
            self._events.changed(regarding, before=view.decoded_status(), after=status)
