"""The service PodResourcesLister: what Pods were given."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import grpc
import grpc.aio

from app.devtools.kubelet.cpus import CpuManager
from app.devtools.kubelet.devices import Devices
from app.devtools.kubelet.plugins import Plugin
from app.rmd.proto import resources_grpc, resources_pb
from app.wire import JSON


@dataclass(slots=True)
class Faults:
    """What some version of kubelet does, or a broken one. Each may be switched at any time.

    `shared`: containers without CPUs of their own are listed with those that they share, as by 1.20. `unready`: List is
    refused. `silent`: List does not answer. `blank`: Pods are listed without CPUs, as by the policy `none`.
    """

    shared: bool = False
    unready: bool = False
    silent: bool = False
    blank: bool = False


class Listing(resources_grpc.PodResourcesListerServicer):
    """`asked` counts the calls of List."""

    def __init__(
        self,
        cpus: CpuManager,
        devices: Devices,
        plugins: Mapping[str, Plugin],
        pods: Mapping[str, JSON],
        faults: Faults,
    ) -> None:
        self._cpus, self._devices, self._plugins = cpus, devices, plugins
        self._pods, self._faults = pods, faults
        self.asked = 0

    async def List(  # noqa: N802 - the name of the method
        self, _request: resources_pb.ListPodResourcesRequest, context: grpc.aio.ServicerContext[Any, Any]
    ) -> resources_pb.ListPodResourcesResponse:
        self.asked += 1
        if self._faults.unready:
            await context.abort(grpc.StatusCode.UNAVAILABLE, "the server is not ready")
        if self._faults.silent:
            await asyncio.Event().wait()
        return resources_pb.ListPodResourcesResponse(pod_resources=[self._pod(one) for one in self._pods.values()])

    async def Get(  # noqa: N802
        self, request: resources_pb.GetPodResourcesRequest, context: grpc.aio.ServicerContext[Any, Any]
    ) -> resources_pb.GetPodResourcesResponse:
        for pod in self._pods.values():
            metadata = pod["metadata"]
            if (metadata["name"], metadata["namespace"]) == (request.pod_name, request.pod_namespace):
                return resources_pb.GetPodResourcesResponse(pod_resources=self._pod(pod))
        text = f"pod {request.pod_name} in namespace {request.pod_namespace} not found"
        await context.abort(grpc.StatusCode.UNKNOWN, text)
        raise AssertionError(text)

    async def GetAllocatableResources(  # noqa: N802
        self, _request: resources_pb.AllocatableResourcesRequest, _context: grpc.aio.ServicerContext[Any, Any]
    ) -> resources_pb.AllocatableResourcesResponse:
        devices = (one for plugin in self._plugins.values() for one in self._shown(plugin, plugin.healthy))
        cpus = sorted(self._cpus.machine.allocatable)
        return resources_pb.AllocatableResourcesResponse(devices=devices, cpu_ids=cpus)

    def _pod(self, pod: JSON) -> resources_pb.PodResources:
        """Init containers that end are not listed."""
        spec, metadata = pod["spec"], pod["metadata"]
        stays = [one for one in spec.get("initContainers") or () if one.get("restartPolicy") == "Always"]
        names = [one["name"] for one in (*stays, *spec["containers"])]
        containers = [self._container(metadata["uid"], name) for name in names]
        return resources_pb.PodResources(name=metadata["name"], namespace=metadata["namespace"], containers=containers)

    def _container(self, uid: str, name: str) -> resources_pb.ContainerResources:
        cpus = self._cpus.given.get(uid, {}).get(name, frozenset())
        if not cpus and self._faults.shared:
            cpus = self._cpus.shared
        found = self._devices.of(uid, name).items()
        devices = [one for resource, ids in found for one in self._shown(self._plugins.get(resource), ids, resource)]
        listed = () if self._faults.blank else sorted(cpus)
        return resources_pb.ContainerResources(name=name, cpu_ids=listed, devices=devices)

    @staticmethod
    def _shown(
        plugin: Plugin | None, ids: Iterable[str], resource: str = ""
    ) -> Iterable[resources_pb.ContainerDevices]:
        """One entry for each device, with its NUMA nodes where they are known."""
        for name in sorted(ids):
            device = plugin.devices.get(name) if plugin is not None else None
            nodes = [resources_pb.NUMANode(ID=node.ID) for node in device.topology.nodes] if device is not None else []
            yield resources_pb.ContainerDevices(
                resource_name=plugin.resource if plugin is not None else resource,
                device_ids=[name],
                topology=resources_pb.TopologyInfo(nodes=nodes) if nodes else None,
            )
