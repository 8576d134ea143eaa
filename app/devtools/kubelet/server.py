"""A stand-in for kubelet's resource managers, with its two gRPC services on unix sockets. It runs no container.

It has the CPU manager with the policy `static`, the device manager and PodResources. CPUs of one NUMA node are
preferred, and devices near them. It has no Topology Manager, lists no memory, and does not call PreStartContainer.

Sources: KEP-606 (PodResources), https://kubernetes.io/docs/concepts/extend-kubernetes/compute-storage-net/device-plugins/
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Self

import grpc
import grpc.aio

from app.devtools.kubelet.cpus import CpuManager, Machine
from app.devtools.kubelet.devices import Devices
from app.devtools.kubelet.faults import Faults, Garbling
from app.devtools.kubelet.listing import Listing
from app.devtools.kubelet.plugins import Registration
from app.devtools.sandbox.standins.allocations import Prepared
from app.rmd.proto import plugin_grpc, resources_grpc
from app.wire import JSON

SOCKET = "kubelet.sock"
RESOURCES_FOLDER, PLUGINS_FOLDER = "pod-resources", "device-plugins"
_LONGEST_PATH = 107
"""Bytes of the path of a unix socket on Linux."""


class Kubelet:
    """Serves `folder`/pod-resources/kubelet.sock and `folder`/device-plugins/kubelet.sock while it is entered.

    `changed` is called when `resources` may differ. Raises ValueError where the path of a socket is too long.
    """

    def __init__(
        self,
        folder: Path,
        machine: Machine,
        *,
        faults: Faults | None = None,
        changed: Callable[[], object] = lambda: None,
    ) -> None:
        self._resources, self._plugins = folder / RESOURCES_FOLDER, folder / PLUGINS_FOLDER
        for path in (self._resources / SOCKET, self._plugins / SOCKET):
            if len(bytes(path)) > _LONGEST_PATH:
                raise ValueError(f"{path}: want at most {_LONGEST_PATH} bytes for a unix socket: choose another folder")
        self.cpus = CpuManager(machine)
        self.faults = faults or Faults()
        self._registration = Registration(self._plugins, changed)
        self.devices = Devices(self._registration)
        self._pods: dict[str, JSON] = {}
        self._claims: dict[str, Mapping[str, Prepared]] = {}
        self._ended: set[str] = set()
        self._turn = asyncio.Lock()
        self._servers: tuple[grpc.aio.Server, ...] = ()

    @property
    def resources(self) -> Mapping[str, tuple[int, int]]:
        """Capacity and allocatable of what plugins have listed, as the status of the Node shows it.

        When a plugin ends, allocatable is 0 at once, and capacity after 5 minutes. Both are 0 after a restart.
        """
        return {name: one.counts for name, one in self._registration.resources.items()}

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *_exc_info: object) -> None:
        await self.stop()

    async def admit(self, pod: JSON, claims: Mapping[str, Prepared] = MappingProxyType({})) -> None:
        """Give a Pod that is bound to this node its CPUs and devices. Raises NotAdmitted and keeps nothing of it.

        `claims` are its ResourceClaims by their entries in the Pod: PodResources lists them. A Pod that is admitted
        already keeps what it has. One that is removed meanwhile gets nothing.
        """
        uid = pod["metadata"]["uid"]
        async with self._turn:
            for one in self._ended:
                self.cpus.remove(one)
            self._pods[uid], self._claims[uid] = pod, claims
            try:
                self.cpus.admit(pod)
                await self.devices.admit(pod, lambda container: self._numa(uid, container))
            except BaseException:
                self.remove(uid)
                raise

    def remove(self, uid: str) -> None:
        """The Pod has ended or is gone: what it had is free. An unknown uid is no error."""
        self.devices.remove(uid)
        if self.faults.ended and uid in self._pods.keys() - self._ended:
            self._ended.add(uid)
        else:
            self.cpus.remove(uid)
            self._ended.discard(uid)
            self._pods.pop(uid, None)
            self._claims.pop(uid, None)

    def health(self, uid: str, container: str) -> list[JSON]:
        """The devices of a container, as the status of its Pod shows them."""
        return self.devices.health(uid, container)

    async def start(self) -> None:
        """Sockets that plugins have left in their folder are removed, as kubelet does: it has them register again."""
        for folder in (self._resources, self._plugins):
            folder.mkdir(parents=True, exist_ok=True)
            for path in folder.iterdir():
                if path.is_socket():
                    path.unlink()
        listing = Listing(self.cpus, self.devices, self._registration.resources, self._pods, self._claims, self.faults)
        resources = grpc.aio.server(interceptors=[Garbling(self.faults)])
        registration = grpc.aio.server()
        resources_grpc.add_PodResourcesListerServicer_to_server(listing, resources)
        plugin_grpc.add_RegistrationServicer_to_server(self._registration, registration)
        resources.add_insecure_port(f"unix:{self._resources / SOCKET}")
        registration.add_insecure_port(f"unix:{self._plugins / SOCKET}")
        self._registration.open()
        self._servers = (resources, registration)
        await asyncio.gather(*(one.start() for one in self._servers))

    async def stop(self) -> None:
        """The sockets are gone, as those of a kubelet that is stopped. What was given stays."""
        servers, self._servers = self._servers, ()
        await asyncio.gather(*(one.stop(None) for one in servers))
        await self._registration.close()
        for folder in (self._resources, self._plugins):
            (folder / SOCKET).unlink(missing_ok=True)

    async def restart(self) -> None:
        await self.stop()
        await self.start()

    def _numa(self, uid: str, container: str) -> list[int]:
        given = self.cpus.given.get(uid, {}).get(container, frozenset())
        return [node for node, cpus in self.cpus.machine.numa.items() if given.intersection(cpus)]
