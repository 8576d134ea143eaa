"""The sandboxes of Pods, on paper: the address of each, and what else gives it networks before its containers start."""

from __future__ import annotations

import asyncio
from typing import Protocol

from app.kube.client import KubeClient
from app.kube.events import EventRecorder, Regarding
from app.kube.resources import PODS
from app.kube.store import Key, Store
from app.wire import JSON

AGAIN = 0.5
"""Seconds until a sandbox is tried again."""
_BLOCK = 250
"""Addresses used of the last octet."""


class NotAttached(Exception):
    """A Pod cannot have its networks now. Its sandbox is tried again; the text is for the Event that says so."""


class Networks(Protocol):
    """What gives Pods their networks beside an address, as a container runtime asks a network plugin for it."""

    async def run(self) -> None:
        """Runs until cancelled, beside the sandboxes."""
        ...

    async def attach(self, pod: JSON, address: str) -> None:
        """Returns when the Pod has its networks, at once where it has them. Raises NotAttached."""
        ...

    def detach(self, uid: str) -> None:
        """The Pod has ended or is gone. An unknown uid is no error."""
        ...


class Sandboxes:
    """Those of the Pods in a cache. `run` writes what became of them, as kubelet does."""

    def __init__(self, client: KubeClient, pods: Store[JSON], networks: Networks | None) -> None:
        self._pods, self._networks = pods, networks
        self._given: dict[str, str] = {}
        self._next = 0
        self._events = EventRecorder(lambda: client, role="sandbox", instance="kubelet", component="kubelet")

    async def run(self) -> None:
        """Runs until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._events.run())
            if self._networks is not None:
                group.create_task(self._networks.run())

    async def address(self, pod: JSON, host: str) -> str:
        """Where a Pod is reached, which has all its networks then; "" where it cannot have them now."""
        if pod["spec"].get("hostNetwork"):
            return host
        address = self._address(pod)
        if self._networks is not None:
            try:
                await self._networks.attach(pod, address)
            except NotAttached as error:
                self._record(pod, f"Failed to create pod sandbox: {error}")
                return ""
        return address

    def end(self, pod: JSON) -> None:
        """The Pod has ended or is gone."""
        uid = pod["metadata"]["uid"]
        self._given.pop(uid, None)
        if self._networks is not None:
            self._networks.detach(uid)

    def _address(self, pod: JSON) -> str:
        """What the Pod has, or the next one in 10.244.0.0/16 that no Pod has."""
        uid = pod["metadata"]["uid"]
        has = (pod.get("status") or {}).get("podIP") or self._given.get(uid)
        if has:
            return str(has)
        taken = {(other.get("status") or {}).get("podIP") for other in self._pods.values()} | set(self._given.values())
        for _ in range(256 * _BLOCK):
            self._next = (self._next + 1) % (256 * _BLOCK)
            address = f"10.244.{self._next // _BLOCK}.{self._next % _BLOCK + 2}"
            if address not in taken:
                break
        self._given[uid] = address
        return address

    def _record(self, pod: JSON, message: str) -> None:
        metadata = pod["metadata"]
        key: Key = metadata["namespace"], metadata["name"]
        regarding = Regarding.of(PODS, key, metadata["uid"])
        self._events.record(regarding, "Warning", reason="FailedCreatePodSandBox", message=message)
