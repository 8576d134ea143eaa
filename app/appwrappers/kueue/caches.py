"""What the workload controller reads: AppWrappers, Workloads, and what an admission refers to."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from app.appwrappers.kueue.model import RESOURCE_FLAVORS, WORKLOAD_PRIORITY_CLASSES
from app.appwrappers.kueue.stored import Job, Workload, stored_job, stored_workload
from app.appwrappers.model import APP_WRAPPERS
from app.kube.client import KubeClient
from app.kube.reflector import Reflector
from app.kube.resources import Resource
from app.kube.running import problems_of
from app.kube.store import EventType, Key, Store
from app.wire import JSON


class Caches:
    """`wake` is called with AppWrappers to look at. `workloads` is the version of the API that is served."""

    def __init__(self, client: KubeClient, wake: Callable[[Key], object], *, workloads: Resource) -> None:
        self._wake = wake
        self.jobs: Store[Job] = Store(stored_job, indices={"uid": lambda one: (one.uid,), "prebuilt": _prebuilt})
        self.workloads: Store[Workload] = Store(stored_workload, indices={"owner": lambda one: (one.owner,)})
        self.flavors: Store[JSON] = Store(lambda obj: {**(obj.get("spec") or {}), "name": obj["metadata"]["name"]})
        self.priorities: Store[int] = Store(lambda obj: int(obj.get("value") or 0))
        self.jobs.subscribe(lambda _event, key, _old, _new: wake(key))
        self.workloads.subscribe(self._workload_changed)
        for store in (self.flavors, self.priorities):
            store.subscribe(lambda *_: self.wake_all())
        version = workloads.version
        self.stores: tuple[Store[Any], ...] = (self.jobs, self.workloads, self.flavors, self.priorities)
        self.reflectors = (
            Reflector(client, APP_WRAPPERS, self.jobs),
            Reflector(client, workloads, self.workloads),
            Reflector(client, _in(RESOURCE_FLAVORS, version), self.flavors),
            Reflector(client, _in(WORKLOAD_PRIORITY_CLASSES, version), self.priorities),
        )

    def waiting(self) -> list[str]:
        """What readiness waits for, one line each."""
        return problems_of(self.reflectors)

    def wake_all(self) -> None:
        for key in self.jobs.keys():  # noqa: SIM118 - a store is no mapping
            self._wake(key)

    def _workload_changed(self, _event: EventType, key: Key, old: Workload | None, new: Workload | None) -> None:
        for workload in (old, new):
            for job in self.jobs.by_index("uid", workload.owner) if workload else ():
                self._wake(job.key)
        for job in self.jobs.by_index("prebuilt", key):
            self._wake(job.key)
        if new is not None and new.held and new.deleting:
            self._wake(key)  # of an AppWrapper that is gone: by its own name


def _prebuilt(job: Job) -> tuple[Key, ...]:
    return ((job.key[0], job.prebuilt),) if job.prebuilt else ()


def _in(resource: Resource, version: str) -> Resource:
    return Resource(resource.group, version, resource.plural, resource.kind, namespaced=resource.namespaced)
