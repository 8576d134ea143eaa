"""Which devices of a plugin a container gets, by kubelet's rules and the plugin's wishes.

Source: pkg/kubelet/cm/devicemanager of Kubernetes 1.36.
"""

from __future__ import annotations

from collections.abc import Collection

import grpc.aio

from app.devtools.kubelet.connecting import Endpoint, as_kubelet_says
from app.devtools.kubelet.cpus import NotAdmitted
from app.devtools.kubelet.resources import Given
from app.rmd.proto import plugin_pb


async def allocate(endpoint: Endpoint, count: int, chosen: list[str], free: Given, near: Collection[int]) -> list[str]:
    """`chosen` and so many of the free ones that there are `count`, once the plugin has agreed. Raises NotAdmitted.

    Those on a NUMA node of `near` come first, then those that the plugin prefers.
    """
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
    chosen = list(dict.fromkeys((*chosen, *others)))[:count]
    request = plugin_pb.ContainerAllocateRequest(devices_ids=chosen)
    try:
        answer = await endpoint.stub.Allocate(plugin_pb.AllocateRequest(container_requests=[request]))
    except grpc.aio.AioRpcError as error:
        raise NotAdmitted(as_kubelet_says(error)) from error
    if not answer.container_responses:
        raise NotAdmitted("no containers return in allocation response")
    return chosen


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
