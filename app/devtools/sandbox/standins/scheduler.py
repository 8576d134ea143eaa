"""Binds Pods to nodes, one at a time, and says on the Pod why it could not. The choice itself is `placement`.

Devices of ResourceClaims are allocated before (`devices`). Remembers what it bound until the cache shows it, so that
two Pods never get the same free device. Whatever changes on a node or frees capacity makes it look at all waiting Pods
again. What comes of it is an Event, as of kube-scheduler: one for each new reason, not one for each look.
"""

from __future__ import annotations

from typing import Literal

from app.devtools.sandbox.standins.devices.claiming import Claiming
from app.devtools.sandbox.standins.devices.fitting import ClassMissing, Fit
from app.devtools.sandbox.standins.devices.selecting import Refused
from app.devtools.sandbox.standins.placement import Placement, no_node, place
from app.devtools.sandbox.standins.reconciling import Watched, reconciling
from app.kube.client import KubeClient
from app.kube.events import EventRecorder, Regarding
from app.kube.resources import NAMESPACES, NODES, PODS
from app.kube.store import EventType, Key
from app.text import stamp
from app.wire import JSON

NAME = "default-scheduler"
_AGAIN = 1.0
"""Seconds between two looks at a Pod while it is not known which devices there are."""


class Scheduler:
    """What binds Pods is `controller`, what writes Events is `events`."""

    def __init__(self, client: KubeClient, watched: Watched) -> None:
        self._client = client
        pods, nodes, namespaces = (watched.store(one) for one in (PODS, NODES, NAMESPACES))
        self._pods, self._nodes, self._namespaces = pods, nodes, namespaces
        self._bound: dict[Key, JSON] = {}
        self._claiming = Claiming(client, watched)
        self.events = EventRecorder(lambda: client, role="sandbox", instance=NAME, component=NAME)
        # One worker: capacity is counted and taken without another Pod in between.
        self.controller = reconciling(
            "scheduler", self._reconcile, pods, nodes, namespaces, wakes=is_waiting, workers=1, resync=60.0
        )
        pods.subscribe(self._on_pod)
        for store in (nodes, *self._claiming.stores):
            store.subscribe(lambda *_: self._look_again())

    def _look_again(self) -> None:
        for key in self._pods.keys():  # noqa: SIM118  # not a dict
            if is_waiting(self._pods.get(*key)):
                self.controller.enqueue(key)

    def _on_pod(self, event: EventType, key: Key, old: JSON | None, new: JSON | None) -> None:
        if new is None or new["spec"].get("nodeName"):
            self._bound.pop(key, None)
        if event == "DELETED" or (_is_finished(new) and not _is_finished(old)):
            self._look_again()

    async def _reconcile(self, key: Key) -> float | None:
        pod = self._pods.get(*key)
        if pod is None or not is_waiting(pod):
            return None
        assumed = self._bound.get(key)
        if assumed is not None and assumed["metadata"]["uid"] == pod["metadata"]["uid"]:
            return None
        again = None if self._claiming.synced else _AGAIN
        await self._schedule(key, pod)
        return again

    async def _schedule(self, key: Key, pod: JSON) -> None:
        nodes = self._nodes.values()
        try:
            fit = self._claiming.fit(pod)
            if fit is None:
                return  # it waits for its claims, and says nothing
            placement = self._place(pod, nodes, fit)
        except ClassMissing as error:
            await self._explain(pod, no_node(len(nodes), str(error)))
        except Refused as error:
            await self._explain(pod, f'running "DynamicResources" filter plugin: {error}', reason="SchedulerError")
        else:
            if placement.node:
                await self._claiming.claim(pod, fit, placement.node)
                await self._bind(key, pod, placement.node)
            else:
                await self._explain(pod, placement.message)

    def _place(self, pod: JSON, nodes: list[JSON], fit: Fit) -> Placement:
        others = [other for other in self._pods.values() if other["spec"].get("nodeName")]
        labels = {one["metadata"]["name"]: one["metadata"].get("labels") or {} for one in self._namespaces.values()}
        return place(pod, nodes, [*others, *self._bound.values()], labels, fit)

    async def _bind(self, key: Key, pod: JSON, node: str) -> None:
        namespace, name = key
        self._bound[key] = {**pod, "spec": {**pod["spec"], "nodeName": node}}
        binding = {
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": {"name": name, "namespace": namespace, "uid": pod["metadata"]["uid"]},
            "target": {"apiVersion": "v1", "kind": "Node", "name": node},
        }
        try:
            await self._client.post(PODS.path(namespace=namespace, name=name, subresource="binding"), binding)
        except Exception:
            self._bound.pop(key, None)
            raise
        self._record(pod, "Normal", "Scheduled", f"Successfully assigned {namespace}/{name} to {node}")

    async def _explain(self, pod: JSON, message: str, *, reason: str = "Unschedulable") -> None:
        conditions = (pod.get("status") or {}).get("conditions") or []
        said: JSON = next((c for c in conditions if c.get("type") == "PodScheduled"), {})
        if said.get("status") == "False" and said.get("message") == message:
            return
        condition = {
            "type": "PodScheduled",
            "status": "False",
            "reason": reason,
            "message": message,
            "lastProbeTime": None,
            "lastTransitionTime": said.get("lastTransitionTime") if said.get("status") == "False" else stamp(),
        }
        metadata = pod["metadata"]
        body = {"metadata": {"uid": metadata["uid"]}, "status": {"conditions": [condition]}}
        await self._client.patch(
            PODS, metadata["name"], body, patch_type="strategic", namespace=metadata["namespace"], subresource="status"
        )
        self._record(pod, "Warning", "FailedScheduling", message)

    def _record(self, pod: JSON, event: Literal["Normal", "Warning"], reason: str, message: str) -> None:
        metadata = pod["metadata"]
        regarding = Regarding.of(PODS, (metadata["namespace"], metadata["name"]), metadata["uid"])
        self.events.record(regarding, event, reason=reason, message=message)


def is_waiting(pod: JSON | None) -> bool:
    """Whether the Pod asks the default scheduler for a node."""
    if pod is None:
        return False
    spec: JSON = pod.get("spec") or {}
    return not (
        spec.get("nodeName")
        or spec.get("schedulingGates")
        or pod["metadata"].get("deletionTimestamp")
        or spec.get("schedulerName", NAME) != NAME
        or _is_finished(pod)
    )


def _is_finished(pod: JSON | None) -> bool:
    return pod is not None and (pod.get("status") or {}).get("phase") in ("Succeeded", "Failed")
