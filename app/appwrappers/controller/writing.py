"""Writes what a step has decided: the finalizer, the status, an Event. Each write names the version it rests upon."""

from __future__ import annotations

import structlog

from app.appwrappers import metrics
from app.appwrappers.controller.caches import Caches
from app.appwrappers.controller.observing import Step
from app.appwrappers.controller.stored import AppWrapper, stored_app_wrapper
from app.appwrappers.model import APP_WRAPPERS, FINALIZER
from app.kube.client import KubeClient
from app.kube.events import EventRecorder, Regarding
from app.kube.retry import if_there
from app.kube.writing import finalized, merge
from app.wire import JSON, changed_fields

log = structlog.get_logger(__name__)
_OPTIONAL = "reclaimablePods"


class Writing:
    def __init__(self, client: KubeClient, caches: Caches, events: EventRecorder | None) -> None:
        self._client, self._caches, self._events = client, caches, events
        self._optional = True
        """Whether the definition has our own field; the one of another AppWrapper controller has not."""

    async def write(self, wrapper: AppWrapper, step: Step) -> None:
        """Raises ApiError; a conflict says that the AppWrapper has changed meanwhile."""
        changes = self._changes(wrapper.status, step.status)
        if changes:
            before, wrapper = wrapper, await self._patch(wrapper, {"status": changes}, subresource="status")
            self._optional = self._optional and (_OPTIONAL not in changes or _OPTIONAL in wrapper.status)
            if "phase" in changes:
                metrics.entered(before, wrapper)
                log.info("phase", app_wrapper=wrapper.key, phase=wrapper.phase)
            if step.event is not None and self._events is not None:
                regarding = Regarding.of(APP_WRAPPERS, wrapper.key, wrapper.uid)
                self._events.record(regarding, "Normal", reason=step.event[0], message=step.event[1])
        if step.action in ("finalize", "release"):
            change = finalized(wrapper.finalizers, FINALIZER, present=step.action == "finalize")
            await if_there(self._patch(wrapper, change))

    def _changes(self, before: JSON, after: JSON) -> JSON:
        found = changed_fields(before, after)
        if not self._optional:
            found.pop(_OPTIONAL, None)
        return found

    async def _patch(self, wrapper: AppWrapper, change: JSON, *, subresource: str = "") -> AppWrapper:
        after = stored_app_wrapper(await merge(self._client, APP_WRAPPERS, wrapper, change, subresource=subresource))
        self._caches.written.wrote(wrapper.key, after)
        return after
