"""RmdWorkloads and daemons: in the end each daemon holds what the objects say, nothing twice, nothing of others touched."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from app.devtools.rmd.failures import Failure
from app.devtools.rmd.faults import Faults, Kind, Trouble
from app.devtools.rmd.model import Workload
from app.errors import ApiError
from app.kube.fencing import Fence
from app.kube.resources import EVENTS, NODES, PODS
from app.kube.writing import write_status
from app.rmd.model import RMD_NODE_STATES, RMD_WORKLOADS
from tests.support.rmd_cluster import TWO_SOCKETS, RmdCluster, StandIn, held, sent
from tests.support.waiting import eventually

pytestmark = [pytest.mark.asyncio, pytest.mark.simulated]


async def test_reserves_on_each_node_and_releases(cluster: RmdCluster) -> None:
    one, other = StandIn(), StandIn()
    async with cluster.node("n1", one), cluster.node("n2", other), cluster.controller():
        await cluster.show("n1")
        await cluster.reserve("guaranteed", "n1", "n2")
        ready = await cluster.says("guaranteed", "Reserved")
        assert (ready["status"], ready["message"]) == ("True", "reserved on 2 of 2 nodes")
        assert held(one) == held(other) == {"default/guaranteed": ("0-1",)}
        assert cluster.states("guaranteed")["n2"] == {
            "response": "Success: 201",
            "id": "1",
            "observedGeneration": 1,
            "cosName": "COS2",
            "status": "Successful",
            "coreIds": ["0-1"],
            "rdt": {"cache": {"max": 2, "min": 2}},
        }
        shown = await eventually(lambda: cluster.status(RMD_NODE_STATES, "rmd-node-state-n1").get("workloads"), bool)
        assert shown["guaranteed"]["Cache Max"] == "2"
        await cluster.remove(RMD_WORKLOADS, "guaranteed", "default")
        await cluster.gone("guaranteed")
        assert held(one) == held(other) == {}
        assert sent(one) == sent(other) == ["POST", "DELETE"]
        await eventually(lambda: not cluster.status(RMD_NODE_STATES, "rmd-node-state-n1").get("workloads"))


async def test_a_node_state_that_is_refused_holds_up_no_reservation(cluster: RmdCluster) -> None:
    """An API server refuses a status that is too big."""

    async def refuse(verb: str, name: str) -> None:
        if verb == "patchstatus" and name.startswith("rmd-node-state-"):
            raise ApiError("too big", status=413)

    daemon = StandIn()
    async with cluster.node("n1", daemon), await cluster.client() as client:
        client.before = refuse
        await cluster.show("n1")
        await cluster.reserve("first", "n1")
        async with cluster.controller(client):
            await cluster.says("first", "Reserved")
            await cluster.remove(RMD_WORKLOADS, "first", "default")
            await cluster.gone("first")
            assert held(daemon) == {}


async def test_a_refusal_is_said_and_tried_again(cluster: RmdCluster) -> None:
    daemon = StandIn()
    async with cluster.node("n1", daemon), cluster.controller(events=True):
        await cluster.reserve("first", "n1")
        await cluster.says("first", "Reserved")
        await cluster.reserve("second", "n1")
        ready = await cluster.says("second", "NotReserved")
        assert "n1: Fail: Failed to validate workload." in ready["message"]
        assert "CPU list [0 1] has been assigned" in cluster.states("second")["n1"]["response"]
        await eventually(lambda: {one["reason"] for one in cluster.stored(EVENTS)}, {"Reserved", "NotReserved"}.__le__)
        await cluster.remove(RMD_WORKLOADS, "first", "default")
        await cluster.says("second", "Reserved")
        assert held(daemon) == {"default/second": ("0-1",)}


@pytest.mark.parametrize(
    "change",
    [
        {"coreIds": ["2-3", "6"]},
        {"rdt": {"cache": {"max": 3, "min": 3}}},
        {"rdt": {"mba": {"percentage": 50}}},
        {"rdt": None, "policy": "gold"},
        {"plugins": {"pstate": {"ratio": "1.5", "monitoring": "on"}}},
    ],
)
async def test_a_change_is_released_and_reserved_and_never_patched(cluster: RmdCluster, change: dict[str, Any]) -> None:
    daemon = StandIn()
    async with cluster.node("n1", daemon), cluster.controller():
        await cluster.reserve("a", "n1")
        await cluster.says("a", "Reserved")
        await cluster.change("a", **change)
        await cluster.says("a", "Reserved")
        await eventually(lambda: sent(daemon) == ["POST", "DELETE", "POST"])
        (record,) = daemon.daemon.workloads()
        assert list(record.core_ids) == change.get("coreIds", ["0-1"])
        assert record.policy == change.get("policy", "")
        state = await eventually(lambda: cluster.states("a")["n1"], lambda found: found["id"] == record.id)
        assert state["response"] == "Success: 201"
        await asyncio.sleep(40)
        assert sent(daemon) == ["POST", "DELETE", "POST"]


async def test_other_words_for_the_same_cores_change_nothing(cluster: RmdCluster) -> None:
    daemon = StandIn()
    async with cluster.node("n1", daemon), cluster.controller():
        await cluster.show("n1")
        await cluster.reserve("a", "n1", coreIds=["1-2", "4"])
        await cluster.says("a", "Reserved")
        await cluster.change("a", coreIds=["4", "2", "1"])
        await cluster.says("a", "Reserved")
        await asyncio.sleep(40)
        assert sent(daemon) == ["POST"]
        assert cluster.states("a")["n1"]["coreIds"] == ["1-2", "4"]
        await cluster.reserve("b", "n1", coreIds=["9", "8"])
        await cluster.says("b", "Reserved")
        rows = await eventually(
            lambda: cluster.status(RMD_NODE_STATES, "rmd-node-state-n1")["workloads"], lambda found: "b" in found
        )
        assert {name: row["Core IDs"] for name, row in rows.items()} == {"a": "1-2,4", "b": "8,9"}


async def test_a_change_is_not_ready_before_the_daemon_is_asked(cluster: RmdCluster) -> None:
    daemon = StandIn()
    async with cluster.node("n1", daemon), cluster.controller():
        await cluster.reserve("a", "n1")
        await cluster.says("a", "Reserved")
        daemon.troubles.append(Trouble(Kind.HANG))
        await cluster.change("a", coreIds=["4-5"])
        ready = await eventually(lambda: cluster.ready("a"), lambda found: found["observedGeneration"] == 2)
        assert (ready["status"], ready["reason"]) == ("False", "Pending")
        daemon.troubles.clear()
        await cluster.says("a", "Reserved")
        assert held(daemon) == {"default/a": ("4-5",)}


async def test_a_node_that_leaves_the_list_is_released_alone(cluster: RmdCluster) -> None:
    one, other = StandIn(), StandIn()
    async with cluster.node("n1", one), cluster.node("n2", other), cluster.controller():
        await cluster.reserve("a", "n1", "n2")
        await cluster.says("a", "Reserved")
        await cluster.change("a", nodes=["n2"])
        await eventually(lambda: list(cluster.states("a")) == ["n2"])
        assert (held(one), held(other)) == ({}, {"default/a": ("0-1",)})
        assert sent(other) == ["POST"]


async def test_a_dead_node_delays_no_other(cluster: RmdCluster) -> None:
    dead, alive = StandIn(), StandIn()
    dead.troubles.append(Trouble(Kind.HANG))
    async with cluster.node("n1", dead), cluster.node("n2", alive), cluster.controller(timeout=1.0):
        await cluster.show("n1")
        await cluster.reserve("a", "n1", "n2")
        await eventually(lambda: held(alive) == {"default/a": ("0-1",)})
        ready = await cluster.says("a", "NotReserved")
        assert "no answer in time" in ready["message"]
        await eventually(
            lambda: [one["status"] for one in cluster.status(RMD_NODE_STATES, "rmd-node-state-n1")["conditions"]],
            lambda found: found == ["False"],
        )
        dead.troubles.clear()
        await cluster.says("a", "Reserved")
        assert held(dead) == {"default/a": ("0-1",)}


@pytest.mark.parametrize("keep", [True, False])
async def test_a_daemon_that_restarts_gets_what_it_lost(cluster: RmdCluster, *, keep: bool) -> None:
    daemon = StandIn()
    async with cluster.node("n1", daemon), cluster.controller():
        await cluster.reserve("a", "n1")
        await cluster.says("a", "Reserved")
        daemon.daemon.restart(keep=keep)
        await asyncio.sleep(30)
        await eventually(lambda: held(daemon) == {"default/a": ("0-1",)})
        assert sent(daemon) == ["POST"] if keep else ["POST", "POST"]


@pytest.mark.parametrize("kind", list(Kind))
@pytest.mark.parametrize("method", ["GET", "POST", "DELETE"])
async def test_a_daemon_in_trouble_holds_what_it_should_in_the_end(
    cluster: RmdCluster, kind: Kind, method: str
) -> None:
    daemon = StandIn()
    async with cluster.node("n1", daemon), cluster.controller(timeout=1.0):
        await cluster.reserve("old", "n1", coreIds=["4"])
        await cluster.says("old", "Reserved")
        daemon.troubles.append(Trouble(kind, method, times=3))
        await cluster.reserve("a", "n1")
        await cluster.remove(RMD_WORKLOADS, "old", "default")
        await cluster.gone("old")
        await cluster.says("a", "Reserved")
        assert held(daemon) == {"default/a": ("0-1",)}


async def test_what_others_made_is_not_touched(cluster: RmdCluster) -> None:
    daemon = StandIn()
    for number, uuid, origin in (("100", "by-hand", "REST"), ("101", "vm", "OPENSTACK"), ("102", "", "REST")):
        core = f"{number[-1]}0"
        daemon.daemon.add(Workload(id=number, uuid=uuid, core_ids=(core,), max=1, min=1, origin=origin))
    before = daemon.daemon.workloads()
    async with cluster.node("n1", daemon), cluster.controller():
        await cluster.show("n1")
        await cluster.reserve("a", "n1", coreIds=["1"])
        await cluster.says("a", "Reserved")
        await cluster.remove(RMD_WORKLOADS, "a", "default")
        await cluster.gone("a")
        assert daemon.daemon.workloads() == before
        shown = await eventually(lambda: cluster.status(RMD_NODE_STATES, "rmd-node-state-n1").get("workloads"), bool)
        assert shown.keys() == {"by-hand", "vm", "id 102"}


async def test_a_deletion_while_no_controller_runs_is_made_up_for(cluster: RmdCluster) -> None:
    daemon = StandIn()
    async with cluster.node("n1", daemon):
        async with cluster.controller():
            await cluster.reserve("a", "n1")
            await cluster.says("a", "Reserved")
        await cluster.remove(RMD_WORKLOADS, "a", "default")
        assert cluster.object("a") is not None
        async with cluster.controller():
            await cluster.gone("a")
        assert held(daemon) == {}


async def test_no_write_reaches_a_daemon_after_the_term(cluster: RmdCluster) -> None:
    daemon = StandIn()
    leads = True
    async with (
        cluster.node("n1", daemon),
        await cluster.client() as client,
        cluster.controller(client.within(Fence(lambda: leads))),
    ):
        await cluster.reserve("a", "n1", coreIds=["1"])
        await cluster.says("a", "Reserved")
        leads = False
        await cluster.reserve("b", "n1", coreIds=["2"])
        daemon.daemon.restart(keep=False)
        await asyncio.sleep(60)
        assert held(daemon) == {}
        assert sent(daemon) == ["POST"]
        assert sent(daemon, "GET")


async def test_two_controllers_make_no_reservation_twice(cluster: RmdCluster) -> None:
    daemon = StandIn()
    async with cluster.node("n1", daemon), cluster.controller(), cluster.controller():
        for number in range(12):
            await cluster.reserve(f"a{number}", "n1", coreIds=[str(number)], rdt={"cache": {"max": 0, "min": 0}})
        for number in range(12):
            await cluster.says(f"a{number}", "Reserved")
        for number in range(0, 12, 2):
            await cluster.remove(RMD_WORKLOADS, f"a{number}", "default")
        for number in range(0, 12, 2):
            await cluster.gone(f"a{number}")
        assert held(daemon) == {f"default/a{number}": (str(number),) for number in range(1, 12, 2)}


async def test_a_status_is_written_to_the_object_that_was_read_alone(cluster: RmdCluster) -> None:
    """An API server does not compare the UID of a merge patch of a status."""
    await cluster.reserve("a", "n/1~")
    made = cluster.object("a")
    assert made is not None
    body = {"status": {"workloadStates": {}}}
    await cluster.admin.patch(RMD_WORKLOADS, "a", body, patch_type="merge", namespace="default", subresource="status")
    key, state = ("default", "a"), {"response": "Success: 201"}
    below = ("workloadStates", "n/1~")
    with pytest.raises(ApiError):
        await write_status(cluster.admin, RMD_WORKLOADS, key, "of-an-earlier-one", state, below=below)
    assert cluster.states("a") == {}
    await write_status(cluster.admin, RMD_WORKLOADS, key, made["metadata"]["uid"], state, below=below)
    assert cluster.states("a") == {"n/1~": state}
    await write_status(cluster.admin, RMD_WORKLOADS, key, made["metadata"]["uid"], None, below=below)
    assert cluster.states("a") == {}
    await write_status(cluster.admin, RMD_WORKLOADS, ("default", "gone"), "u", state, below=below)


async def test_one_name_in_two_namespaces(cluster: RmdCluster) -> None:
    daemon = StandIn()
    async with cluster.node("n1", daemon), cluster.controller():
        await cluster.reserve("a", "n1", namespace="team-a", coreIds=["1"])
        await cluster.reserve("a", "n1", namespace="team-b", coreIds=["2"])
        await cluster.says("a", "Reserved", "team-a")
        await cluster.says("a", "Reserved", "team-b")
        assert held(daemon) == {"team-a/a": ("1",), "team-b/a": ("2",)}


async def test_all_cores_of_selected_nodes(cluster: RmdCluster) -> None:
    one, other = StandIn(), StandIn()
    async with cluster.node("n1", one, rdt="true", rack="1"), cluster.node("n2", other, rack="1"), cluster.controller():
        await cluster.configure(rdt="true")
        await cluster.reserve("a", coreIds=[], allCores=True, reservedCoreIds=["0-3"], nodeSelector={"rack": "1"})
        await cluster.says("a", "Reserved")
        assert held(one) == {"default/a": ("4-31",)}
        await cluster.patched(NODES, "n2", {"metadata": {"labels": {"rdt": "true"}}}, namespace="")
        await eventually(lambda: held(other) == {"default/a": ("4-31",)})
        await cluster.patched(NODES, "n1", {"metadata": {"labels": {"rack": None}}}, namespace="")
        await eventually(lambda: held(one) == {})


async def test_a_node_that_is_gone_holds_up_no_deletion(cluster: RmdCluster) -> None:
    async with cluster.controller():
        await cluster.reserve("a", "unknown")
        await eventually(lambda: "there is no node unknown" in cluster.ready("a").get("message", ""))
        await cluster.remove(RMD_WORKLOADS, "a", "default")
        await cluster.gone("a")


async def test_a_daemon_that_is_away_is_waited_for(cluster: RmdCluster) -> None:
    daemon = StandIn()
    await cluster.configure(rdt="true")
    async with cluster.controller():
        async with cluster.node("n1", daemon, rdt="true"):
            await cluster.reserve("a", "n1")
            await cluster.says("a", "Reserved")
            await cluster.admin.delete(PODS, "rmd-n1", namespace="default")
            await cluster.remove(RMD_WORKLOADS, "a", "default")
            await eventually(lambda: "no daemon runs on the node" in cluster.ready("a").get("message", ""))
            assert cluster.object("a") is not None
        await cluster.admin.delete(NODES, "n1")
        await cluster.gone("a")


async def test_a_bad_spec_is_said_and_keeps_what_there_is(cluster: RmdCluster) -> None:
    daemon = StandIn()
    async with cluster.node("n1", daemon), cluster.controller():
        await cluster.reserve("a", "n1")
        await cluster.says("a", "Reserved")
        await cluster.change("a", coreIds=["9-4"])
        ready = await cluster.says("a", "InvalidSpec")
        assert ready["message"] == "spec.coreIds[0]: want the lower core first, got '9-4'"
        assert held(daemon) == {"default/a": ("0-1",)}


async def said_by_the_operator(cluster: RmdCluster) -> None:
    """The status that the operator wrote."""
    status = {"status": {"workloadStates": {"n1": {"response": "Success: 201", "id": "1", "status": "Successful"}}}}
    await cluster.admin.patch(RMD_WORKLOADS, "a", status, patch_type="merge", namespace="default", subresource="status")


async def test_a_reservation_of_the_operator_is_taken_over(cluster: RmdCluster) -> None:
    daemon = StandIn()
    daemon.daemon.add(Workload(uuid="a", core_ids=("0-1",), max=2, min=2, origin="REST"))
    async with cluster.node("n1", daemon):
        await cluster.reserve("a", "n1")
        await said_by_the_operator(cluster)
        async with cluster.controller():
            await cluster.says("a", "Reserved")
            assert sent(daemon) == []
            await cluster.change("a", coreIds=["2"])
            await eventually(lambda: held(daemon) == {"default/a": ("2",)})


@pytest.mark.parametrize("deleted", [False, True])
async def test_a_reservation_of_the_operator_is_known_after_a_release_that_was_refused(
    cluster: RmdCluster, *, deleted: bool
) -> None:
    daemon = StandIn()
    daemon.daemon.add(Workload(uuid="a", core_ids=("0-1",), max=2, min=2, origin="REST"))
    daemon.troubles.append(Trouble(Kind.ERROR, "DELETE", times=2))
    async with cluster.node("n1", daemon):
        await cluster.reserve("a", "n1")
        await said_by_the_operator(cluster)
        async with cluster.controller():
            await cluster.says("a", "Reserved")
            if deleted:
                await cluster.admin.delete(RMD_WORKLOADS, "a", namespace="default")
                await cluster.gone("a")
            else:
                await cluster.change("a", coreIds=["2"])
            await eventually(lambda: held(daemon) == ({} if deleted else {"default/a": ("2",)}))
            assert sent(daemon, "DELETE") == ["DELETE"] * 3


async def test_after_a_failed_patch_of_another_client_no_class_is_shared(cluster: RmdCluster) -> None:
    daemon = StandIn(replace(TWO_SOCKETS, classes=4), Faults(last_class_lost=False))
    async with cluster.node("n1", daemon), cluster.controller():
        await cluster.reserve("a", "n1", coreIds=["0"])
        await cluster.says("a", "Reserved")
        (record,) = daemon.daemon.workloads()
        with pytest.raises(Failure, match="Not enough cache"):
            daemon.daemon.patch(record.id, Workload(max=9, min=9))
        await cluster.reserve("b", "n1", coreIds=["1"])
        await cluster.reserve("c", "n1", coreIds=["2"])
        await asyncio.sleep(30)
        await eventually(lambda: len({one.cos_name for one in daemon.daemon.workloads()}) == 2)
        assert len(held(daemon)) == 2
