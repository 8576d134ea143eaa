"""What becomes of an AppWrapper, told so that two managers can be compared: phases, conditions, Pods, Events, its Workload."""

from __future__ import annotations

import contextlib
import re
from collections.abc import AsyncIterator
from typing import Any

from app.appwrappers.model import APP_WRAPPERS
from app.devtools.sandbox.standins.reconciling import Watched
from app.kube.resources import EVENTS, PODS
from app.kube.store import Store
from tests.support.queued_cluster import Queue
from tests.support.running import running
from tests.support.waiting import eventually

JSON = dict[str, Any]
_SUFFIX = re.compile(r"(-[0-9a-f]{8,10})?-[0-9a-z]{5}$")
"""What controllers add to the names of their Pods."""
_OWN = (
    "berth.dev/",
    "kueue.x-k8s.io/",
    "batch.kubernetes.io/",
    "controller-uid",
    "job-name",
    "pod-template-hash",
    "controller-revision",
)
"""Labels and annotations that others write, or that name one object."""


class Trace:
    """Of the AppWrapper of a name: `summary` is what has become of it, by path."""

    def __init__(self, queue: Queue, name: str, wrappers: Store[JSON], pods: Store[JSON]) -> None:
        self._queue, self._name = queue, name
        self.phases: list[str] = []
        self._seen: dict[str, JSON] = {}
        wrappers.subscribe(self._changed)
        pods.subscribe(self._pod_changed)

    def _changed(self, _type: str, key: tuple[str, str], _old: JSON | None, new: JSON | None) -> None:
        if key != (self._queue.namespace, self._name):
            return
        phase = ((new or {}).get("status") or {}).get("phase") or ("" if new else "deleted")
        if phase and phase != (self.phases or [""])[-1]:
            self.phases.append(phase)

    def _pod_changed(self, _type: str, key: tuple[str, str], _old: JSON | None, new: JSON | None) -> None:
        if new is not None and key[0] == self._queue.namespace:
            self._seen[new["metadata"]["uid"]] = new

    async def summary(self, *, ready: bool) -> dict[str, str]:
        """With `ready`, also whether Pods are: of those that run for a moment only, no one can tell."""
        wrapper = await self._queue.get(APP_WRAPPERS, self._name)
        lines = {"phases": " ".join(self.phases)}
        status = wrapper.get("status") or {}
        lines |= _conditions("conditions", status)
        for number, component in enumerate(status.get("componentStatus") or ()):
            place = f"components.{number}"
            lines[place] = f"{component['apiVersion']} {component['kind']} {_plain(component['name'])}"
            lines[f"{place}.podSets"] = ", ".join(
                f"{pod_set['path']} {pod_set.get('replicas', 1)}" for pod_set in component.get("podSets") or ()
            )
            lines |= _conditions(place, component)
        lines |= self._of_pods()
        lines |= dict.fromkeys(await self._events(), "")
        lines |= await self._of_workload()
        return {path: value for path, value in lines.items() if ready or not path.endswith(".PodsReady")}

    def _of_pods(self) -> dict[str, str]:
        names = sorted(_plain(pod["metadata"]["name"]) for pod in self._seen.values())
        lines = {"pods": ", ".join(f"{name} {names.count(name)}" for name in dict.fromkeys(names))}
        for pod in self._seen.values():
            name, metadata, spec = _plain(pod["metadata"]["name"]), pod["metadata"], pod["spec"]
            for field in ("labels", "annotations"):
                marks = {key: value for key, value in (metadata.get(field) or {}).items() if not key.startswith(_OWN)}
                lines[f"pods.{name}.{field}"] = ", ".join(f"{key}={value}" for key, value in sorted(marks.items()))
            owners = metadata.get("ownerReferences") or ()
            lines[f"pods.{name}.owners"] = ", ".join(f"{owner['kind']} {owner.get('controller')}" for owner in owners)
            lines[f"pods.{name}.affinity"] = str(spec.get("affinity") or {})
            lines[f"pods.{name}.scheduler"] = spec["schedulerName"]
        return lines

    async def _events(self) -> set[str]:
        """Types and reasons."""
        events = (await self._queue.client.list_page(EVENTS, namespace=self._queue.namespace)).items
        return {
            f"events.{event['type']} {event['reason']}"
            for event in events
            if event["involvedObject"].get("kind") == APP_WRAPPERS.kind
            and event["involvedObject"]["name"] == self._name
        }

    async def _of_workload(self) -> dict[str, str]:
        """But for templates, of which Kueue's own code says what they are (`tests/peers`)."""
        workloads = await self._queue.workloads_of(self._name)
        lines = {"workloads": str(len(workloads))}
        for workload in workloads:
            spec, status = workload["spec"], workload.get("status") or {}
            lines["workload.podSets"] = ", ".join(
                f"{pod_set['name'].removeprefix(self._name)} {pod_set['count']}" for pod_set in spec["podSets"]
            )
            lines["workload.active"] = str(spec.get("active", True))
            lines["workload.time"] = str(spec.get("maximumExecutionTimeSeconds"))
            lines |= _conditions("workload", status)
        return lines


@contextlib.asynccontextmanager
async def traced(queue: Queue, name: str) -> AsyncIterator[Trace]:
    watched = Watched(queue.client)
    wrappers, pods = watched.store(APP_WRAPPERS), watched.store(PODS)
    trace = Trace(queue, name, wrappers, pods)
    async with running(watched.run()):
        await eventually(lambda: wrappers.synced and pods.synced)
        yield trace


def differences(peer: dict[str, str], ours: dict[str, str]) -> dict[str, tuple[str | None, str | None]]:
    """What is not the same of two traces, by path."""
    return {
        path: (peer.get(path), ours.get(path))
        for path in sorted(peer.keys() | ours.keys())
        if peer.get(path) != ours.get(path)
    }


def _conditions(place: str, owner: JSON) -> dict[str, str]:
    conditions = owner.get("conditions") or ()
    return {f"{place}.{condition['type']}": f"{condition['status']} {condition['reason']}" for condition in conditions}


def _plain(name: str) -> str:
    return _SUFFIX.sub("", name)
