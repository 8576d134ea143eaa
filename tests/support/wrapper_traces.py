"""What becomes of an AppWrapper, told so that two managers can be compared: phases, conditions, Pods, Events, its Workload."""

from __future__ import annotations

import contextlib
import re
from collections.abc import AsyncIterator
from typing import Any

from app.appwrappers.model import APP_WRAPPERS
from app.devtools.sandbox.standins.reconciling import Watched
from app.kube.resources import EVENTS, PODS
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
    """Of the AppWrapper of a name: `told` is what has become of it, by path."""

    def __init__(self, queue: Queue, name: str, wrappers: Any, pods: Any) -> None:
        self._queue, self._name, self._wrappers, self._pods = queue, name, wrappers, pods
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

    async def told(self, *, ready: bool) -> dict[str, str]:
        """With `ready`, also whether Pods are: of those that run for a moment only, no one can tell."""
        wrapper = await self._queue.get(APP_WRAPPERS, self._name)
        lines = {"phases": " ".join(self.phases)}
        status = wrapper.get("status") or {}
        lines |= {f"conditions.{one['type']}": _said(one) for one in status.get("conditions") or ()}
        for number, component in enumerate(status.get("componentStatus") or ()):
            place = f"components.{number}"
            lines[place] = f"{component['apiVersion']} {component['kind']} {_plain(component['name'])}"
            lines[f"{place}.podSets"] = ", ".join(
                f"{one['path']} {one.get('replicas', 1)}" for one in component.get("podSets") or ()
            )
            lines |= {f"{place}.{one['type']}": _said(one) for one in component.get("conditions") or ()}
        lines |= self._told_of_pods()
        lines |= dict.fromkeys(await self._events(), "")
        lines |= await self._told_of_workload()
        return {path: value for path, value in lines.items() if ready or not path.endswith(".PodsReady")}

    def _told_of_pods(self) -> dict[str, str]:
        names = sorted(_plain(pod["metadata"]["name"]) for pod in self._seen.values())
        lines = {"pods": ", ".join(f"{name} {names.count(name)}" for name in dict.fromkeys(names))}
        for pod in self._seen.values():
            name, metadata, spec = _plain(pod["metadata"]["name"]), pod["metadata"], pod["spec"]
            for field in ("labels", "annotations"):
                marks = {key: value for key, value in (metadata.get(field) or {}).items() if not key.startswith(_OWN)}
                lines[f"pods.{name}.{field}"] = ", ".join(f"{key}={value}" for key, value in sorted(marks.items()))
            owners = metadata.get("ownerReferences") or ()
            lines[f"pods.{name}.owners"] = ", ".join(f"{one['kind']} {one.get('controller')}" for one in owners)
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

    async def _told_of_workload(self) -> dict[str, str]:
        """But for templates, of which Kueue's own code says what they are (`tests/peers`)."""
        workloads = [
            one
            for one in await self._queue.workloads()
            if any(owner["name"] == self._name for owner in one["metadata"].get("ownerReferences") or ())
        ]
        lines = {"workloads": str(len(workloads))}
        for workload in workloads:
            spec, status = workload["spec"], workload.get("status") or {}
            lines["workload.podSets"] = ", ".join(
                f"{one['name'].removeprefix(self._name)} {one['count']}" for one in spec["podSets"]
            )
            lines["workload.active"] = str(spec.get("active", True))
            lines["workload.time"] = str(spec.get("maximumExecutionTimeSeconds"))
            lines |= {f"workload.{one['type']}": _said(one) for one in status.get("conditions") or ()}
        return lines


@contextlib.asynccontextmanager
async def traced(queue: Queue, name: str) -> AsyncIterator[Trace]:
    watched = Watched(queue.client)
    wrappers, pods = watched.store(APP_WRAPPERS), watched.store(PODS)
    trace = Trace(queue, name, wrappers, pods)
    async with running(watched.run()):
        await eventually(lambda: wrappers.synced and pods.synced)
        yield trace


def differences(one: dict[str, str], other: dict[str, str]) -> dict[str, tuple[str | None, str | None]]:
    """What is not the same of two traces, by path."""
    return {
        path: (one.get(path), other.get(path))
        for path in sorted(one.keys() | other.keys())
        if one.get(path) != other.get(path)
    }


def _said(condition: JSON) -> str:
    return f"{condition['status']} {condition['reason']}"


def _plain(name: str) -> str:
    return _SUFFIX.sub("", name)
