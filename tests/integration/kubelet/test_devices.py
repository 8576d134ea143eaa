"""Which devices the stand-in for kubelet gives to containers, and when it rejects their Pod."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from app.devtools.kubelet.cpus import NotAdmitted
from app.devtools.kubelet.server import Kubelet
from tests.support.kubelet import MACHINE, RESOURCE, Things, a_pod, asking, container, listed, register, serving
from tests.support.waiting import eventually

pytestmark = pytest.mark.asyncio
FOUR = (("a", "Healthy", 1), ("b", "Healthy", None), ("c", "Healthy", 0), ("d", "Healthy", 0))


@contextlib.asynccontextmanager
async def with_plugin(folder: Path, plugin: Things) -> AsyncIterator[Kubelet]:
    """Once the plugin has listed its devices."""
    healthy = [one for one in plugin.devices if one[1] == "Healthy"]
    async with Kubelet(folder, MACHINE) as kubelet, serving(plugin, folder):
        await register(folder)
        await eventually(lambda: kubelet.resources == {RESOURCE: (len(plugin.devices), len(healthy))})
        yield kubelet


async def test_devices_and_cpus_of_pods(sockets: Path) -> None:
    plugin = Things(("a", "Healthy", 0), ("b", "Healthy", 1), ("c", "Unhealthy", 0))
    async with with_plugin(sockets, plugin) as kubelet:
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


@pytest.mark.parametrize(
    ("cpu", "count", "given"),
    [("2", 2, "cd"), ("2", 3, "acd"), ("7", 1, "c"), ("500m", 1, "a"), ("500m", 2, "ac")],
)
async def test_those_of_the_numa_node_of_the_cpus_come_first(sockets: Path, cpu: str, count: int, given: str) -> None:
    async with with_plugin(sockets, Things(*FOUR)) as kubelet:
        await kubelet.admit(asking(cpu=cpu, count=count))
        assert (await listed(sockets))["ns", "p", "c"][1] == tuple(given)


@pytest.mark.parametrize(
    ("preferred", "count", "asked", "given"),
    [
        (("d",), 1, (["c", "d"], [], 1), "d"),
        (("a",), 1, (["c", "d"], [], 1), "c"),
        ((), 1, (["c", "d"], [], 1), "c"),
        (("b",), 3, (["a", "b", "c", "d"], ["c", "d"], 3), "bcd"),
        (("b", "b", "x"), 3, (["a", "b", "c", "d"], ["c", "d"], 3), "bcd"),
        (("b",), 2, None, "cd"),
    ],
)
async def test_what_a_plugin_prefers_is_given_where_there_is_a_choice(
    sockets: Path, preferred: tuple[str, ...], count: int, asked: tuple[list[str], list[str], int] | None, given: str
) -> None:
    plugin = Things(*FOUR, preferred=preferred)
    async with with_plugin(sockets, plugin) as kubelet:
        await kubelet.admit(asking(count=count))
        assert plugin.asked == ([asked] if asked else [])
        assert [sorted(one) for one in plugin.allocated] == [list(given)]


async def test_what_an_init_container_had_is_for_those_after_it(sockets: Path) -> None:
    plugin = Things(*((name, "Healthy", 0) for name in "abcd"))
    init = (
        container("first", cpu="1", count=2),
        container("sidecar", cpu="1", count=1, restartPolicy="Always"),
        container("second", cpu="1", count=3),
    )
    async with with_plugin(sockets, plugin) as kubelet:
        await kubelet.admit(a_pod("p", container("c", cpu="1", count=2), container("d", cpu="1", count=1), init=init))
        found = {name: given for (_, _, name), (_, given) in (await listed(sockets)).items()}
        assert found == {"sidecar": ("a",), "c": ("b", "c"), "d": ("d",)}
        assert plugin.allocated == [["a", "b"], ["a"], ["b", "c", "d"], ["b", "c"], ["d"]]
        with pytest.raises(NotAdmitted, match="Requested: 1, Available: 0"):
            await kubelet.admit(asking("q", count=1))


async def test_a_refusal_of_the_plugin_is_that_of_kubelet(sockets: Path) -> None:
    plugin = Things(*FOUR)
    async with with_plugin(sockets, plugin) as kubelet:
        plugin.refuse = "not today"
        text = "Allocate failed due to rpc error: code = InvalidArgument desc = not today, which is unexpected"
        with pytest.raises(NotAdmitted, match=text) as refused:
            await kubelet.admit(asking(count=1))
        assert refused.value.reason == "UnexpectedAdmissionError"
        plugin.refuse, plugin.broken = "", True
        with pytest.raises(NotAdmitted, match="no containers return in allocation response"):
            await kubelet.admit(asking(count=1))
        assert (kubelet.cpus.given, await listed(sockets)) == ({}, {})
        plugin.broken = False
        await kubelet.admit(asking(count=4))


async def test_a_refusal_to_prefer_is_that_of_kubelet(sockets: Path) -> None:
    plugin = Things(*FOUR, preferred=("a",))
    async with with_plugin(sockets, plugin) as kubelet:
        plugin.refuse = "not today"
        with pytest.raises(NotAdmitted, match=r"GetPreferredAllocation rpc failed with err: rpc error: .* not today"):
            await kubelet.admit(asking(count=1))


async def test_what_no_plugin_has_registered_is_not_its_own(sockets: Path) -> None:
    async with with_plugin(sockets, Things(*FOUR)) as kubelet:
        await kubelet.admit(asking(count=3, resource="example.com/others"))
        assert await listed(sockets) == {("ns", "p", "c"): ((1, 2), ())}


async def test_a_plugin_is_not_asked_for_nothing(sockets: Path) -> None:
    plugin, pod = Things(*FOUR), asking()
    pod["spec"]["containers"][0]["resources"]["limits"][RESOURCE] = "0"
    async with with_plugin(sockets, plugin) as kubelet:
        await kubelet.admit(pod)
        assert plugin.allocated == []
        assert await listed(sockets) == {("ns", "p", "c"): ((1, 2), ())}


async def test_pods_that_come_at_the_same_time_get_different_devices(sockets: Path) -> None:
    async with with_plugin(sockets, Things(*FOUR)) as kubelet:
        await asyncio.gather(*(kubelet.admit(asking(name, count=1)) for name in "pqrs"), kubelet.admit(asking("p")))
        found = [device for _, devices in (await listed(sockets)).values() for device in devices]
        assert sorted(found) == ["a", "b", "c", "d"]


async def test_a_pod_that_goes_while_it_is_admitted_keeps_nothing(sockets: Path) -> None:
    plugin = Things(*FOUR)
    async with with_plugin(sockets, plugin) as kubelet:
        plugin.hold = asyncio.Event()
        admitting = asyncio.create_task(kubelet.admit(asking(count=4)))
        await plugin.held.wait()
        kubelet.remove("uid-p")
        plugin.hold.set()
        await admitting
        assert (kubelet.cpus.given, await listed(sockets)) == ({}, {})
        await kubelet.admit(asking("q", count=4))
