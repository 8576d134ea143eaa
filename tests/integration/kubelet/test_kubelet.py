"""The stand-in for kubelet over its sockets: registration, devices, PodResources, restarts."""

from __future__ import annotations

from pathlib import Path

import grpc
import grpc.aio
import pytest

from app.devtools.kubelet.cpus import NotAdmitted
from app.devtools.kubelet.server import Kubelet
from app.rmd.proto import resources_grpc, resources_pb
from tests.support.kubelet import MACHINE, RESOURCE, Things, asking, listed, register, serving
from tests.support.waiting import eventually

pytestmark = pytest.mark.asyncio
THREE = (("a", "Healthy", 0), ("b", "Healthy", 1), ("c", "Unhealthy", 0))


async def test_devices_and_cpus_of_pods(sockets: Path) -> None:
    plugin, changes = Things(*THREE), []
    async with Kubelet(sockets, MACHINE, changed=lambda: changes.append(1)) as kubelet, serving(plugin, sockets):
        await register(sockets)
        await eventually(lambda: kubelet.resources == {RESOURCE: (3, 2)})
        await kubelet.admit(asking("one", count=1))
        with pytest.raises(NotAdmitted, match=r"requested number of devices unavailable .* Requested: 2, Available: 1"):
            await kubelet.admit(asking("two", count=2))
        assert await listed(sockets) == {("ns", "one", "c"): ((1, 2), ("a",))}
        assert kubelet.cpus.given.keys() == {"uid-one"}
        await kubelet.admit(asking("three", cpu="500m", count=1))
        assert (await listed(sockets))["ns", "three", "c"] == ((), ("b",))
        plugin.devices = [("a", "Healthy", 0), ("b", "Unhealthy", 1)]
        plugin.tell()
        await eventually(lambda: kubelet.resources == {RESOURCE: (2, 1)})
        kubelet.remove("uid-one")
        assert list(await listed(sockets)) == [("ns", "three", "c")]
    assert changes


async def test_what_a_plugin_prefers_is_given(sockets: Path) -> None:
    plugin = Things(*THREE, preferred=("b",))
    async with Kubelet(sockets, MACHINE) as kubelet, serving(plugin, sockets):
        await register(sockets)
        await eventually(lambda: kubelet.resources == {RESOURCE: (3, 2)})
        await kubelet.admit(asking(count=1))
        assert plugin.allocated == [["b"]]


async def test_a_refusal_of_the_plugin_is_that_of_kubelet(sockets: Path) -> None:
    plugin = Things(*THREE)
    async with Kubelet(sockets, MACHINE) as kubelet:
        with pytest.raises(NotAdmitted, match="cannot allocate unregistered device"):
            await kubelet.admit(asking(count=1))
        async with serving(plugin, sockets):
            await register(sockets)
            await eventually(lambda: kubelet.resources == {RESOURCE: (3, 2)})
            plugin.refuse = "not today"
            with pytest.raises(NotAdmitted, match="desc = not today, which is unexpected"):
                await kubelet.admit(asking(count=1))
            assert kubelet.cpus.given == {}
        await eventually(lambda: kubelet.resources == {RESOURCE: (3, 0)})
        with pytest.raises(NotAdmitted, match="no healthy devices present"):
            await kubelet.admit(asking(count=1))


async def test_after_a_restart_plugins_have_to_register_again(sockets: Path) -> None:
    async with Kubelet(sockets, MACHINE) as kubelet:
        async with serving(Things(*THREE), sockets):
            await register(sockets)
            await eventually(lambda: kubelet.resources == {RESOURCE: (3, 2)})
            await kubelet.admit(asking(count=1))
            await kubelet.restart()
            assert [path.name for path in (sockets / "device-plugins").iterdir()] == ["kubelet.sock"]
            assert kubelet.resources == {RESOURCE: (3, 0)}
        async with serving(Things(*THREE), sockets):
            await register(sockets)
            await eventually(lambda: kubelet.resources == {RESOURCE: (3, 2)})
        assert await listed(sockets) == {("ns", "p", "c"): ((1, 2), ("a",))}


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ({"version": "v1"}, "requested API version 'v1' is not supported"),
        ({"resource_name": "cpu"}, "invalid name of resource 'cpu'"),
        ({"resource_name": "kubernetes.io/x"}, "invalid name"),
        ({"resource_name": "a.example/b/c"}, "invalid name"),
    ],
)
async def test_registrations_that_kubelet_refuses(sockets: Path, fields: dict[str, str], text: str) -> None:
    async with Kubelet(sockets, MACHINE) as kubelet, serving(Things(*THREE), sockets):
        with pytest.raises(grpc.aio.AioRpcError, match=text):
            await register(sockets, **fields)
        assert kubelet.resources == {}


async def test_pod_resources_of_one_pod_and_of_the_node(sockets: Path) -> None:
    async with Kubelet(sockets, MACHINE) as kubelet:
        await kubelet.admit(asking())
        async with grpc.aio.insecure_channel(f"unix:{sockets}/pod-resources/kubelet.sock") as channel:
            stub = resources_grpc.PodResourcesListerStub(channel)
            found = await stub.Get(resources_pb.GetPodResourcesRequest(pod_name="p", pod_namespace="ns"))
            assert list(found.pod_resources.containers[0].cpu_ids) == [1, 2]
            with pytest.raises(grpc.aio.AioRpcError, match="pod q in namespace ns not found"):
                await stub.Get(resources_pb.GetPodResourcesRequest(pod_name="q", pod_namespace="ns"))
            whole = await stub.GetAllocatableResources(resources_pb.AllocatableResourcesRequest())
            assert list(whole.cpu_ids) == [cpu for cpu in range(16) if cpu not in (0, 8)]


async def test_faults_of_the_list(sockets: Path) -> None:
    async with Kubelet(sockets, MACHINE) as kubelet:
        await kubelet.admit(asking(cpu="500m"))
        kubelet.faults.shared = True
        assert (await listed(sockets))["ns", "p", "c"][0] == tuple(range(16))
        kubelet.faults.shared, kubelet.faults.unready = False, True
        with pytest.raises(grpc.aio.AioRpcError, match="not ready"):
            await listed(sockets)


async def test_a_path_that_is_too_long_says_so(sockets: Path) -> None:
    with pytest.raises(ValueError, match="want at most 107 bytes"):
        Kubelet(sockets / ("x" * 100), MACHINE)
