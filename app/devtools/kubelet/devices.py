"""Devices of plugins for the containers of Pods, as kubelet's device manager gives them."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterator, Mapping

import grpc.aio

from app.devtools.kubelet.cpus import NotAdmitted
from app.devtools.kubelet.plugins import Plugin
from app.kinds.requests import amounts_of
from app.rmd.proto import plugin_pb
from app.wire import JSON

Given = dict[str, dict[str, tuple[str, ...]]]
"""The ids of devices by container and resource."""


class Devices:
    """`given` by the UID of the Pod. `plugins` are those that are registered, by resource."""

    def __init__(self, plugins: Mapping[str, Plugin]) -> None:
        self._plugins = plugins
        self._turn = asyncio.Lock()
        self.given: dict[str, Given] = {}

    async def admit(self, pod: JSON, numa: Mapping[str, Collection[int]]) -> None:
        """Give devices to all containers, or raise NotAdmitted and give none.

        `numa` are the NUMA nodes of a container's CPUs: their devices come first.
        """
        uid = pod["metadata"]["uid"]
        async with self._turn:
            if uid in self.given:
                return
            found: Given = {}
            try:
                for container, resource, count in _asked(pod):
                    plugin = self._plugin(resource)
                    chosen = await self._choose(plugin, count, numa.get(container, ()), found)
                    await _allocate(plugin, chosen)
                    found.setdefault(container, {})[resource] = chosen
            except grpc.aio.AioRpcError as error:
                text = f"rpc error: code = {error.code().name} desc = {error.details()}"
                raise NotAdmitted(f"Allocate failed due to {text}, which is unexpected") from error
            if found:
                self.given[uid] = found

    def remove(self, uid: str) -> None:
        self.given.pop(uid, None)

    def of(self, uid: str, container: str) -> Mapping[str, tuple[str, ...]]:
        return self.given.get(uid, {}).get(container, {})

    def _plugin(self, resource: str) -> Plugin:
        plugin = self._plugins.get(resource)
        if plugin is None:
            raise NotAdmitted(
                f"Allocate failed due to cannot allocate unregistered device {resource}, which is unexpected"
            )
        if not plugin.healthy:
            text = f"no healthy devices present; cannot allocate unhealthy devices {resource}"
            raise NotAdmitted(f"Allocate failed due to {text}, which is unexpected")
        return plugin

    async def _choose(self, plugin: Plugin, count: int, numa: Collection[int], found: Given) -> tuple[str, ...]:
        taken = {
            name
            for given in (*self.given.values(), found)
            for devices in given.values()
            for name in devices.get(plugin.resource, ())
        }
        free = {name: device for name, device in plugin.healthy.items() if name not in taken}
        if len(free) < count:
            text = f"requested number of devices unavailable for {plugin.resource}."
            raise NotAdmitted(
                f"Allocate failed due to {text} Requested: {count}, Available: {len(free)}, which is unexpected"
            )
        if plugin.options.get_preferred_allocation_available:
            wish = plugin_pb.ContainerPreferredAllocationRequest(
                available_deviceIDs=sorted(free), allocation_size=count
            )
            request = plugin_pb.PreferredAllocationRequest(container_requests=[wish])
            answer = await plugin.stub.GetPreferredAllocation(request)
            preferred = [one for one in answer.container_responses[0].deviceIDs if one in free]
        else:
            preferred = []
        near = sorted(free, key=lambda name: (not _is_near(free[name], numa), name))
        return tuple(dict.fromkeys((*preferred, *near)))[:count]


async def _allocate(plugin: Plugin, chosen: tuple[str, ...]) -> None:
    request = plugin_pb.AllocateRequest(container_requests=[plugin_pb.ContainerAllocateRequest(devices_ids=chosen)])
    answer = await plugin.stub.Allocate(request)
    if not answer.container_responses:
        raise NotAdmitted("Allocate failed due to no containers return in allocation response, which is unexpected")


def _is_near(device: plugin_pb.Device, numa: Collection[int]) -> bool:
    return any(node.ID in numa for node in device.topology.nodes)


def _asked(pod: JSON) -> Iterator[tuple[str, str, int]]:
    """Container, extended resource and how many of it; huge pages and the like come from no plugin."""
    spec: JSON = pod["spec"]
    for container in (*(spec.get("initContainers") or ()), *(spec.get("containers") or ())):
        limits = (container.get("resources") or {}).get("limits") or {}
        for resource, amount in sorted(amounts_of(limits).items()):
            if "/" in resource and amount > 0:
                yield container["name"], resource, int(amount)
