"""PodResources of the stand-in for kubelet, and its faults."""

from __future__ import annotations

from pathlib import Path

import grpc
import grpc.aio
import pytest
from google.protobuf.message import DecodeError

from app.devtools.kubelet.server import Kubelet
from app.rmd.proto import resources_pb
from tests.support.kubelet import MACHINE, Things, a_pod, asking, container, listed, lister, register, serving
from tests.support.waiting import eventually

pytestmark = pytest.mark.asyncio
LIST = resources_pb.ListPodResourcesRequest()


async def test_pod_resources_of_one_pod_and_of_the_node(sockets: Path) -> None:
    plugin = Things(("a", "Healthy", 1), ("b", "Unhealthy", 0), ("c", "Healthy", None))
    async with Kubelet(sockets, MACHINE) as kubelet, serving(plugin, sockets), lister(sockets) as stub:
        await register(sockets)
        await eventually(lambda: kubelet.resources)
        await kubelet.admit(asking())
        found = await stub.Get(resources_pb.GetPodResourcesRequest(pod_name="p", pod_namespace="ns"))
        assert list(found.pod_resources.containers[0].cpu_ids) == [1, 2]
        with pytest.raises(grpc.aio.AioRpcError, match="pod q in namespace ns not found") as refused:
            await stub.Get(resources_pb.GetPodResourcesRequest(pod_name="q", pod_namespace="ns"))
        assert refused.value.code() == grpc.StatusCode.UNKNOWN
        whole = await stub.GetAllocatableResources(resources_pb.AllocatableResourcesRequest())
        assert list(whole.cpu_ids) == [cpu for cpu in range(16) if cpu not in (0, 8)]
        devices = {one.device_ids[0]: [node.ID for node in one.topology.nodes] for one in whole.devices}
        assert devices == {"a": [1], "c": []}


async def test_init_containers_that_end_are_not_listed(sockets: Path) -> None:
    init = (container("first"), container("sidecar", restartPolicy="Always"))
    async with Kubelet(sockets, MACHINE) as kubelet:
        await kubelet.admit(a_pod("p", container("c", cpu="1"), init=init))
        found = {name: cpus for (_, _, name), (cpus, _) in (await listed(sockets)).items()}
        assert found == {"sidecar": (1, 2), "c": (3,)}


async def test_a_pod_is_admitted_once(sockets: Path) -> None:
    async with Kubelet(sockets, MACHINE) as kubelet:
        for _ in range(9):
            await kubelet.admit(asking())
        assert await listed(sockets) == {("ns", "p", "c"): ((1, 2), ())}
        kubelet.remove("uid-p")
        kubelet.remove("uid-p")
        assert await listed(sockets) == {}


async def test_cpus_that_are_shared_or_not_listed(sockets: Path) -> None:
    async with Kubelet(sockets, MACHINE) as kubelet:
        await kubelet.admit(asking("p", cpu="500m"))
        await kubelet.admit(asking("q"))
        kubelet.faults.shared = True
        found = await listed(sockets)
        assert found["ns", "p", "c"][0] == (0, *range(3, 16))
        assert found["ns", "q", "c"][0] == (1, 2)
        kubelet.faults.blank = True
        assert {cpus for cpus, _ in (await listed(sockets)).values()} == {()}


async def test_pods_that_have_ended_are_listed(sockets: Path) -> None:
    async with Kubelet(sockets, MACHINE) as kubelet:
        kubelet.faults.ended = True
        await kubelet.admit(asking())
        kubelet.remove("uid-p")
        assert await listed(sockets) == {("ns", "p", "c"): ((1, 2), ())}
        await kubelet.admit(asking("q"))
        assert await listed(sockets) == {("ns", "p", "c"): ((), ()), ("ns", "q", "c"): ((1, 2), ())}
        kubelet.remove("uid-p")
        assert list(await listed(sockets)) == [("ns", "q", "c")]
        await kubelet.admit(asking("p", cpu="1"))
        await kubelet.admit(asking("r"))
        assert (await listed(sockets))["ns", "p", "c"] == ((3,), ())
        kubelet.faults.ended = False
        kubelet.remove("uid-p")
        kubelet.remove("uid-r")
        kubelet.remove("uid-q")
        assert (await listed(sockets), kubelet.cpus.given) == ({}, {})


async def test_a_list_that_is_refused_garbled_or_not_answered(sockets: Path) -> None:
    async with Kubelet(sockets, MACHINE) as kubelet, lister(sockets) as stub:
        await kubelet.admit(asking())
        kubelet.faults.unready = True
        with pytest.raises(grpc.aio.AioRpcError, match="not ready") as refused:
            await stub.List(LIST)
        assert refused.value.code() == grpc.StatusCode.UNAVAILABLE
        kubelet.faults.unready, kubelet.faults.garbled = False, True
        async with grpc.aio.insecure_channel(f"unix:{sockets}/pod-resources/kubelet.sock") as channel:
            raw = await channel.unary_unary("/v1.PodResourcesLister/List")(b"")
        with pytest.raises(DecodeError):
            resources_pb.ListPodResourcesResponse.FromString(raw)
        found = await stub.Get(resources_pb.GetPodResourcesRequest(pod_name="p", pod_namespace="ns"))
        assert found.pod_resources.name == "p"
        kubelet.faults.garbled, kubelet.faults.silent = False, True
        with pytest.raises(grpc.aio.AioRpcError) as silent:
            await stub.List(LIST, timeout=0.3)
        assert silent.value.code() == grpc.StatusCode.DEADLINE_EXCEEDED
        kubelet.faults.silent = False
        assert len((await stub.List(LIST)).pod_resources) == 1


async def test_a_path_that_is_too_long_says_so(sockets: Path) -> None:
    with pytest.raises(ValueError, match="want at most 107 bytes"):
        Kubelet(sockets / ("x" * 100), MACHINE)
