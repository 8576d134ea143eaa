"""The service PodResourcesLister: what Pods were given. Source: KEP-606."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from typing import Any

import grpc
import grpc.aio

from app.devtools.kubelet.containers import Container, in_order
from app.devtools.kubelet.cpus import CpuManager
from app.devtools.kubelet.devices import Devices
from app.devtools.kubelet.faults import Faults
from app.devtools.kubelet.resources import Given, Resource, numa_nodes
from app.devtools.sandbox.standins.allocations import Prepared
from app.rmd.proto import resources_grpc, resources_pb
from app.wire import JSON


class Listing(resources_grpc.PodResourcesListerServicer):
    """`pods`, `claims` and `resources` are read at each call."""

    def __init__(
        self,
        cpus: CpuManager,
        devices: Devices,
        resources: Mapping[str, Resource],
        pods: Mapping[str, JSON],
        claims: Mapping[str, Mapping[str, Prepared]],
        faults: Faults,
    ) -> None:
        self._cpus, self._devices, self._resources = cpus, devices, resources
        self._pods, self._claims, self._faults = pods, claims, faults

    async def List(  # noqa: N802 - the name of the method
        self, _request: resources_pb.ListPodResourcesRequest, context: grpc.aio.ServicerContext[Any, Any]
    ) -> resources_pb.ListPodResourcesResponse:
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
        devices = (
            one
            for name, resource in self._resources.items()
            for one in _shown(name, {device: numa_nodes(resource.devices[device]) for device in resource.healthy})
        )
        cpus = sorted(self._cpus.machine.allocatable)
        return resources_pb.AllocatableResourcesResponse(devices=devices, cpu_ids=cpus)

    def _pod(self, pod: JSON) -> resources_pb.PodResources:
        metadata = pod["metadata"]
        containers = [self._container(metadata, one) for one in in_order(pod) if not one.ends]
        return resources_pb.PodResources(name=metadata["name"], namespace=metadata["namespace"], containers=containers)

    def _container(self, metadata: JSON, container: Container) -> resources_pb.ContainerResources:
        uid, name = metadata["uid"], container.name
        cpus = self._cpus.given.get(uid, {}).get(name, frozenset())
        if not cpus and self._faults.shared:
            cpus = self._cpus.shared
        devices = [one for resource, given in self._devices.of(uid, name).items() for one in _shown(resource, given)]
        listed = [] if self._faults.blank else sorted(cpus)
        if self._faults.impossible == name:
            listed.append(2**40)
        claims = _dynamic(metadata["namespace"], container.spec, self._claims.get(uid, {}))
        return resources_pb.ContainerResources(name=name, cpu_ids=listed, devices=devices, dynamic_resources=claims)


def _dynamic(namespace: str, container: JSON, claims: Mapping[str, Prepared]) -> Iterable[resources_pb.DynamicResource]:
    """One entry for each claim of a container."""
    for used in (container.get("resources") or {}).get("claims") or ():
        if prepared := claims.get(used["name"]):
            devices = [
                resources_pb.ClaimResource(
                    driver_name=device["driver"], pool_name=device["pool"], device_name=device["device"]
                )
                for device in prepared.devices
            ]
            yield resources_pb.DynamicResource(
                claim_name=prepared.name, claim_namespace=namespace, claim_resources=devices
            )


def _shown(resource: str, given: Given) -> Iterable[resources_pb.ContainerDevices]:
    """One entry for each device, with its NUMA nodes where they are known."""
    for name, numa in sorted(given.items()):
        nodes = [resources_pb.NUMANode(ID=node) for node in sorted(numa)]
        topology = resources_pb.TopologyInfo(nodes=nodes) if nodes else None
        yield resources_pb.ContainerDevices(resource_name=resource, device_ids=[name], topology=topology)
