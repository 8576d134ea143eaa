"""A stand-in for kubelet's resource managers, with its two gRPC services on unix sockets. It runs no container.

Sources: KEP-606 (PodResources), https://kubernetes.io/docs/concepts/extend-kubernetes/compute-storage-net/device-plugins/
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Self

import grpc
import grpc.aio

from app.devtools.kubelet.cpus import CpuManager, Machine
from app.devtools.kubelet.devices import Devices
from app.devtools.kubelet.listing import Faults, Listing
from app.devtools.kubelet.plugins import Registration
from app.rmd.proto import plugin_grpc, resources_grpc
from app.wire import JSON

SOCKET = "kubelet.sock"
RESOURCES_FOLDER, PLUGINS_FOLDER = "pod-resources", "device-plugins"
_LONGEST_PATH = 107
"""Bytes of the path of a unix socket on Linux."""


@dataclass(slots=True)
class _Servers:
    """What runs between a start and a stop."""

    resources: grpc.aio.Server
    registration: grpc.aio.Server
    plugins: Registration


class Kubelet:
    """Serves `folder`/pod-resources/kubelet.sock and `folder`/device-plugins/kubelet.sock while it is entered.

    `changed` is called when `resources` may differ. What Pods were given survives a `restart`; plugins have to register
    again, and find their sockets gone.
    """

    def __init__(
        self,
        folder: Path,
        machine: Machine,
        *,
        faults: Faults | None = None,
        changed: Callable[[], object] = lambda: None,
    ) -> None:
        self.cpus = CpuManager(machine)
        self.faults = faults or Faults()
        self._changed = changed
        self._resources, self._plugins = folder / RESOURCES_FOLDER, folder / PLUGINS_FOLDER
        for path in (self._resources / SOCKET, self._plugins / SOCKET):
            if len(bytes(path)) > _LONGEST_PATH:
                raise ValueError(f"{path}: want at most {_LONGEST_PATH} bytes for a unix socket: choose another folder")
        self._running: _Servers | None = None
        self._registered: Registration = Registration(self._plugins, changed)
        self.devices = Devices(self._registered.plugins)
        self._pods: dict[str, JSON] = {}

    @property
    def resources(self) -> Mapping[str, tuple[int, int]]:
        """Capacity and allocatable of what plugins have announced; those of an ended plugin cannot be allocated."""
        return {name: (len(one.devices), len(one.healthy)) for name, one in self._registered.plugins.items()}

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *_exc_info: object) -> None:
        await self.stop()

    async def admit(self, pod: JSON) -> None:
        """Give a Pod that is bound to this node its CPUs and devices. Raises NotAdmitted and keeps nothing of it."""
        uid = pod["metadata"]["uid"]
        self.cpus.admit(pod)
        cpus = self.cpus.given.get(uid, {})
        numa = {
            container: [node for node, found in self.cpus.machine.numa.items() if given.intersection(found)]
            for container, given in cpus.items()
        }
        try:
            await self.devices.admit(pod, numa)
        except BaseException:
            self.cpus.remove(uid)
            raise
        self._pods[uid] = pod

    def remove(self, uid: str) -> None:
        """The Pod has ended or is gone: what it had is free."""
        self.cpus.remove(uid)
        self.devices.remove(uid)
        self._pods.pop(uid, None)

    async def start(self) -> None:
        for folder in (self._resources, self._plugins):
            folder.mkdir(parents=True, exist_ok=True)
        for old in self._plugins.iterdir():
            old.unlink()
        (self._resources / SOCKET).unlink(missing_ok=True)
        listing = Listing(self.cpus, self.devices, self._registered.plugins, self._pods, self.faults)
        resources, registration = grpc.aio.server(), grpc.aio.server()
        resources_grpc.add_PodResourcesListerServicer_to_server(listing, resources)
        plugin_grpc.add_RegistrationServicer_to_server(self._registered, registration)
        resources.add_insecure_port(f"unix:{self._resources / SOCKET}")
        registration.add_insecure_port(f"unix:{self._plugins / SOCKET}")
        await asyncio.gather(resources.start(), registration.start())
        self._running = _Servers(resources, registration, self._registered)

    async def stop(self) -> None:
        """The sockets are gone, as those of a kubelet that is stopped; what was given stays."""
        running, self._running = self._running, None
        if running is None:
            return
        await running.plugins.close()
        await asyncio.gather(running.resources.stop(None), running.registration.stop(None))
        for folder in (self._resources, self._plugins):
            with contextlib.suppress(FileNotFoundError):
                (folder / SOCKET).unlink()

    async def restart(self) -> None:
        await self.stop()
        await self.start()
