"""A cluster in which AppWrappers wait for quota, and what of it is used at each instant."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any, Protocol

from app.appwrappers.kueue.model import CLUSTER_QUEUES, GROUP, LOCAL_QUEUES, WORKLOADS
from app.appwrappers.model import APP_WRAPPERS, PREEMPTED, QUEUE_NAME, REQUEUED
from app.devtools.sandbox.standins.reconciling import Watched
from app.errors import ApiError
from app.kube.client import KubeClient
from app.kube.conditions import condition
from app.kube.resources import EVENTS, NAMESPACES, PODS, Resource
from app.kube.retry import get_or_none
from tests.support.running import running
from tests.support.waiting import eventually

JSON = dict[str, Any]
ADMISSION_CHECKS = Resource(GROUP, "v1beta2", "admissionchecks", "AdmissionCheck", namespaced=False)
_NUMBERS = itertools.count()


def pod(name: str, *, cpu: int = 1, seconds: float = 0) -> JSON:
    """It sleeps for so long; without, for ever."""
    spec = {"restartPolicy": "Never", "containers": [_container(cpu, seconds)], "terminationGracePeriodSeconds": 1}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}


def job(name: str, *, pods: int = 1, cpu: int = 1, seconds: float = 0) -> JSON:
    spec = {"parallelism": pods, "completions": pods, "backoffLimit": 0}
    template = {"spec": pod(name, cpu=cpu, seconds=seconds)["spec"]}
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name}, "spec": spec | {"template": template}}


def failing(template: JSON, code: int = 1) -> JSON:
    """The Pod or the Job, whose Pods end with this status after a second."""
    spec = template["spec"]["template"]["spec"] if "template" in template["spec"] else template["spec"]
    spec["containers"][0]["command"] = ["sh", "-c", f"sleep 1; exit {code}"]
    return template


def unready(template: JSON) -> JSON:
    """The Pod, which no node takes."""
    template["spec"]["nodeSelector"] = {"example.com/no": "node"}
    return template


def _container(cpu: int, seconds: float) -> JSON:
    command = ["sh", "-c", f"sleep {seconds:g}" if seconds else "sleep infinity"]
    return {"name": "c", "image": "busybox", "command": command, "resources": {"requests": {"cpu": str(cpu)}}}


class Queue:
    """A LocalQueue of a namespace of its own, and its ClusterQueue, of which Pods may use so many CPUs."""

    def __init__(self, client: KubeClient, side: str, namespace: str, cpus: int) -> None:
        self.client, self.side, self.namespace, self.cpus = client, side, namespace, cpus
        self.counted = {namespace}
        """The namespaces whose Pods use its quota, which another of its cohort may share."""
        self.most = 0
        """The most CPUs that Pods on nodes have asked for at any instant."""
        self.used = 0
        """By what was seen last."""

    async def submit(
        self, name: str, *templates: JSON, queue: str = "lq", annotations: JSON | None = None, **labels: str
    ) -> JSON:
        """`labels` are Kueue's, without their prefix, `annotations` those of an AppWrapper without theirs."""
        marks = {QUEUE_NAME: queue} if queue else {}
        marks |= {f"kueue.x-k8s.io/{key.replace('_', '-')}": value for key, value in labels.items()}
        notes = {f"workload.codeflare.dev.appwrapper/{key}": value for key, value in (annotations or {}).items()}
        body = APP_WRAPPERS.body(
            {"name": name, "labels": marks, "annotations": notes},
            spec={"components": [{"template": template} for template in templates]},
        )
        return await self.client.create(APP_WRAPPERS, body, namespace=self.namespace)

    async def get(self, resource: Resource, name: str) -> JSON:
        namespace = self.namespace if resource.namespaced else None
        return await get_or_none(self.client, resource, name, namespace=namespace) or {}

    async def reaches(self, name: str, *phases: str) -> JSON:
        return await eventually(
            lambda: self.get(APP_WRAPPERS, name), lambda found: (found.get("status") or {}).get("phase") in phases
        )

    async def says(self, name: str, kind: str, *, status: str, reason: str) -> JSON:
        """The condition of an AppWrapper."""

        async def look() -> JSON:
            return condition((await self.get(APP_WRAPPERS, name)).get("status") or {}, kind)

        return await eventually(look, lambda said: (said.get("status"), said.get("reason")) == (status, reason))

    async def interrupted(self, name: str, *, reason: str, waits: bool) -> None:
        """Quota was taken from an AppWrapper, for this reason, and it waits for it again, or not.

        AppWrapper's own manager has no conditions that say so.
        """
        if self.side == "codeflare":
            return
        await self.says(name, PREEMPTED, status="True", reason=reason)
        requeued = ("True", "Requeued") if waits else ("False", "Deactivated" if "Deactivated" in reason else reason)
        await self.says(name, REQUEUED, status=requeued[0], reason=requeued[1])

    async def workloads(self) -> list[JSON]:
        return (await self.client.list_page(WORKLOADS, namespace=self.namespace)).items

    async def workloads_of(self, name: str) -> list[JSON]:
        """The Workloads of an AppWrapper."""
        return [workload for workload in await self.workloads() if _owner(workload) == name]

    async def workload(self, name: str, holds: Callable[[JSON], Any] = bool) -> JSON:
        """The Workload of an AppWrapper, as soon as `holds` takes it."""

        async def look() -> JSON:
            owned = await self.workloads_of(name)
            return {"status": {}} | owned[0] if len(owned) == 1 else {}

        return await eventually(look, lambda found: found and holds(found))

    async def refusals(self) -> list[str]:
        """What the Events say that keeps AppWrappers of the namespace from running."""
        events = (await self.client.list_page(EVENTS, namespace=self.namespace)).items
        return [one.get("note") or one.get("message") or "" for one in events if one["reason"] == "WorkloadRefused"]

    async def change(self, resource: Resource, name: str, body: JSON) -> JSON:
        namespace = self.namespace if resource.namespaced else None
        return await self.client.patch(resource, name, body, patch_type="merge", namespace=namespace)

    async def delete(self, name: str) -> None:
        await self.client.delete(APP_WRAPPERS, name, namespace=self.namespace)
        await eventually(lambda: self.get(APP_WRAPPERS, name), lambda found: not found)

    async def unused(self) -> None:
        """Nothing is admitted any more."""
        await eventually(
            lambda: self.get(CLUSTER_QUEUES, self.namespace),
            lambda found: (found.get("status") or {}).get("admittedWorkloads", 0) == 0,
        )

    def counting(self, store: Any) -> Callable[..., None]:
        def changed(*_: Any) -> None:
            using = [pod for pod in store.values() if pod["metadata"].get("namespace") in self.counted and _holds(pod)]
            self.used = sum(_cpus(pod) for pod in using)
            self.most = max(self.most, self.used)

        return changed


class Part(Protocol):
    """What may end at any step, and starts again."""

    async def start(self) -> None: ...

    async def kill(self) -> None: ...


class QueuedCluster:
    """`side` is who makes Workloads, and who gives quota; `manager` runs AppWrappers; `kubeconfig` is an administrator's."""

    def __init__(self, client: KubeClient, side: str, *, kueue: Part, manager: Part, kubeconfig: Path) -> None:
        self.client, self.side, self.kueue, self.manager, self.kubeconfig = client, side, kueue, manager, kubeconfig

    @contextlib.asynccontextmanager
    async def configured(self, **fields: Any) -> AsyncIterator[None]:
        """Kueue itself with these fields of its configuration as well; it starts anew, and once more at the end."""
        kueue: Any = self.kueue
        before = kueue.configuration
        kueue.configuration = before | fields
        try:
            await kueue.stop()
            await kueue.start()
            yield
        finally:
            kueue.configuration = before
            await kueue.stop()
            await kueue.start()

    @contextlib.asynccontextmanager
    async def queue(
        self,
        cpus: int,
        *,
        name: str = "lq",
        namespace: str = "",
        flavor: str = "default",
        most: int = 0,
        **spec: Any,
    ) -> AsyncIterator[Queue]:
        """A queue with so much quota; Pods use no more at any instant, or no more than `most`.

        Its namespace is a new one, of this name where it is given. `spec` adds to its ClusterQueue.
        """
        namespace = namespace or f"queue-{next(_NUMBERS)}"
        await self.client.create(NAMESPACES, NAMESPACES.body({"name": namespace}))
        quota = {"name": flavor, "resources": [{"name": "cpu", "nominalQuota": str(cpus)}]}
        groups = [{"coveredResources": ["cpu"], "flavors": [quota]}]
        body = CLUSTER_QUEUES.body(
            {"name": namespace}, spec={"resourceGroups": groups, "namespaceSelector": {}, **spec}
        )
        await _when_webhooks_answer(lambda: self.client.create(CLUSTER_QUEUES, body))
        local = LOCAL_QUEUES.body({"name": name}, spec={"clusterQueue": namespace})
        await self.client.create(LOCAL_QUEUES, local, namespace=namespace)
        made = Queue(self.client, self.side, namespace, most or cpus)
        watched = Watched(self.client)
        store = watched.store(PODS)
        store.subscribe(made.counting(store))
        async with running(watched.run()):
            await eventually(lambda: store.synced)
            yield made
            await self._emptied(namespace)
        assert made.most <= made.cpus, f"{made.most} of {made.cpus} CPUs were in use at an instant"

    async def _emptied(self, namespace: str) -> None:
        """What a test has left there needs no node any more."""
        for wrapper in (await self.client.list_page(APP_WRAPPERS, namespace=namespace)).items:
            await self.client.delete(APP_WRAPPERS, wrapper["metadata"]["name"], namespace=namespace)

        async def left() -> int:
            return len((await self.client.list_page(APP_WRAPPERS, namespace=namespace)).items)

        await eventually(left, lambda count: count == 0)


async def _when_webhooks_answer(write: Callable[[], Any]) -> None:
    """An API server learns of webhooks, and of what they are trusted by, a moment later."""

    async def written() -> bool:
        with contextlib.suppress(ApiError):
            await write()
            return True
        return False

    await eventually(written)


def _owner(workload: JSON) -> str:
    owners = workload["metadata"].get("ownerReferences") or ()
    return next((str(owner["name"]) for owner in owners if owner["kind"] == APP_WRAPPERS.kind), "")


def _holds(pod: JSON) -> bool:
    """Whether it has a place on a node, and has not ended."""
    return bool(pod["spec"].get("nodeName")) and pod.get("status", {}).get("phase") not in ("Succeeded", "Failed")


def _cpus(pod: JSON) -> int:
    return sum(int(one.get("resources", {}).get("requests", {}).get("cpu", 0)) for one in pod["spec"]["containers"])
