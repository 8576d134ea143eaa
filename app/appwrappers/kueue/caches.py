"""What the workload controller reads: AppWrappers, Workloads, and what an admission refers to.

The priority of an AppWrapper is that of its WorkloadPriorityClass, else of the first PriorityClass of its podSets.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Generic, TypeVar

from app.appwrappers.controller.stored import INDICES, AppWrapper, stored_app_wrapper
from app.appwrappers.kueue.model import PRIORITY_CLASS, RESOURCE_FLAVORS, WORKLOAD_PRIORITY_CLASSES
from app.appwrappers.kueue.stored import Workload, stored_workload
from app.appwrappers.kueue.templates import pod_sets
from app.appwrappers.kueue.workloads import Priority
from app.appwrappers.model import APP_WRAPPERS
from app.errors import Transient
from app.kube.client import KubeClient
from app.kube.kit import Kit, Wakes, all_of, itself
from app.kube.resources import Resource
from app.kube.retry import every_item, get_or_none
from app.kube.store import Key, Store
from app.wire import JSON

T = TypeVar("T")
PRIORITY_CLASSES = Resource("scheduling.k8s.io", "v1", "priorityclasses", "PriorityClass", namespaced=False)
_LATER = 10.0


class Referred(Generic[T]):
    """Cluster-scoped objects of a kind that others name. `project` returns what is kept of one."""

    def __init__(self, kit: Kit, resource: Resource, project: Callable[[JSON], T]) -> None:
        self._client: KubeClient = kit.client
        self._resource, self._project = resource, project
        self.store = kit.cache(resource, project)

    async def get(self, name: str) -> T | None:
        """None where the API server has none of this name: the cache may be behind that of the kind that names it."""
        kept = self.store.get("", name)
        if kept is not None:
            return kept
        obj = await get_or_none(self._client, self._resource, name)
        return self._project(obj) if obj is not None else None


def jobs_of(kit: Kit) -> Store[AppWrapper]:
    """The cache of AppWrappers, which is that of the framework controller too: it begins before Kueue is there."""
    return kit.cache(APP_WRAPPERS, stored_app_wrapper, indices=INDICES)


class KueueCaches:
    """`jobs` is the cache of AppWrappers, and `workloads` the version of the API that is served."""

    def __init__(self, kit: Kit, jobs: Store[AppWrapper], *, workloads: Resource) -> None:
        self.jobs = jobs
        self.workloads = kit.cache(workloads, stored_workload, indices={"owner": lambda workload: (workload.owner,)})
        version = workloads.version
        self.flavors = Referred(kit, _in(RESOURCE_FLAVORS, version), _flavor)
        self.priorities = Referred(kit, _in(WORKLOAD_PRIORITY_CLASSES, version), _priority)

    def wakes(self) -> Mapping[Store[Any], Wakes]:
        """Which AppWrappers have to be looked at after a change."""
        return {
            self.jobs: itself,
            self.workloads: self._of_workload,
            self.flavors.store: all_of(self.jobs.keys),
            self.priorities.store: all_of(self.jobs.keys),
        }

    def _of_workload(self, key: Key, old: Workload | None, new: Workload | None) -> list[Key]:
        owners = [
            job.key
            for workload in (old, new)
            if workload is not None
            for job in self.jobs.by_index("uid", workload.owner)
        ]
        prebuilt = [job.key for job in self.jobs.by_index("prebuilt", key)]
        # Of an AppWrapper that is gone: by its own name.
        held = [key] if new is not None and new.held and new.deleting else []
        return [*owners, *prebuilt, *held]


class Priorities:
    """`classes` are the values of WorkloadPriorityClasses."""

    def __init__(self, client: KubeClient, classes: Referred[int]) -> None:
        self._client, self._classes = client, classes

    async def of(self, job: AppWrapper) -> Priority:
        """Raises Transient where a class does not exist (yet), ApiError where one cannot be read."""
        name = job.labels.get(PRIORITY_CLASS, "")
        if name:
            value = await self._classes.get(name)
            if value is None:
                raise Transient(f"workloadpriorityclasses {name} not found", delay=_LATER)
            return Priority(value, "WorkloadPriorityClass", name)
        sets = pod_sets(job.key[1], job.components, job.component_statuses)
        specs = (pod_set["template"]["spec"] for pod_set in sets)
        named = next((str(spec["priorityClassName"]) for spec in specs if spec.get("priorityClassName")), "")
        if named:
            priority_class = await get_or_none(self._client, PRIORITY_CLASSES, named)
            if priority_class is None:
                raise Transient(f"priorityclasses {named} not found", delay=_LATER)
            return Priority(int(priority_class["value"]), "PriorityClass", named)
        return await self._default()

    async def _default(self) -> Priority:
        pages = every_item(lambda token: self._client.list_page(PRIORITY_CLASSES, continue_token=token))
        async for priority_class in pages:
            if priority_class.get("globalDefault"):
                return Priority(int(priority_class["value"]), "PriorityClass", priority_class["metadata"]["name"])
        return Priority()


def _flavor(obj: JSON) -> JSON:
    return dict(obj.get("spec") or {})


def _priority(obj: JSON) -> int:
    return int(obj.get("value") or 0)


def _in(resource: Resource, version: str) -> Resource:
    return Resource(resource.group, version, resource.plural, resource.kind, namespaced=resource.namespaced)
