"""Cache ways of the daemon as devices of kubelet, over the sockets of both."""

from __future__ import annotations

from collections.abc import AsyncIterator

import grpc
import grpc.aio
import pytest
import pytest_asyncio

from app.devtools.kubelet.cpus import NotAdmitted
from app.devtools.rmd.faults import Kind, Trouble
from app.rmd.agent import kubelet
from app.rmd.model import L3_CACHE_WAYS
from app.rmd.proto import plugin_grpc, plugin_pb
from tests.support.kubelet import asking, listed
from tests.support.rmd import on
from tests.support.rmd_cluster import RmdCluster, StandIn
from tests.support.rmd_node import Node, node
from tests.support.waiting import eventually

pytestmark = pytest.mark.asyncio
ALL = {L3_CACHE_WAYS: (12, 12)}


@pytest_asyncio.fixture
async def on_node(cluster: RmdCluster) -> AsyncIterator[Node]:
    async with node(cluster, create=False) as found:
        yield found


async def test_the_guaranteed_pool_of_each_cache(on_node: Node) -> None:
    daemon = StandIn()
    async with on_node.cluster.node("n1", daemon), on_node.agent(announce=True) as agent:
        await eventually(lambda: on_node.kubelet.resources == ALL)
        await eventually(lambda: agent.waiting() == [])
        await on_node.kubelet.admit(asking(count=3, resource=L3_CACHE_WAYS))
        found = await listed(on_node.folder)
        assert found["ns", "p", "c"] == ((1, 2), ("0-0", "0-1", "0-2"))
        with pytest.raises(NotAdmitted, match="Requested: 10, Available: 9"):
            await on_node.kubelet.admit(asking("q", count=10, resource=L3_CACHE_WAYS))


async def test_ways_that_are_reserved_are_of_the_pool(on_node: Node) -> None:
    daemon = StandIn()
    daemon.daemon.post(on("1-2", ways=2, uuid="ns/p"))
    daemon.daemon.post(on("3", ways=(2, 1), uuid="best effort"))
    async with on_node.cluster.node("n1", daemon), on_node.agent(announce=True):
        await eventually(lambda: on_node.kubelet.resources == ALL)
        daemon.daemon.post(on("4-5", ways=3, uuid="ns/q"))
        before = len([one for one in daemon.asked if one.path == "/v1/cache/l3"])
        await eventually(lambda: len([one for one in daemon.asked if one.path == "/v1/cache/l3"]) > before + 1)
        assert on_node.kubelet.resources == ALL


async def test_after_a_restart_of_kubelet_it_registers_again(on_node: Node) -> None:
    async with on_node.cluster.node("n1", StandIn()), on_node.agent(announce=True):
        await eventually(lambda: on_node.kubelet.resources == ALL)
        await on_node.kubelet.restart()
        await eventually(lambda: on_node.kubelet.resources == ALL)
        await on_node.kubelet.stop()
        await on_node.kubelet.start()
        await eventually(lambda: on_node.kubelet.resources == ALL)


async def test_when_its_socket_is_removed_it_registers_again(on_node: Node) -> None:
    async with on_node.cluster.node("n1", StandIn()), on_node.agent(announce=True):
        await eventually(lambda: on_node.kubelet.resources == ALL)
        path = on_node.folder / "device-plugins" / kubelet.SOCKET
        old = path.stat().st_ctime_ns  # the number of its inode may be used again
        path.unlink()
        await eventually(lambda: path.exists() and path.stat().st_ctime_ns != old)
        await eventually(lambda: on_node.kubelet.resources == ALL)


async def test_what_is_in_the_place_of_its_socket_is_said(on_node: Node) -> None:
    path = on_node.folder / "device-plugins" / kubelet.SOCKET
    path.mkdir()
    async with on_node.cluster.node("n1", StandIn()), on_node.agent(announce=True, ready=False) as agent:
        said = lambda: [one for one in agent.waiting() if str(path) in one]  # noqa: E731
        await eventually(said, lambda found: bool(found) and found[0].startswith("cache ways: no socket"))
        path.rmdir()
        await eventually(lambda: on_node.kubelet.resources == ALL)
        await eventually(lambda: agent.waiting() == [])


async def test_a_socket_that_cannot_be_bound_is_said(on_node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    # gRPC binds no path that is longer than the name of a socket may be.
    monkeypatch.setattr(kubelet, "SOCKET", "s" * 108)
    async with on_node.cluster.node("n1", StandIn()), on_node.agent(announce=True, ready=False) as agent:
        await eventually(agent.waiting, lambda found: any("no socket" in one for one in found))
        monkeypatch.undo()
        await eventually(lambda: on_node.kubelet.resources == ALL)


async def test_without_the_agent_no_way_can_be_given(on_node: Node) -> None:
    async with on_node.cluster.node("n1", StandIn()):
        async with on_node.agent(announce=True):
            await eventually(lambda: on_node.kubelet.resources == ALL)
        await eventually(lambda: on_node.kubelet.resources == {L3_CACHE_WAYS: (12, 0)})
        async with on_node.agent(announce=True):
            await eventually(lambda: on_node.kubelet.resources == ALL)


async def test_a_silent_daemon_takes_the_ways_away_after_a_while(
    on_node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kubelet, "_SILENT", 0.5)
    daemon = StandIn()
    async with on_node.cluster.node("n1", daemon), on_node.agent(announce=True, timeout=0.2):
        await eventually(lambda: on_node.kubelet.resources == ALL)
        daemon.troubles.append(Trouble(Kind.ERROR, method="GET", path="/v1/cache/l3", text="not enough CLOS on host"))
        await eventually(lambda: on_node.kubelet.resources == {L3_CACHE_WAYS: (12, 0)})
        daemon.troubles.clear()
        await eventually(lambda: on_node.kubelet.resources == ALL)


async def test_without_a_daemon_there_are_no_ways_until_it_comes(on_node: Node) -> None:
    async with on_node.agent(announce=True):
        await eventually(lambda: on_node.kubelet.resources == {L3_CACHE_WAYS: (0, 0)})
        async with on_node.cluster.node("n1", StandIn()):
            await eventually(lambda: on_node.kubelet.resources == ALL)


async def test_an_unknown_way_is_refused(on_node: Node) -> None:
    async with on_node.cluster.node("n1", StandIn()), on_node.agent(announce=True):
        await eventually(lambda: on_node.kubelet.resources == ALL)
        path = on_node.folder / "device-plugins" / kubelet.SOCKET
        async with grpc.aio.insecure_channel(f"unix:{path}") as channel:
            stub = plugin_grpc.DevicePluginStub(channel)
            asked = [plugin_pb.ContainerAllocateRequest(devices_ids=["0-1", "7-9"])]
            with pytest.raises(grpc.aio.AioRpcError, match="there is no cache way 7-9"):
                await stub.Allocate(plugin_pb.AllocateRequest(container_requests=asked))
            asked = [plugin_pb.ContainerAllocateRequest(devices_ids=["1-0", "0-1"])]
            answer = await stub.Allocate(plugin_pb.AllocateRequest(container_requests=asked * 2))
            assert [dict(one.envs) for one in answer.container_responses] == [{L3_CACHE_WAYS: "0-1,1-0"}] * 2
