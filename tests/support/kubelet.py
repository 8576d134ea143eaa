"""A device plugin for the stand-in of kubelet, and Pods that ask for devices and CPUs."""

from __future__ import annotations

import asyncio
import contextlib
import tempfile
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import grpc
import grpc.aio
import pytest

from app.devtools.kubelet.connecting import ON_ITS_OWN
from app.devtools.kubelet.cpus import Machine
from app.rmd.proto import plugin_grpc, plugin_pb, resources_grpc, resources_pb

MACHINE = Machine({0: range(8), 1: range(8, 16)}, reserved=frozenset({0, 8}))
RESOURCE = "example.com/things"


@pytest.fixture
def sockets() -> Iterator[Path]:
    """A folder with a short path, as unix sockets need it."""
    with tempfile.TemporaryDirectory(prefix="kubelet-") as name:
        yield Path(name)


class Things(plugin_grpc.DevicePluginServicer):
    """`devices` are (id, health, NUMA node or None); after a change call `tell`.

    `preferred` is what it answers where kubelet asks: () is an answer without containers, and None keeps kubelet from
    asking. With `hold` set to an event, Allocate waits for it. A `broken` one answers as no plugin should.
    """

    def __init__(self, *devices: tuple[str, str, int | None], preferred: tuple[str, ...] | None = None) -> None:
        self.devices, self.preferred = list(devices), preferred
        self.allocated: list[list[str]] = []
        self.asked: list[tuple[list[str], list[str], int]] = []
        self.refuse, self.broken = "", False
        self.listeners = 0
        self.hold: asyncio.Event | None = None
        self.held = asyncio.Event()
        self._changed = asyncio.Event()

    def tell(self) -> None:
        self._changed.set()

    async def GetDevicePluginOptions(self, _request: Any, context: Any) -> plugin_pb.DevicePluginOptions:  # noqa: N802
        if self.broken:
            await context.abort(grpc.StatusCode.INTERNAL, "no options")
        return plugin_pb.DevicePluginOptions(get_preferred_allocation_available=self.preferred is not None)

    async def ListAndWatch(self, _request: Any, _context: Any) -> AsyncIterator[plugin_pb.ListAndWatchResponse]:  # noqa: N802
        self.listeners += 1
        try:
            while True:
                self._changed.clear()
                yield plugin_pb.ListAndWatchResponse(devices=[_device(*one) for one in self.devices])
                await self._changed.wait()
        finally:
            self.listeners -= 1

    async def GetPreferredAllocation(self, request: Any, context: Any) -> plugin_pb.PreferredAllocationResponse:  # noqa: N802
        if self.refuse:
            await context.abort(grpc.StatusCode.INVALID_ARGUMENT, self.refuse)
        (one,) = request.container_requests
        self.asked.append((sorted(one.available_deviceIDs), sorted(one.must_include_deviceIDs), one.allocation_size))
        answer = plugin_pb.ContainerPreferredAllocationResponse(deviceIDs=self.preferred)
        return plugin_pb.PreferredAllocationResponse(container_responses=[answer] if self.preferred else [])

    async def Allocate(self, request: Any, context: Any) -> plugin_pb.AllocateResponse:  # noqa: N802
        if self.refuse:
            await context.abort(grpc.StatusCode.INVALID_ARGUMENT, self.refuse)
        if self.hold is not None:
            self.held.set()
            await self.hold.wait()
        self.allocated += [list(one.devices_ids) for one in request.container_requests]
        one = plugin_pb.ContainerAllocateResponse()
        return plugin_pb.AllocateResponse(container_responses=[] if self.broken else [one])


def _device(name: str, health: str, node: int | None) -> plugin_pb.Device:
    topology = None if node is None else plugin_pb.TopologyInfo(nodes=[plugin_pb.NUMANode(ID=node)])
    return plugin_pb.Device(ID=name, health=health, topology=topology)


@contextlib.asynccontextmanager
async def serving(plugin: Things, folder: Path, name: str = "things.sock") -> AsyncIterator[None]:
    server = grpc.aio.server()
    plugin_grpc.add_DevicePluginServicer_to_server(plugin, server)
    server.add_insecure_port(f"unix:{folder / 'device-plugins' / name}")
    await server.start()
    try:
        yield
    finally:
        await server.stop(None)


async def register(folder: Path, **fields: str) -> None:
    said = {"version": "v1beta1", "endpoint": "things.sock", "resource_name": RESOURCE} | fields
    path = f"unix:{folder / 'device-plugins' / 'kubelet.sock'}"
    async with grpc.aio.insecure_channel(path, options=ON_ITS_OWN) as channel:
        await plugin_grpc.RegistrationStub(channel).Register(plugin_pb.RegisterRequest(**said))


@contextlib.asynccontextmanager
async def lister(folder: Path) -> AsyncIterator[resources_grpc.PodResourcesListerStub]:
    path = f"unix:{folder / 'pod-resources' / 'kubelet.sock'}"
    async with grpc.aio.insecure_channel(path, options=ON_ITS_OWN) as channel:
        yield resources_grpc.PodResourcesListerStub(channel)


async def listed(folder: Path) -> dict[tuple[str, str, str], tuple[tuple[int, ...], tuple[str, ...]]]:
    """CPUs and devices by namespace, Pod and container, as kubelet's clients get them."""
    async with lister(folder) as stub:
        answer = await stub.List(resources_pb.ListPodResourcesRequest())
    return {
        (pod.namespace, pod.name, one.name): (
            tuple(one.cpu_ids),
            tuple(device for found in one.devices for device in found.device_ids),
        )
        for pod in answer.pod_resources
        for one in pod.containers
    }


def container(
    name: str = "c", *, cpu: str = "2", count: int = 0, resource: str = RESOURCE, **more: Any
) -> dict[str, Any]:
    """A container that asks for CPUs, and for so many of a resource."""
    found = {"cpu": cpu, "memory": "64Mi"} | ({resource: str(count)} if count else {})
    return {"name": name, "image": "i", "resources": {"requests": found, "limits": found}, **more}


def a_pod(name: str, *containers: dict[str, Any], init: tuple[dict[str, Any], ...] = ()) -> dict[str, Any]:
    metadata = {"name": name, "namespace": "ns", "uid": f"uid-{name}"}
    return {"metadata": metadata, "spec": {"containers": list(containers), "initContainers": list(init)}}


def asking(name: str = "p", *, cpu: str = "2", count: int = 0, resource: str = RESOURCE) -> dict[str, Any]:
    """A Pod with one such container, `c`."""
    return a_pod(name, container(cpu=cpu, count=count, resource=resource))
