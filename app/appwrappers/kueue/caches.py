"""What the workload controller reads: AppWrappers, Workloads, and what an admission refers to."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, TypeVar

from app.appwrappers.kueue.model import RESOURCE_FLAVORS, WORKLOAD_PRIORITY_CLASSES
from app.appwrappers.kueue.stored import Job, Workload, stored_job, stored_workload
from app.appwrappers.model import APP_WRAPPERS
from app.kube.client import KubeClient
from app.kube.reflector import Reflector
from app.kube.resources import Resource
from app.kube.retry import get_or_none
from app.kube.running import problems_of
from app.kube.store import EventType, Key, Store
from app.wire import JSON

T = TypeVar("T")


class Referred(Generic[T]):
    """Cluster-scoped objects of a kind that others name. `project` returns what is kept of one."""

    def __init__(self, client: KubeClient, resource: Resource, project: Callable[[JSON], T]) -> None:
        self._client, self._resource, self._project = client, resource, project
        self.store: Store[T] = Store(project)
        self.reflector = Reflector(client, resource, self.store)

    async def get(self, name: str) -> T | None:
        """None where the API server has none of this name: the cache may be behind that of the kind that names it."""
        kept = self.store.get("", name)
        if kept is not None:
            return kept
        obj = await get_or_none(self._client, self._resource, name)
        return self._project(obj) if obj is not None else None


class Caches:
    """`wake` is called with AppWrappers to look at. `workloads` is the version of the API that is served."""

    def __init__(self, client: KubeClient, wake: Callable[[Key], object], *, workloads: Resource) -> None:
        self._wake = wake
        self.jobs: Store[Job] = Store(stored_job, indices={"uid": lambda one: (one.uid,), "prebuilt": _prebuilt})
        self.workloads: Store[Workload] = Store(stored_workload, indices={"owner": lambda one: (one.owner,)})
        version = workloads.version
        self.flavors = Referred(client, _in(RESOURCE_FLAVORS, version), _flavor)
        self.priorities = Referred(client, _in(WORKLOAD_PRIORITY_CLASSES, version), _priority)
        self.jobs.subscribe(lambda _event, key, _old, _new: wake(key))
        self.workloads.subscribe(self._workload_changed)
        self.stores: tuple[Store[Any], ...] = (
            self.jobs,
            self.workloads,
            self.flavors.store,
            self.priorities.store,
        )
        for store in self.stores[2:]:
            store.subscribe(lambda *_: self.wake_all())
        self.reflectors = (
            Reflector(client, APP_WRAPPERS, self.jobs),
            Reflector(client, workloads, self.workloads),
            self.flavors.reflector,
            self.priorities.reflector,
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


def _flavor(obj: JSON) -> JSON:
    return {**(obj.get("spec") or {}), "name": obj["metadata"]["name"]}


def _priority(obj: JSON) -> int:
    return int(obj.get("value") or 0)


def _prebuilt(job: Job) -> tuple[Key, ...]:
    return ((job.key[0], job.prebuilt),) if job.prebuilt else ()


def _in(resource: Resource, version: str) -> Resource:
    return Resource(resource.group, version, resource.plural, resource.kind, namespaced=resource.namespaced)
