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
    """`devices` are (id, health, NUMA node); after a change call `tell`."""

    def __init__(self, *devices: tuple[str, str, int], preferred: tuple[str, ...] = ()) -> None:
        self.devices, self.preferred = list(devices), preferred
        self.allocated: list[list[str]] = []
        self.refuse = ""
        self._changed = asyncio.Event()

    def tell(self) -> None:
        self._changed.set()

    async def GetDevicePluginOptions(self, _request: Any, _context: Any) -> plugin_pb.DevicePluginOptions:  # noqa: N802
        return plugin_pb.DevicePluginOptions(get_preferred_allocation_available=bool(self.preferred))

    async def ListAndWatch(self, _request: Any, _context: Any) -> AsyncIterator[plugin_pb.ListAndWatchResponse]:  # noqa: N802
        while True:
            self._changed.clear()
            nodes = {number: plugin_pb.TopologyInfo(nodes=[plugin_pb.NUMANode(ID=number)]) for number in range(2)}
            found = [plugin_pb.Device(ID=one, health=health, topology=nodes[n]) for one, health, n in self.devices]
            yield plugin_pb.ListAndWatchResponse(devices=found)
            await self._changed.wait()

    async def GetPreferredAllocation(self, _request: Any, _context: Any) -> plugin_pb.PreferredAllocationResponse:  # noqa: N802
        one = plugin_pb.ContainerPreferredAllocationResponse(deviceIDs=self.preferred)
        return plugin_pb.PreferredAllocationResponse(container_responses=[one])

    async def Allocate(self, request: Any, context: Any) -> plugin_pb.AllocateResponse:  # noqa: N802
        if self.refuse:
            await context.abort(grpc.StatusCode.INVALID_ARGUMENT, self.refuse)
        self.allocated += [list(one.devices_ids) for one in request.container_requests]
        one = plugin_pb.ContainerAllocateResponse()
        return plugin_pb.AllocateResponse(container_responses=[one])


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
    async with grpc.aio.insecure_channel(f"unix:{folder / 'device-plugins' / 'kubelet.sock'}") as channel:
        await plugin_grpc.RegistrationStub(channel).Register(plugin_pb.RegisterRequest(**said))


async def listed(folder: Path) -> dict[tuple[str, str, str], tuple[tuple[int, ...], tuple[str, ...]]]:
    """CPUs and devices by namespace, Pod and container, as kubelet's clients get them."""
    async with grpc.aio.insecure_channel(f"unix:{folder / 'pod-resources' / 'kubelet.sock'}") as channel:
        answer = await resources_grpc.PodResourcesListerStub(channel).List(resources_pb.ListPodResourcesRequest())
    return {
        (pod.namespace, pod.name, one.name): (
            tuple(one.cpu_ids),
            tuple(device for found in one.devices for device in found.device_ids),
        )
        for pod in answer.pod_resources
        for one in pod.containers
    }


def asking(name: str = "p", *, cpu: str = "2", count: int = 0, resource: str = RESOURCE) -> dict[str, Any]:
    """A Pod with one container `c` that asks for CPUs, and for so many of a resource."""
    found = {"cpu": cpu, "memory": "64Mi"} | ({resource: str(count)} if count else {})
    container = {"name": "c", "image": "i", "resources": {"requests": found, "limits": found}}
    metadata = {"name": name, "namespace": "ns", "uid": f"uid-{name}"}
    return {"metadata": metadata, "spec": {"containers": [container]}}
