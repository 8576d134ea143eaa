"""The priority of an AppWrapper: by its WorkloadPriorityClass, else by the first PriorityClass of its podSets."""

from __future__ import annotations

from app.appwrappers.kueue.caches import Referred
from app.appwrappers.kueue.model import PRIORITY_CLASS
from app.appwrappers.kueue.stored import Job
from app.appwrappers.kueue.templates import pod_sets
from app.appwrappers.kueue.workloads import Priority
from app.errors import Transient
from app.kube.client import KubeClient
from app.kube.resources import Resource
from app.kube.retry import every_item, get_or_none

PRIORITY_CLASSES = Resource("scheduling.k8s.io", "v1", "priorityclasses", "PriorityClass", namespaced=False)
_LATER = 10.0


class Priorities:
    """`classes` are the values of WorkloadPriorityClasses."""

    def __init__(self, client: KubeClient, classes: Referred[int]) -> None:
        self._client, self._classes = client, classes

    async def of(self, job: Job) -> Priority:
        """Raises Transient where a class does not exist (yet), ApiError where one cannot be read."""
        name = job.labels.get(PRIORITY_CLASS, "")
        if name:
            value = await self._classes.get(name)
            if value is None:
                raise Transient(f"workloadpriorityclasses {name} not found", delay=_LATER)
            return Priority(value, "WorkloadPriorityClass", name)
        specs = (pod_set["template"]["spec"] for pod_set in pod_sets(job.key[1], job.components, job.statuses))
        named = next((str(spec["priorityClassName"]) for spec in specs if spec.get("priorityClassName")), "")
        if named:
            found = await get_or_none(self._client, PRIORITY_CLASSES, named)
            if found is None:
                raise Transient(f"priorityclasses {named} not found", delay=_LATER)
            return Priority(int(found["value"]), "PriorityClass", named)
        return await self._default()

    async def _default(self) -> Priority:
        pages = every_item(lambda token: self._client.list_page(PRIORITY_CLASSES, continue_token=token))
        async for priority_class in pages:
            if priority_class.get("globalDefault"):
                return Priority(int(priority_class["value"]), "PriorityClass", priority_class["metadata"]["name"])
        return Priority()
