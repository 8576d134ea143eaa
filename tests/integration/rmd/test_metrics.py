"""Metrics of RMD: daemons that answer, reservations, free ways, refusals; and a daemon without classes of service."""

from __future__ import annotations

from dataclasses import replace

import pytest
from prometheus_client import Counter, Gauge
from prometheus_client.samples import Sample

from app.devtools.rmd.faults import Kind, Trouble
from app.kube.resources import NODES
from app.rmd import metrics
from app.rmd.model import RMD_NODE_STATES, RMD_WORKLOADS
from tests.support.rmd_cluster import TWO_SOCKETS, RmdCluster, StandIn, held
from tests.support.waiting import eventually

pytestmark = [pytest.mark.asyncio, pytest.mark.simulated]


def samples(metric: Counter | Gauge) -> list[Sample]:
    return [sample for family in metric.collect() for sample in family.samples]


def refusals() -> dict[str, float]:
    return {one.labels["reason"]: one.value for one in samples(metrics.REFUSALS) if one.name.endswith("_total")}


def of_node(node: str) -> dict[str, float]:
    """The series of a node, by the last of their labels, or by the name of the metric."""
    found = {}
    for gauge in (metrics.ANSWERS, metrics.RESERVATIONS, metrics.FREE):
        for sample in samples(gauge):
            if sample.labels["rmd_node"] == node:
                label = sample.labels.get("state") or sample.labels.get("cache") or "up"
                found[label] = sample.value
    return found


async def test_a_daemon_and_what_it_holds(cluster: RmdCluster) -> None:
    daemon = StandIn()
    async with cluster.node("n1", daemon), cluster.controller(timeout=1.0):
        await cluster.reserve("a", "n1")
        await cluster.says("a", "Reserved")
        await cluster.reserve("b", "n1")
        await cluster.says("b", "NotReserved")
        await eventually(lambda: of_node("n1"), {"up": 1, "held": 1, "missing": 1, "foreign": 0, "0": 4, "1": 6}.__eq__)
        daemon.troubles.append(Trouble(Kind.HANG))
        await eventually(lambda: of_node("n1"), {"up": 0, "missing": 2}.__eq__)
        daemon.troubles.clear()
        await eventually(lambda: of_node("n1").get("up") == 1)
        for name in ("a", "b"):
            await cluster.remove(RMD_WORKLOADS, name, "default")
            await cluster.gone(name)
        await eventually(lambda: of_node("n1"), {}.__eq__)


async def test_the_series_end_with_the_term(cluster: RmdCluster) -> None:
    async with cluster.node("n1", StandIn()):
        async with cluster.controller():
            await cluster.show("n1")
            await eventually(lambda: of_node("n1").get("up") == 1)
        assert of_node("n1") == {}


async def test_the_series_of_a_node_that_is_gone_end(cluster: RmdCluster) -> None:
    async with cluster.node("n1", StandIn()), cluster.controller():
        await cluster.show("n1")
        await eventually(lambda: of_node("n1").get("up") == 1)
        await cluster.remove(RMD_NODE_STATES, "rmd-node-state-n1", "default")
        await cluster.remove(NODES, "n1", None)
        await eventually(lambda: of_node("n1"), {}.__eq__)


FULL = "Unable to read cache schemata; error, not enough CLOS on host, 16 used"


async def test_without_a_class_of_service_what_is_left_is_released(cluster: RmdCluster) -> None:
    """The daemon then does not tell its caches, and so not what every core is."""
    daemon, every = StandIn(), {"allCores": True, "coreIds": None}
    async with cluster.node("n1", daemon), cluster.controller():
        await cluster.reserve("most", "n1", **every, reservedCoreIds=["0-3"])
        await cluster.says("most", "Reserved")
        await cluster.reserve("few", "n1", coreIds=["0-1"])
        await cluster.says("few", "Reserved")
        daemon.troubles.append(Trouble(Kind.ERROR, method="GET", path="/v1/cache/l3", text=FULL))
        await cluster.reserve("rest", "n1", **every, reservedCoreIds=["0-1", "4-31"])
        assert FULL in (await cluster.says("rest", "NotReserved"))["message"]
        assert of_node("n1")["0"] == 0
        await cluster.remove(RMD_WORKLOADS, "few", "default")
        await cluster.gone("few")
        assert cluster.ready("most")["reason"] == "Reserved"
        assert held(daemon) == {"default/most": ("4-31",)}
        daemon.troubles.clear()
        await cluster.says("rest", "Reserved")


async def test_refusals_are_counted_by_their_reason(cluster: RmdCluster) -> None:
    before = refusals()
    daemon = StandIn(replace(TWO_SOCKETS, classes=4))
    async with cluster.node("n1", daemon), cluster.controller():
        await cluster.reserve("one", "n1")
        await cluster.says("one", "Reserved")
        await cluster.reserve("same", "n1")
        await cluster.reserve("other", "n1", coreIds=["4-5"])
        await cluster.says("same", "NotReserved")
        await cluster.says("other", "NotReserved")
    for reason in ("ClassesUsedUp", "CoresTaken"):
        assert refusals()[reason] > before.get(reason, 0)
