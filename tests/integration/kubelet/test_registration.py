"""How device plugins come to the stand-in for kubelet, stay and go."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import grpc
import grpc.aio
import pytest

from app.devtools.kubelet import connecting, plugins
from app.devtools.kubelet.cpus import NotAdmitted
from app.devtools.kubelet.server import Kubelet
from app.rmd.proto import resources_pb
from tests.support.kubelet import MACHINE, RESOURCE, Things, asking, listed, lister, register, serving
from tests.support.waiting import eventually

pytestmark = pytest.mark.asyncio
GRACE = 300.0
"""Seconds for which kubelet keeps the capacity of a plugin that is gone."""
THREE = (("a", "Healthy", 0), ("b", "Healthy", 1), ("c", "Unhealthy", 0))


class Told(Kubelet):
    """Keeps what the counts of the resource were whenever it said that they changed."""

    def __init__(self, folder: Path) -> None:
        self.counts: list[tuple[int, int]] = []
        super().__init__(folder, MACHINE, changed=lambda: self.counts.append(self.resources[RESOURCE]))


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ({"version": "v1"}, r'requested API version "v1" is not supported .* \["v1beta1"\]'),
        ({"resource_name": "cpu"}, 'the ResourceName "cpu" is invalid'),
        ({"resource_name": "kubernetes.io/x"}, "is invalid"),
        ({"resource_name": "requests.example.com/x"}, "is invalid"),
        ({"resource_name": "a.example/b/c"}, "is invalid"),
        ({"endpoint": "nothing.sock"}, "failed to dial device plugin: context deadline exceeded"),
    ],
)
async def test_registrations_that_kubelet_refuses(
    sockets: Path, monkeypatch: pytest.MonkeyPatch, fields: dict[str, str], text: str
) -> None:
    if "endpoint" in fields:
        monkeypatch.setattr(connecting, "_DIAL_SECONDS", 0.1)
    async with Kubelet(sockets, MACHINE) as kubelet, serving(Things(*THREE), sockets):
        with pytest.raises(grpc.aio.AioRpcError, match=text):
            await register(sockets, **fields)
        assert kubelet.resources == {}


async def test_a_plugin_that_does_not_say_its_options_is_refused(sockets: Path) -> None:
    plugin = Things(*THREE)
    plugin.broken = True
    async with Kubelet(sockets, MACHINE) as kubelet, serving(plugin, sockets):
        text = "failed to get device plugin options: rpc error: code = Internal desc = no options"
        with pytest.raises(grpc.aio.AioRpcError, match=text):
            await register(sockets)
        assert kubelet.resources == {}


async def test_a_second_plugin_replaces_the_first_without_a_gap(sockets: Path) -> None:
    first, second = Things(*THREE), Things(("x", "Healthy", 0))
    async with Told(sockets) as kubelet, serving(second, sockets, "second.sock"):
        async with serving(first, sockets):
            await register(sockets)
            await eventually(lambda: kubelet.counts == [(3, 2)])
            await register(sockets, endpoint="second.sock")
            await eventually(lambda: kubelet.counts == [(3, 2), (1, 1)])
            await eventually(lambda: (first.listeners, second.listeners) == (0, 1))
            await kubelet.admit(asking(count=1))
            assert (first.allocated, second.allocated) == ([], [["x"]])
        second.devices = [("x", "Healthy", 0), ("y", "Unhealthy", 0)]
        second.tell()
        await eventually(lambda: len(kubelet.counts) > 2)
        assert kubelet.counts[2:] == [(2, 1)]


async def test_a_resource_without_its_plugin_is_none_after_the_grace_period(
    sockets: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(plugins, "_GRACE_SECONDS", 0.0)
    async with Told(sockets) as kubelet:
        async with serving(Things(*THREE), sockets):
            await register(sockets)
            await eventually(lambda: kubelet.counts == [(3, 2)])
            await kubelet.admit(asking("one", count=1))
        await eventually(lambda: kubelet.counts == [(3, 2), (3, 0), (0, 0)])
        with pytest.raises(NotAdmitted, match=f"cannot allocate unregistered device {RESOURCE}, which is unexpected"):
            await kubelet.admit(asking("two", count=1))
        kubelet.remove("uid-one")
        # None of it is given out any more: kubelet takes it for a resource of others.
        await kubelet.admit(asking("three", count=1))
        async with serving(Things(*THREE), sockets):
            await register(sockets)
            await eventually(lambda: kubelet.counts[3:] == [(3, 2)])
            await kubelet.restart()
        await eventually(lambda: kubelet.counts[4:] == [(0, 0), (0, 0)])
        await kubelet.admit(asking("four", count=1))
        assert (await listed(sockets))["ns", "four", "c"][1] == ()


async def test_a_plugin_that_comes_back_stops_the_grace_period(sockets: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    loop = asyncio.get_running_loop()
    call_later, timers = loop.call_later, []

    def timed(delay: float, *rest: Any, **options: Any) -> asyncio.TimerHandle:
        timer = call_later(delay, *rest, **options)
        if delay == GRACE:
            timers.append(timer)
        return timer

    monkeypatch.setattr(loop, "call_later", timed)
    async with Told(sockets) as kubelet:
        for time in range(3):
            async with serving(Things(*THREE), sockets):
                await register(sockets)
                assert [timer.cancelled() for timer in timers] == [True] * time
                await eventually(lambda: kubelet.counts[-1:] == [(3, 2)])
            await eventually(lambda: kubelet.counts[-1:] == [(3, 0)])
    assert [timer.cancelled() for timer in timers] == [True] * 3


async def test_after_a_restart_plugins_have_to_register_again(sockets: Path) -> None:
    async with Told(sockets) as kubelet:
        folder = sockets / "device-plugins"
        (folder / "checkpoint").touch()
        async with serving(Things(*THREE), sockets):
            await register(sockets)
            await eventually(lambda: kubelet.counts == [(3, 2)])
            await kubelet.admit(asking(count=1))
            await kubelet.restart()
            assert sorted(path.name for path in folder.iterdir()) == ["checkpoint", "kubelet.sock"]
            assert kubelet.counts == [(3, 2), (0, 0)]
            with pytest.raises(NotAdmitted, match=f"no healthy devices present; .* unhealthy devices {RESOURCE}"):
                await kubelet.admit(asking("q", count=1))
            async with lister(sockets) as stub:
                answer = await stub.List(resources_pb.ListPodResourcesRequest())
            ((device,),) = [one.devices for one in answer.pod_resources[0].containers]
            assert (list(device.device_ids), [node.ID for node in device.topology.nodes]) == (["a"], [0])
        async with serving(Things(*THREE), sockets):
            await register(sockets)
            await eventually(lambda: kubelet.counts[2:] == [(3, 2)])
        assert await listed(sockets) == {("ns", "p", "c"): ((1, 2), ("a",))}


async def test_while_it_is_stopped_nothing_changes(sockets: Path) -> None:
    async with Told(sockets) as kubelet, serving(Things(*THREE), sockets):
        await register(sockets)
        await eventually(lambda: kubelet.counts == [(3, 2)])
        await kubelet.stop()
        assert kubelet.counts == [(3, 2)]
        assert not any((sockets / folder / "kubelet.sock").exists() for folder in ("pod-resources", "device-plugins"))
        with pytest.raises(grpc.aio.AioRpcError, match="UNAVAILABLE"):
            await listed(sockets)
        with pytest.raises(NotAdmitted, match="no healthy devices present"):
            await kubelet.admit(asking(count=1))
        await kubelet.start()
        assert await listed(sockets) == {}
