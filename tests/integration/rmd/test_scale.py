"""Many nodes with many reservations: requests are counted, and none is sent twice."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from app.devtools.rmd.machine import Cache, Group, Machine
from app.kube.conditions import condition
from app.rmd.model import RMD_WORKLOADS
from tests.support.rmd_cluster import RmdCluster, StandIn, held, sent
from tests.support.waiting import PATIENCE, eventually

pytestmark = pytest.mark.asyncio
NODES, EACH = 25, 10
"""As many RmdWorkloads are for every node as for each node alone."""
RESERVATIONS = 2 * NODES * EACH
OBJECTS = EACH + NODES * EACH
MACHINE = Machine(caches=(Cache(0, "0-31"),), os=Group())
SHARED = {"rdt": {"cache": {"max": 0, "min": 0}}}
"""Reservations of the shared pool have one class of service together."""


@pytest_asyncio.fixture
async def nodes(cluster: RmdCluster) -> AsyncIterator[dict[str, StandIn]]:
    """Nodes with daemons, and RmdWorkloads for them that no controller has seen yet."""
    found = {f"n{number}": StandIn(MACHINE) for number in range(NODES)}
    over, started = asyncio.Event(), asyncio.Barrier(NODES + 1)

    async def run(name: str, one: StandIn) -> None:
        async with cluster.node(name, one):
            await started.wait()
            await over.wait()

    async with asyncio.TaskGroup() as tasks:
        for name, one in found.items():
            tasks.create_task(run(name, one))
        await started.wait()
        for number in range(EACH):
            await cluster.reserve(f"all-{number}", *found, coreIds=[str(number)], **SHARED)
            for name in found:
                await cluster.reserve(f"{name}-{number}", name, coreIds=[str(EACH + number)], **SHARED)
        yield found
        over.set()


def all_ready(cluster: RmdCluster) -> bool:
    reasons = [condition(one.get("status") or {}, "Ready").get("reason") for one in cluster.stored(RMD_WORKLOADS)]
    return reasons == ["Reserved"] * OBJECTS


def writes(nodes: dict[str, StandIn]) -> dict[str, Counter[str]]:
    """What each daemon was asked to change."""
    return {name: Counter(sent(one)) for name, one in nodes.items()}


def looks(nodes: dict[str, StandIn]) -> list[int]:
    return [len(sent(one, "GET")) for one in nodes.values()]


async def test_each_request_is_sent_once(cluster: RmdCluster, nodes: dict[str, StandIn]) -> None:
    async with cluster.controller(interval=1.0, timeout=PATIENCE) as client:
        await eventually(lambda: all_ready(cluster))
        assert writes(nodes) == {name: Counter(POST=2 * EACH) for name in nodes}
        for one in nodes.values():
            uuids = [json.loads(request.body)["uuid"] for request in one.asked if request.method == "POST"]
            assert sorted(uuids) == sorted(held(one)), "a reservation was asked for twice"
        assert client.counts["patch rmdworkloads"] == OBJECTS, "one finalizer each"
        # A state for each reservation, at most one condition after each state, and one write before all of them.
        assert RESERVATIONS < client.counts["patchstatus rmdworkloads"] <= 2 * RESERVATIONS + OBJECTS
        before, counted = looks(nodes), dict(client.counts)
        await eventually(lambda: all(now >= then + 4 for then, now in zip(before, looks(nodes), strict=True)))
        assert writes(nodes) == {name: Counter(POST=2 * EACH) for name in nodes}, "nothing has changed"
        assert dict(client.counts) == counted

        # A change and deletions are sent once as well.
        await cluster.change("all-0", coreIds=["31"])
        await eventually(lambda: all(held(one).get("default/all-0") == ("31",) for one in nodes.values()))
        assert writes(nodes) == {name: Counter(POST=2 * EACH + 1, DELETE=1) for name in nodes}
        for one in cluster.stored(RMD_WORKLOADS):
            await cluster.remove(RMD_WORKLOADS, one["metadata"]["name"], "default")
        await eventually(lambda: not cluster.stored(RMD_WORKLOADS))
        assert writes(nodes) == {name: Counter(POST=2 * EACH + 1, DELETE=2 * EACH + 1) for name in nodes}
        assert [held(one) for one in nodes.values()] == [{}] * NODES
