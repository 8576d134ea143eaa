"""The framework controller: AppWrappers in; objects, statuses and Events out.

All state is in the cluster. Each write says the version that it rests upon, so that of two controllers one is refused.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime

from app.appwrappers import metrics
from app.appwrappers.controller.acting import Objects
from app.appwrappers.controller.caches import Caches
from app.appwrappers.controller.evictions import Evictions
from app.appwrappers.controller.health import health_of
from app.appwrappers.controller.observing import Seen, Step
from app.appwrappers.controller.phases import next_step
from app.appwrappers.controller.stored import AppWrapper
from app.appwrappers.controller.writing import Writing
from app.appwrappers.options import read_options
from app.appwrappers.podsets.inference import made_at_once
from app.kube.client import KubeClient
from app.kube.controller import Controller, Done, RequeueAfter, Result
from app.kube.discovery import Discovery
from app.kube.events import EventRecorder
from app.kube.running import stand, start
from app.kube.store import Key
from app.text import utc_now

_EXPIRY_CHECK = 1.0
_STEPS = 32
"""Steps of one AppWrapper until others have their turn."""
_ONLY_READ = 60.0
"""Seconds between two looks at objects that may not be watched."""


@dataclass(frozen=True, slots=True)
class Options:
    """`resync` is in seconds. `config` is the name of the ConfigMap, in `namespace`.

    With `impersonate`, components are created as the users who created the AppWrappers.
    """

    config: str
    namespace: str
    workers: int = 16
    resync: float | None = 600.0
    impersonate: bool = False


class AppWrappersController:
    """`run` it while this process leads; it runs once."""

    def __init__(
        self,
        client: KubeClient,
        *,
        options: Options,
        events: EventRecorder | None = None,
        now: Callable[[], datetime] = utc_now,
    ) -> None:
        self._now = now
        self._caches = caches = Caches(client, self._wake, config_name=options.config, namespace=options.namespace)
        discovery = Discovery(client)
        self._objects = Objects(client, caches, discovery, impersonate=options.impersonate)
        self._evictions = Evictions(client, discovery)
        self._writing = Writing(client, caches, events)
        self._controller: Controller[Key] = Controller(
            "appwrappers",
            self._reconcile,
            stores=caches.stores,
            keys=caches.app_wrappers.keys,
            workers=options.workers,
            resync=options.resync,
        )

    async def run(self) -> None:
        """Until cancelled; what is under way then gets a few seconds to end."""
        with metrics.kept(self._caches.app_wrappers):
            await self._run()

    async def _run(self) -> None:
        async with asyncio.TaskGroup() as group:
            start(group, self._caches.reflectors, (self._controller,))
            stand(group, "wrapped-kinds", self._caches.kinds.run)
            stand(group, "appwrappers-lag", self._expire)

    def waiting(self) -> list[str]:
        """What readiness waits for, one line each."""
        return self._caches.waiting()

    def _wake(self, key: Key) -> None:
        self._controller.enqueue(key)

    async def _expire(self) -> None:
        while True:
            await asyncio.sleep(_EXPIRY_CHECK)
            self._caches.expire()

    async def _reconcile(self, key: Key) -> Result:
        for _ in range(_STEPS):
            wrapper = self._caches.written.get(key)
            if wrapper is None or not wrapper.ours:
                return Done()
            step = await self._step(wrapper)
            await self._writing.write(wrapper, step)
            if step.after != 0 and step.action != "finalize":
                return Done() if step.after is None else RequeueAfter(step.after)
        return RequeueAfter(0)

    async def _step(self, wrapper: AppWrapper) -> Step:
        seen = Seen(wrapper, read_options(wrapper.annotations, self._caches.config.fault_tolerance), self._now())
        if wrapper.suspend and wrapper.queue and wrapper.phase in ("Resuming", "Running", "Resetting"):
            seen = replace(seen, eviction=await self._evictions.of(wrapper))
        step = next_step(seen)
        if step.action == "observe":
            return await self._observe(seen)
        if step.action == "create":
            return next_step(replace(seen, creation=await self._objects.create(wrapper)))
        if step.action in ("delete", "force"):
            pods = self._caches.pods_of(wrapper)
            deletion = await self._objects.delete(wrapper, pods, force=step.action == "force")
            return next_step(replace(seen, deletion=deletion))
        return step

    async def _observe(self, seen: Seen) -> Step:
        wrapper, statuses = seen.wrapper, seen.wrapper.component_statuses
        outcomes, missing = await self._objects.observed(wrapper)
        health = health_of(
            [made_at_once(status) for status in statuses],
            outcomes,
            self._caches.pods_of(wrapper),
            seen.options,
            self._caches.unhealthy_nodes(),
        )
        step = next_step(replace(seen, health=health, missing=missing))
        if not self._objects.watched(wrapper):
            step = replace(step, after=_ONLY_READ if step.after is None else min(step.after, _ONLY_READ))
        return step
