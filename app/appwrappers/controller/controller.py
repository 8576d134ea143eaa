"""The framework controller: AppWrappers in; objects, statuses and Events out.

All state is in the cluster. Each write says the version that it rests upon, so that of two controllers one is refused.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime

import structlog

from app.appwrappers import metrics
from app.appwrappers.controller.acting import Objects
from app.appwrappers.controller.caches import AppWrapperCaches, Kinds
from app.appwrappers.controller.health import health_of
from app.appwrappers.controller.observing import Evictions, Observation, Request, Step
from app.appwrappers.controller.phases import next_step
from app.appwrappers.controller.stored import AppWrapper, stored_app_wrapper
from app.appwrappers.model import APP_WRAPPERS, FINALIZER
from app.appwrappers.options import AppWrapperOptions, read_options
from app.appwrappers.podsets.inference import made_at_once
from app.appwrappers.settings import WrappedKindsSettings
from app.kube.client import KubeClient
from app.kube.controller import Done, RequeueAfter, Result
from app.kube.discovery import Discovery
from app.kube.events import EventRecorder, Regarding
from app.kube.kit import Kit
from app.kube.retry import if_there
from app.kube.store import Key
from app.kube.writing import finalized, merge
from app.settings.reconciling import ControllerContext
from app.settings.source import settings_as
from app.text import utc_now
from app.wire import JSON, changed_fields
from app.wiring import OFF

log = structlog.get_logger(__name__)

_OPTIONAL = "reclaimablePods"
"""A field of ours in the status, which the definition of another controller lacks."""
_STEPS = 32
"""Steps of one AppWrapper until others have their turn."""


def build(context: ControllerContext) -> Kit:
    settings, kit = settings_as(context.settings, WrappedKindsSettings), context.kit()
    metrics.create_series()
    AppWrappers(
        kit,
        config=settings.appwrapper_config,
        namespace=context.settings.namespace,
        impersonate=settings.appwrapper_impersonation != OFF,
    )
    return kit


class AppWrappers:
    """`config` is the name of the ConfigMap, in `namespace`.

    With `impersonate`, components are created as the users who created the AppWrappers.
    """

    def __init__(
        self,
        kit: Kit,
        *,
        config: str,
        namespace: str,
        impersonate: bool = False,
        now: Callable[[], datetime] = utc_now,
    ) -> None:
        self._now = now
        caches = self.caches = AppWrapperCaches(kit, config_name=config, namespace=namespace)
        reconciler = kit.reconcile("appwrappers", self._reconcile, keys=caches.app_wrappers.keys, wakes=caches.wakes())
        kinds, discovery = Kinds(kit, reconciler, caches.app_wrappers), Discovery(kit.client)
        self._objects = Objects(kit.client, caches, kinds, discovery, impersonate=impersonate)
        self._evictions = Evictions(kit.client, discovery)
        self._writing = Writing(kit.client, caches, kit.events)
        kit.within(metrics.kept(caches.app_wrappers))

    async def _reconcile(self, key: Key) -> Result:
        for _ in range(_STEPS):
            wrapper = self.caches.written.get(key)
            if wrapper is None or not wrapper.ours:
                return Done()
            step = await self._step(wrapper)
            await self._writing.write(wrapper, step)
            if step.after != 0 and step.action != "finalize":
                return Done() if step.after is None else RequeueAfter(step.after)
        return RequeueAfter(0)

    async def _step(self, wrapper: AppWrapper) -> Step:
        options, outcome = read_options(wrapper.annotations, self.caches.config.fault_tolerance), None
        steps = next_step(wrapper, options, self._now())
        try:
            while True:
                outcome = await self._outcome(steps.send(outcome), wrapper, options)
        except StopIteration as end:
            step: Step = end.value
            return step

    async def _outcome(self, request: Request, wrapper: AppWrapper, options: AppWrapperOptions) -> object:
        if request == "eviction":
            return await self._evictions.of(wrapper)
        if request == "create":
            return await self._objects.create(wrapper)
        if request == "observe":
            return await self._observed(wrapper, options)
        return await self._objects.delete(wrapper, self.caches.pods_of(wrapper), force=request == "force")

    async def _observed(self, wrapper: AppWrapper, options: AppWrapperOptions) -> Observation:
        outcomes, missing = await self._objects.observed(wrapper)
        health = health_of(
            [made_at_once(status) for status in wrapper.component_statuses],
            outcomes,
            self.caches.pods_of(wrapper),
            options,
            self.caches.unhealthy_nodes(),
        )
        return Observation(health, missing, watched=self._objects.watched(wrapper))


class Writing:
    """Writes what a step has decided: the finalizer, the status, an Event. Each names the version it rests upon."""

    def __init__(self, client: KubeClient, caches: AppWrapperCaches, events: EventRecorder | None) -> None:
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
        changes = changed_fields(before, after)
        if not self._optional:
            changes.pop(_OPTIONAL, None)
        return changes

    async def _patch(self, wrapper: AppWrapper, change: JSON, *, subresource: str = "") -> AppWrapper:
        after = stored_app_wrapper(await merge(self._client, APP_WRAPPERS, wrapper, change, subresource=subresource))
        self._caches.written.wrote(wrapper.key, after)
        return after
