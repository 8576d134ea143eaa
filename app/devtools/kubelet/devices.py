"""Devices of plugins for the containers of Pods, as kubelet's device manager gives them.

Source: pkg/kubelet/cm/devicemanager of Kubernetes 1.36.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping

import grpc.aio

from app.devtools.kubelet.containers import Container, in_order
from app.devtools.kubelet.cpus import NotAdmitted
from app.devtools.kubelet.plugins import Endpoint, Registration, as_kubelet_says
from app.devtools.kubelet.resources import Resource, numa_nodes
from app.kinds.requests import amounts_of
from app.rmd.proto import plugin_pb
from app.wire import JSON

Given = dict[str, frozenset[int]]
"""Ids of devices, with their NUMA nodes as they were at the time."""


class Devices:
    """`given` by the UID of the Pod, container and resource."""

    def __init__(self, registration: Registration) -> None:
        self._registration = registration
        self.given: dict[str, dict[str, dict[str, Given]]] = {}

    async def admit(self, pod: JSON, numa: Callable[[str], Collection[int]]) -> None:
        """Give devices to all containers, or raise NotAdmitted; `remove` then takes back what some have.

        `numa` has the NUMA nodes of a container's CPUs: their devices come first. One Pod at a time.
        """
        uid = pod["metadata"]["uid"]
        if uid in self.given:
            return
        found = self.given[uid] = {}
        reusable: dict[str, Given] = {}
        for container in in_order(pod):
            for name, resource, count in self._asked(container):
                left = reusable.setdefault(name, {})
                taken = await self._allocated(name, resource, count, left, numa(container.name))
                if taken:
                    found.setdefault(container.name, {})[name] = taken
                if container.ends:
                    left |= taken
                else:
                    reusable[name] = {one: nodes for one, nodes in left.items() if one not in taken}

    def remove(self, uid: str) -> None:
        self.given.pop(uid, None)

    def of(self, uid: str, container: str) -> Mapping[str, Given]:
        return self.given.get(uid, {}).get(container, {})

    def _taken(self, name: str) -> set[str]:
        pods = self.given.values()
        return {one for pod in pods for resources in pod.values() for one in resources.get(name, ())}

    def _asked(self, container: Container) -> list[tuple[str, Resource, int]]:
        """What the limits of a container name and kubelet knows, or has given before."""
        limits = amounts_of((container.spec.get("resources") or {}).get("limits"))
        found = self._registration.resources
        return [
            (name, found[name], int(amount))
            for name, amount in sorted(limits.items())
            if name in found and (found[name].known or self._taken(name))
        ]

    async def _allocated(
        self, name: str, resource: Resource, count: int, reusable: Given, near: Collection[int]
    ) -> Given:
        if not resource.known:
            raise NotAdmitted(f"cannot allocate unregistered device {name}")
        if not resource.healthy:
            raise NotAdmitted(f"no healthy devices present; cannot allocate unhealthy devices {name}")
        if not count:
            return {}
        free = {one: numa_nodes(resource.devices[one]) for one in resource.healthy - self._taken(name)}
        missing = max(0, count - len(reusable))
        if len(free) < missing:
            text = f"requested number of devices unavailable for {name}."
            raise NotAdmitted(f"{text} Requested: {missing}, Available: {len(free)}")
        endpoint = self._registration.endpoints[name]
        chosen = await _choose(endpoint, count, sorted(reusable)[:count], free, near)
        await _allocate(endpoint, chosen)
        return {one: (reusable | free)[one] for one in chosen}


async def _choose(endpoint: Endpoint, count: int, chosen: list[str], free: Given, near: Collection[int]) -> list[str]:
    """`chosen` and so many of the free ones that there are `count`: near ones first, then what the plugin prefers."""
    close = sorted(one for one, nodes in free.items() if nodes.intersection(near))
    others = sorted((one for one in free if one not in close), key=lambda one: (not free[one], one))
    # As kubelet does: the plugin may choose among near ones where they are too many, else among the others.
    if len(chosen) + len(close) <= count:
        chosen = chosen + close
    else:
        others = close
    if len(chosen) < count and endpoint.options.get_preferred_allocation_available:
        preferred = await _preferred(endpoint, count, chosen, [*chosen, *others])
        others = [*(one for one in preferred if one in others), *others]
    return list(dict.fromkeys((*chosen, *others)))[:count]


async def _preferred(endpoint: Endpoint, count: int, chosen: list[str], available: list[str]) -> list[str]:
    request = plugin_pb.ContainerPreferredAllocationRequest(
        available_deviceIDs=available, must_include_deviceIDs=chosen, allocation_size=count
    )
    try:
        answer = await endpoint.stub.GetPreferredAllocation(
            plugin_pb.PreferredAllocationRequest(container_requests=[request])
        )
    except grpc.aio.AioRpcError as error:
        text = "device plugin GetPreferredAllocation rpc failed with err"
        raise NotAdmitted(f"{text}: {as_kubelet_says(error)}") from error
    return [one for answered in answer.container_responses[:1] for one in answered.deviceIDs]


async def _allocate(endpoint: Endpoint, chosen: list[str]) -> None:
    request = plugin_pb.ContainerAllocateRequest(devices_ids=chosen)
    try:
        answer = await endpoint.stub.Allocate(plugin_pb.AllocateRequest(container_requests=[request]))
    except grpc.aio.AioRpcError as error:
        raise NotAdmitted(as_kubelet_says(error)) from error
    if not answer.container_responses:
        raise NotAdmitted("no containers return in allocation response")
