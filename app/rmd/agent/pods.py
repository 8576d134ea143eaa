"""One Pod of the node: its containers become RmdWorkloads for the cores that kubelet gave them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from app.errors import ApiError, Transient
from app.kube.client import KubeClient
from app.kube.controller import Done, Result
from app.kube.events import EventRecorder, EventType, Regarding
from app.kube.resources import PODS
from app.kube.retry import get_or_none, if_there
from app.kube.store import Key
from app.kube.walls import Apart
from app.rmd.agent import metrics
from app.rmd.agent.caches import Caches
from app.rmd.agent.kubelet import Cores, NoAnswer, PodResources
from app.rmd.agent.planning import REASONS, Note, PodPlan, plan_pod, shared_cores
from app.rmd.agent.stored import Made, NodePod, stored_made
from app.rmd.cores import ranges_of
from app.rmd.model import RMD_WORKLOADS
from app.rmd.writing import patch_same
from app.wire import JSON

RESERVATION, NAME_TAKEN, REFUSED = "CacheReservation", "NameTaken", "RmdWorkloadRefused"
PROBLEMS = (*REASONS, NAME_TAKEN, REFUSED)
"""The reasons of Warning Events on Pods."""


class NotYet(Transient):
    """The Pod has to be looked at again; a status or an Event says why."""

    expected = True


class PodSync:
    def __init__(self, client: KubeClient, caches: Caches, kubelet: PodResources, events: EventRecorder | None) -> None:
        self._client, self._caches, self._kubelet, self._events = client, caches, kubelet, events
        self._said: dict[Key, tuple[str, frozenset[Note]]] = {}
        """What was said of a Pod, by its UID: once is enough."""

    async def reconcile(self, key: Key) -> Result:
        """Raises Transient where the Pod has to be looked at again."""
        pod, silent = self._caches.pods.get(*key), ""
        cores: Cores | None = None
        if pod is not None and pod.acknowledged and not pod.ended and any(one.qualifies for one in pod.asks.containers):
            try:
                cores = await self._kubelet.cores()
            except NoAnswer as error:
                silent = str(error)
        shared = shared_cores(cores, self._caches.pods.values()) if cores else frozenset[int]()
        plan, apart = plan_pod(pod, self._caches.made_of(key), cores, shared), Apart()
        await self._write(pod, plan, apart)
        self._say(key, pod, plan.notes)
        with apart.step():
            if silent or plan.wait:
                raise NotYet(silent or plan.wait)
        apart.end()
        return Done()

    async def _write(self, pod: NodePod | None, plan: PodPlan, apart: Apart) -> None:
        for made in plan.delete:
            namespace, name = made.key
            with _of_one(name, plan, apart):
                await if_there(self._client.delete(RMD_WORKLOADS, name, namespace=namespace, uid=made.uid))
        for made, wanted in plan.update:
            with _of_one(made.key[1], plan, apart):
                await self._change(made, wanted)
        if pod is not None:
            for wanted in plan.create:
                with _of_one(wanted["metadata"]["name"], plan, apart):
                    await self._create(pod, wanted, plan)

    async def _create(self, pod: NodePod, wanted: JSON, plan: PodPlan) -> None:
        try:
            await self._client.create(RMD_WORKLOADS, wanted, namespace=wanted["metadata"]["namespace"])
        except ApiError as error:
            if not error.conflict:
                raise
            await self._adopt(pod, wanted, plan)
        else:
            self._record(pod, "Normal", Note(RESERVATION, _asks(wanted)))

    async def _change(self, one: Made, wanted: JSON) -> None:
        labels = {**one.labels, **wanted["metadata"]["labels"]}
        changes = [
            {"op": "add", "path": "/metadata/labels", "value": labels},
            {"op": "replace", "path": "/spec", "value": wanted["spec"]},
        ]
        await patch_same(self._client, RMD_WORKLOADS, one.key, one.uid, *changes)

    async def _adopt(self, pod: NodePod, wanted: JSON, plan: PodPlan) -> None:
        """An RmdWorkload of this name is there: of this Pod, by the operator's agent, or of others."""
        name, namespace = wanted["metadata"]["name"], wanted["metadata"]["namespace"]
        found = await get_or_none(self._client, RMD_WORKLOADS, name, namespace=namespace)
        if found is None:
            plan.wait = f"RmdWorkload {name} has just gone"
            return
        there = stored_made(found)
        if there is not None and there.pod[1] == pod.uid:
            await self._change(there, wanted)
            return
        plan.notes.append(Note(NAME_TAKEN, f"RmdWorkload {name} is there and belongs to no container of this Pod"))
        plan.wait = f"RmdWorkload {name} belongs to another"

    def _say(self, key: Key, pod: NodePod | None, notes: list[Note]) -> None:
        if pod is None:
            self._said.pop(key, None)
            return
        uid, said = self._said.get(key, ("", frozenset()))
        for note in notes:
            if uid != pod.uid or note not in said:
                self._record(pod, "Warning", note)
                metrics.PROBLEMS.labels(note.reason).inc()
        self._said[key] = pod.uid, frozenset(notes)

    def _record(self, pod: NodePod, kind: EventType, note: Note) -> None:
        if self._events is not None:
            self._events.record(Regarding.of(PODS, pod.key, pod.uid), kind, reason=note.reason, message=note.message)


@contextmanager
def _of_one(name: str, plan: PodPlan, apart: Apart) -> Iterator[None]:
    """Around the write of one RmdWorkload: a refusal is noted, and costs no other container."""
    with apart.step():
        try:
            yield
        except ApiError as error:
            if error.about_object:
                plan.notes.append(Note(REFUSED, f"RmdWorkload {name}: {error}"))
            raise


def _asks(workload: JSON) -> str:
    cores = ",".join(ranges_of(map(int, workload["spec"]["coreIds"])))
    return f"RmdWorkload {workload['metadata']['name']} asks for it on cores {cores}"
