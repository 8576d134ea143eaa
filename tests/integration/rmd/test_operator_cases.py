"""What a daemon is sent for the specs of the operator's own unit cases, on the machine that these have."""

from __future__ import annotations

import json
from typing import Any

import pytest

from app.devtools.rmd.machine import Cache, Group, Machine
from tests.support.rmd_cluster import RmdCluster, StandIn, held
from tests.support.waiting import eventually

pytestmark = [pytest.mark.asyncio, pytest.mark.simulated]
MACHINE = Machine(caches=(Cache(0, "0-23,48-71"), Cache(1, "24-47,72-95", 1, 1)), os=Group())
PSTATE = {"plugins": {"pstate": {"ratio": "1.5", "monitoring": "on"}}}
SENT = {"plugins": {"pstate": {"ratio": 1.5, "monitoring": "on"}}}
GOLD: dict[str, Any] = {"policy": "gold", "rdt": {"cache": {"max": 2, "min": 2}, "mba": {"percentage": 25}}, **PSTATE}
ALL = {"allCores": True, "coreIds": [], **GOLD}


def ways(most: int, least: int, **mba: int) -> dict[str, Any]:
    return {"rdt": {"cache": {"max": most, "min": least}, **({"mba": mba} if mba else {})}}


@pytest.mark.parametrize(
    ("spec", "sent"),
    [
        (ways(2, 2), {"core_ids": ["0-1"], "rdt": {"cache": {"max": 2, "min": 2}}}),
        (
            {**ways(2, 2, percentage=50), **PSTATE},
            {"core_ids": ["0-1"], "rdt": {"cache": {"max": 2, "min": 2}, "mba": {"percentage": 50}}, **SENT},
        ),
        ({"coreIds": ["2", "1", "49"], **GOLD}, {"core_ids": ["1", "2", "49"], "policy": "gold", **SENT}),
        ({"coreIds": ["2", "1", "3-4"], **GOLD}, {"core_ids": ["1-4"], "policy": "gold", **SENT}),
        ({"coreIds": ["0", "20"], **GOLD}, {"core_ids": ["0", "20"], "policy": "gold", **SENT}),
        (ALL, {"core_ids": ["0-95"], "policy": "gold", **SENT}),
        ({**ALL, "coreIds": ["1-2", "5", "11"]}, {"core_ids": ["0-95"], "policy": "gold", **SENT}),
        ({**ALL, "reservedCoreIds": ["0-9"]}, {"core_ids": ["10-95"], "policy": "gold", **SENT}),
        ({**ALL, "reservedCoreIds": ["1", "2", "4-7"]}, {"core_ids": ["0", "3", "8-95"], "policy": "gold", **SENT}),
    ],
)
async def test_a_daemon_gets_what_it_needs(cluster: RmdCluster, spec: dict[str, Any], sent: dict[str, Any]) -> None:
    """Ranges are texts of their own: a daemon reads no commas beside plugins. It enforces no bandwidth of a policy.

    Cores that the spec names one by one are sent, and then shown, one by one.
    """
    daemon = StandIn(MACHINE)
    async with cluster.node("n1", daemon), cluster.controller():
        await cluster.reserve("a", "n1", **spec)
        await cluster.says("a", "Reserved")
        (post,) = [json.loads(one.body) for one in daemon.asked if one.method == "POST"]
        assert post == {"uuid": "default/a", **sent}
        assert held(daemon) == {"default/a": tuple(sent["core_ids"])}


@pytest.mark.parametrize(
    ("spec", "problem"),
    [
        (ways(2, 1, percentage=50), "spec.rdt.mba: wants guaranteed cache"),
        ({**ways(2, 2, percentage=50, mbps=100), **PSTATE}, "spec.rdt.mba: percentage and mbps exclude each other"),
        ({"coreIds": [], **ways(2, 2)}, "spec.coreIds: required"),
    ],
)
async def test_what_no_daemon_takes_is_not_sent(cluster: RmdCluster, spec: dict[str, Any], problem: str) -> None:
    daemon = StandIn(MACHINE)
    async with cluster.node("n1", daemon), cluster.controller():
        await cluster.reserve("a", "n1", **spec)
        assert problem in (await cluster.says("a", "InvalidSpec"))["message"]
        await cluster.reserve("b", "n1", coreIds=["9"])
        await cluster.says("b", "Reserved")
        assert held(daemon) == {"default/b": ("9",)}


async def test_bandwidth_in_the_other_unit(cluster: RmdCluster) -> None:
    """Whether mbps or percentage counts is the mode of the daemon."""
    one, other = StandIn(Machine(mba="mbps")), StandIn(Machine())
    async with cluster.node("n1", one), cluster.node("n2", other), cluster.controller():
        await cluster.reserve("a", "n1", "n2", **ways(1, 1, mbps=100))
        await cluster.says("a", "NotReserved")
        await eventually(lambda: held(one), bool)
        assert cluster.states("a")["n1"]["rdt"] == {"cache": {"max": 1, "min": 1}, "mba": {"mbps": 100}}
        assert "Fail: Failed to validate workload. Reason: Please provide MBA" in cluster.states("a")["n2"]["response"]
