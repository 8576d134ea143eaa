"""One request that a daemon does not survive, or never answers, costs its RmdWorkload alone."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from app.devtools.rmd.faults import Kind, Trouble
from app.errors import ApiError
from app.kube.conditions import condition
from app.rmd.model import RMD_NODE_STATES, RMD_WORKLOADS
from tests.support.rmd_cluster import RmdCluster, StandIn, held, sent
from tests.support.waiting import eventually

pytestmark = [pytest.mark.asyncio, pytest.mark.simulated]
WAY: dict[str, Any] = {"rdt": {"cache": {"max": 1, "min": 1}}}


async def reserve(cluster: RmdCluster, name: str, core: int | str) -> None:
    await cluster.reserve(name, "n1", coreIds=[str(core)], **WAY)


def connected(cluster: RmdCluster) -> dict[str, Any]:
    return condition(cluster.status(RMD_NODE_STATES, "rmd-node-state-n1"), "Connected")


def posted(stand_in: StandIn) -> list[str]:
    """The names of the RmdWorkloads that the daemon was asked to reserve for."""
    return [json.loads(one.body)["uuid"].rpartition("/")[2] for one in stand_in.asked if one.method == "POST"]


async def test_a_core_that_the_machine_lacks_is_not_asked_for(cluster: RmdCluster) -> None:
    """RMD v0.3 panics: genBits in utils/bitmap/bitmap.go writes beyond the words of the machine."""
    daemon = StandIn()
    async with cluster.node("n1", daemon), cluster.controller():
        await cluster.show("n1")
        await reserve(cluster, "before", 2)
        await cluster.says("before", "Reserved")
        await reserve(cluster, "bad", 900)
        text = (await cluster.says("bad", "NotReserved"))["message"]
        assert "Fail: the machine has no core 900: want some of 0-31; the daemon is not asked" in text
        await cluster.reserve("also", "n1", coreIds=["30-33"])
        assert "no core 32-33" in (await cluster.says("also", "NotReserved"))["message"]
        await reserve(cluster, "after", 3)
        await cluster.says("after", "Reserved")
        await asyncio.sleep(60)
        assert posted(daemon) == ["before", "after"]
        assert cluster.ready("before")["reason"] == "Reserved"
        assert connected(cluster)["status"] == "True"
        await cluster.change("bad", coreIds=["9"])
        await cluster.says("bad", "Reserved")
        await cluster.change("bad", coreIds=["901"])
        await cluster.says("bad", "NotReserved")
        assert held(daemon) == {"default/before": ("2",), "default/after": ("3",)}


@pytest.mark.parametrize("kind", [Kind.REFUSED, Kind.HANG, Kind.NOT_JSON, Kind.ENDLESS, Kind.ENDED])
async def test_a_reservation_that_the_daemon_does_not_answer(cluster: RmdCluster, kind: Kind) -> None:
    daemon = StandIn()
    async with cluster.node("n1", daemon), cluster.controller(timeout=1.0):
        await cluster.show("n1")
        await reserve(cluster, "before", 2)
        await cluster.says("before", "Reserved")
        daemon.troubles.append(Trouble(kind, "POST", body=b"poison", seconds=3.0))
        await reserve(cluster, "poison", 5)
        text = (await cluster.says("poison", "NotReserved"))["message"]
        assert "n1: Fail: no answer to this request: " in text
        await reserve(cluster, "after", 3)
        await cluster.says("after", "Reserved")
        await cluster.says("before", "Reserved")
        await asyncio.sleep(300)
        assert 3 <= posted(daemon).count("poison") <= 12, "after growing pauses"
        assert connected(cluster)["status"] == "True"
        assert "default/poison" in connected(cluster)["message"]
        assert held(daemon) == {"default/before": ("2",), "default/after": ("3",)}
        await eventually(lambda: cluster.ready("before")["reason"] == "Reserved")
        daemon.troubles.clear()
        await cluster.says("poison", "Reserved")
        await eventually(lambda: connected(cluster)["message"] == "the daemon answers")


async def test_what_the_daemon_ended_with_is_said(cluster: RmdCluster) -> None:
    daemon = StandIn()
    daemon.troubles.append(Trouble(Kind.ENDED, "POST", body=b"poison", seconds=3600.0))
    async with cluster.node("n1", daemon), cluster.controller():
        await cluster.show("n1")
        await reserve(cluster, "poison", 5)
        await reserve(cluster, "other", 6)
        shown = await eventually(lambda: connected(cluster), lambda found: found.get("status") == "False")
        assert "after the request of default/poison it answered nothing any more: GET http://" in shown["message"]
        assert "no answer to this request: POST" in (await cluster.says("poison", "NotReserved"))["message"]
        await eventually(lambda: "Fail: GET http://" in cluster.ready("other")["message"])


async def test_after_a_restart_of_the_controller_it_comes_last(cluster: RmdCluster) -> None:
    daemon = StandIn()
    daemon.troubles.append(Trouble(Kind.REFUSED, "POST", body=b"poison"))
    async with cluster.node("n1", daemon):
        async with cluster.controller():
            await reserve(cluster, "poison", 5)
            await cluster.says("poison", "NotReserved")
            for number in range(3):
                await reserve(cluster, f"a{number}", number + 1)
                await cluster.says(f"a{number}", "Reserved")
        before = len(posted(daemon))
        daemon.daemon.restart(keep=False)
        async with cluster.controller():
            await eventually(lambda: len(held(daemon)) == 3)
            await eventually(lambda: "poison" in posted(daemon)[before:])
            assert posted(daemon)[before : before + 4] == ["a0", "a1", "a2", "poison"]


async def test_a_release_that_the_daemon_does_not_answer(cluster: RmdCluster) -> None:
    daemon = StandIn()
    async with cluster.node("n1", daemon), cluster.controller(timeout=1.0):
        for name, core in (("poison", 1), ("other", 2)):
            await reserve(cluster, name, core)
            await cluster.says(name, "Reserved")
        daemon.troubles.append(Trouble(Kind.HANG, "DELETE", f"/v1/workloads/{cluster.states('poison')['n1']['id']}"))
        await cluster.remove(RMD_WORKLOADS, "poison", "default")
        await eventually(lambda: "no answer to this request: DELETE" in cluster.ready("poison").get("message", ""))
        await cluster.remove(RMD_WORKLOADS, "other", "default")
        await cluster.gone("other")
        await reserve(cluster, "new", 3)
        await cluster.says("new", "Reserved")
        assert cluster.object("poison") is not None
        daemon.troubles.clear()
        await cluster.gone("poison")


async def test_many_without_an_answer_hold_up_the_others_for_a_few_passes(cluster: RmdCluster) -> None:
    daemon = StandIn()
    daemon.troubles.append(Trouble(Kind.HANG, "POST", body=b"poison"))
    async with cluster.node("n1", daemon):
        for number in range(7):
            await reserve(cluster, f"poison-{number}", number + 1)
        await reserve(cluster, "young", 20)
        async with cluster.controller(timeout=1.0):
            await cluster.says("young", "Reserved")
            assert len(posted(daemon)) <= 10
            assert sent(daemon, "DELETE") == []


async def test_caches_that_a_daemon_does_not_tell_hold_up_those_alone_that_want_all(cluster: RmdCluster) -> None:
    daemon = StandIn()
    daemon.troubles.append(Trouble(Kind.HANG, "GET", "/v1/cache"))
    async with cluster.node("n1", daemon), cluster.controller(timeout=1.0):
        await cluster.reserve("all", "n1", allCores=True, coreIds=[], reservedCoreIds=["0-3"], **WAY)
        await reserve(cluster, "one", 1)
        await cluster.says("one", "Reserved")
        assert "no answer in time" in (await cluster.says("all", "NotReserved"))["message"]
        daemon.troubles.clear()
        await cluster.says("all", "Reserved")


@pytest.mark.parametrize("status", [403, 409, 413, 422])
async def test_a_status_that_the_api_server_refuses_holds_up_no_other(cluster: RmdCluster, status: int) -> None:
    async def refuse(verb: str, name: str) -> None:
        if verb == "patchstatus" and name == "poison" and posted(daemon):
            raise ApiError(f"HTTP {status}: not this one", status=status)

    daemon = StandIn()
    async with cluster.node("n1", daemon), await cluster.client() as client:
        client.before = refuse
        await reserve(cluster, "poison", 1)
        await reserve(cluster, "young", 2)
        async with cluster.controller(client):
            await cluster.says("young", "Reserved")
            daemon.daemon.restart(keep=False)
            await eventually(lambda: len(held(daemon)) == 2)
