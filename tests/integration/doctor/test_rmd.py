"""RmdWorkloads that are refused, wait or hang; reservations on one side alone; and who acts on them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from app.devtools.rmd.bits import mask_of
from app.devtools.rmd.classes import Settings
from app.devtools.rmd.machine import Machine
from app.doctor.model import Finding, Severity
from app.kube.resources import DEPLOYMENTS, NAMESPACES
from app.rmd.checks.rmd import CHECK
from app.rmd.model import RMD_NODE_STATES, RMD_WORKLOADS
from tests.integration.doctor.patient import HOME, JSON, Patient
from tests.integration.doctor.rmd_patient import acting, change, deploy
from tests.support.rmd import on
from tests.support.rmd_cluster import TWO_SOCKETS, RmdCluster, StandIn, held
from tests.support.waiting import eventually

OPERATOR = "intel-rmd-operator"
NAMES = ("first", "second", "third")


async def one_complaint(patient: Patient) -> Finding:
    (found,) = await patient.complaints(CHECK)
    return found


async def shown(rmd: RmdCluster, node: str, count: int) -> None:
    """The RmdNodeState has so many reservations."""
    name = f"rmd-node-state-{node}"
    await eventually(lambda: len(rmd.status(RMD_NODE_STATES, name).get("workloads") or {}) == count)


async def test_without_the_kinds_nothing_is_said(patient: Patient) -> None:
    assert await patient.examine(CHECK) == []


async def test_what_is_reserved_is_well(patient: Patient, rmd: RmdCluster) -> None:
    await patient.client.create(NAMESPACES, {"metadata": {"name": "team-a"}})
    async with rmd.node("n1", StandIn(), rdt="true"), acting(rmd):
        await rmd.show("n1")
        await rmd.reserve("one", "n1")
        await rmd.reserve("one", "n1", namespace="team-a", coreIds=["2-3"])
        await rmd.says("one", "Reserved")
        await rmd.says("one", "Reserved", namespace="team-a")
        await shown(rmd, "n1", 2)
    patient.later = timedelta(hours=1)
    found = await patient.examine(CHECK)
    assert [(one.severity, one.message) for one in found] == [
        (Severity.ok, "1 daemon checked: no problem found"),
        (Severity.ok, "2 RmdWorkloads checked: no problem found"),
    ]


async def test_the_operator_beside_the_controller(patient: Patient, rmd: RmdCluster) -> None:
    assert await patient.complaints(CHECK) == []
    await deploy(patient, OPERATOR, "default")
    found = await one_complaint(patient)
    assert (found.severity, found.subject) == (Severity.error, f"Deployment default/{OPERATOR}")
    assert found.command == f"kubectl --namespace default scale deployment {OPERATOR} --replicas=0"
    await change(patient, OPERATOR, "default", {"replicas": 0})  # as the command does: the sandbox has no /scale
    assert await patient.complaints(CHECK) == []


@pytest.mark.parametrize(("replicas", "verb"), [(0, "scale"), (2, "describe")])
async def test_a_controller_that_is_chosen_and_does_not_run(
    patient: Patient, rmd: RmdCluster, replicas: int, verb: str
) -> None:
    await change(patient, "berth-controller", HOME, {"replicas": replicas})
    await patient.report(DEPLOYMENTS, "berth-controller", {"readyReplicas": 0}, namespace=HOME)
    found = await one_complaint(patient)
    assert (found.subject, found.message) == (
        f"Deployment {HOME}/berth-controller",
        "has the controller rmd, and no ready replica",
    )
    assert f" {verb} " in found.command


@pytest.mark.parametrize("kind", ["RmdConfig", "RmdWorkload"])
async def test_objects_that_no_controller_acts_on(patient: Patient, rmd: RmdCluster, kind: str) -> None:
    await patient.client.delete(DEPLOYMENTS, "berth-controller", namespace=HOME)
    await deploy(patient, "berth-controller", HOME, "controller", "--controllers=appwrappers")
    assert await patient.complaints(CHECK) == []
    await (rmd.configure(rdt="true") if kind == "RmdConfig" else rmd.reserve("one", "n1"))
    found = await one_complaint(patient)
    assert (
        found.message == f"there are objects of kind {kind}, and neither the controller rmd nor the RMD operator runs"
    )
    assert "--set 'controller.args.controllers={appwrappers,rmd}'" in found.command
    await deploy(patient, OPERATOR, "default")
    assert await patient.complaints(CHECK) == []


async def test_a_spec_that_no_daemon_is_asked_for(patient: Patient, rmd: RmdCluster) -> None:
    await rmd.reserve("one", "n1", coreIds=["x"])
    found = await one_complaint(patient)
    assert (found.severity, found.subject) == (Severity.error, "RmdWorkload default/one")
    assert found.message.startswith("InvalidSpec: spec.coreIds[0]: want a core")
    assert found.command == "kubectl --namespace default edit rmdworkloads.intel.com one"


async def test_an_rmdworkload_of_a_pod_is_changed_by_its_annotations(patient: Patient, rmd: RmdCluster) -> None:
    pod = await patient.pod("p")
    await rmd.reserve("one", "n1", coreIds=["x"])
    owner = {"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": pod["metadata"]["uid"], "controller": True}
    await rmd.patched(RMD_WORKLOADS, "one", {"metadata": {"ownerReferences": [owner]}})
    assert (await one_complaint(patient)).command == "kubectl --namespace default edit pod p"


async def test_no_node_is_selected(patient: Patient, rmd: RmdCluster) -> None:
    async with acting(rmd):
        await rmd.reserve("one", nodeSelector={"no": "node"})
        await rmd.says("one", "NoNodes")
    found = await one_complaint(patient)
    assert (found.severity, found.message.partition(":")[0]) == (Severity.warning, "NoNodes")


@pytest.mark.parametrize(
    ("spec", "reason", "command"),
    [
        ({"policy": "no-such"}, "UnknownPolicy", "edit rmdworkloads"),
        ({"rdt": {"cache": {"max": 9, "min": 9}}}, "CacheUsedUp", "get rmdnodestates"),
    ],
)
async def test_what_a_daemon_refuses(patient: Patient, rmd: RmdCluster, spec: JSON, reason: str, command: str) -> None:
    async with rmd.node("n1", StandIn()), acting(rmd):
        await rmd.show("n1")
        await rmd.reserve("one", "n1", **spec)
        await rmd.says("one", "NotReserved")
    found = await one_complaint(patient)
    assert (found.severity, found.subject) == (Severity.error, "RmdWorkload default/one")
    assert found.message.startswith(f"{reason} on node n1: Fail: "), found
    assert f" {command}" in found.command


async def test_cores_that_another_rmdworkload_has(patient: Patient, rmd: RmdCluster) -> None:
    async with rmd.node("n1", StandIn()), acting(rmd):
        await rmd.show("n1")
        await rmd.reserve("first", "n1")
        await rmd.says("first", "Reserved")
        await rmd.reserve("second", "n1", coreIds=["1-4"])
        await rmd.says("second", "NotReserved")
    found = await one_complaint(patient)
    assert found.subject == "RmdWorkload default/second"
    assert found.message.startswith("CoresTaken on node n1: ")
    assert found.message.endswith("has been assigned; by first (id 1)")


async def test_a_reservation_of_the_operator_that_no_status_names(patient: Patient, rmd: RmdCluster) -> None:
    """The command of the finding is that of the page for its users: the controller then takes the reservation over."""
    await patient.client.create(NAMESPACES, {"metadata": {"name": "team-a"}})
    stand_in = StandIn()
    stand_in.daemon.post(on("0-1", ways=2, uuid="latency"))
    async with rmd.node("n1", stand_in), acting(rmd):
        await rmd.show("n1")
        await rmd.reserve("latency", "n1", namespace="team-a")
        await rmd.says("latency", "NotReserved", namespace="team-a")
        await shown(rmd, "n1", 1)
        found = await one_complaint(patient)
        assert found.message.endswith("; by the reservation of its name, id 1, which its status does not have")
        await patient.run(found.command)
        await rmd.says("latency", "Reserved", namespace="team-a")
    assert await patient.complaints(CHECK) == []


async def test_classes_of_service_that_no_reservation_has(patient: Patient, rmd: RmdCluster) -> None:
    """The daemon says how many groups resctrl has. Its records, which the RmdNodeState shows, are fewer."""
    stand_in = StandIn(Machine(caches=TWO_SOCKETS.caches, classes=6))
    async with rmd.node("n1", stand_in), acting(rmd):
        await rmd.show("n1")
        await rmd.reserve("first", "n1")
        await rmd.says("first", "Reserved")
        classes = stand_in.daemon.classes
        for number, name in enumerate(list(classes.available)[:3]):
            classes._settings[name] = Settings({}, cpus=mask_of(str(20 + number)))
            classes.available.remove(name)
        await rmd.reserve("second", "n1", coreIds=["2-3"])
        await rmd.says("second", "NotReserved")
    found = await one_complaint(patient)
    assert found.subject == "RmdWorkload default/second"
    assert found.message.startswith("ClassesUsedUp on node n1: ")
    assert found.message.endswith("CLOS on host, 6 used; its reservations have 1 of these")
    assert "delete pods --selector=name=rmd-pod --field-selector=spec.nodeName=n1" in found.command


async def test_classes_of_service_that_reservations_have(patient: Patient, rmd: RmdCluster) -> None:
    async with rmd.node("n1", StandIn(Machine(caches=TWO_SOCKETS.caches, classes=4))), acting(rmd):
        await rmd.show("n1")
        for number, name in enumerate(NAMES):
            await rmd.reserve(name, "n1", coreIds=[str(number)], rdt={"cache": {"max": 1, "min": 1}})
        await eventually(lambda: {rmd.ready(name).get("reason") for name in NAMES} == {"Reserved", "NotReserved"})
    found = [one for one in await patient.complaints(CHECK) if "ClassesUsedUp" in one.message]
    assert found
    assert "its reservations have" not in found[0].message
    assert "none can be reserved before another is released" in found[0].consequence


async def test_one_that_no_daemon_was_asked_for(patient: Patient, rmd: RmdCluster) -> None:
    await rmd.reserve("one", "n1")
    condition = {"type": "Ready", "status": "False", "reason": "Pending", "message": "", "observedGeneration": 1}
    condition["lastTransitionTime"] = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    await patient.report(
        RMD_WORKLOADS, "one", {"observedGeneration": 1, "conditions": [condition]}, namespace="default"
    )
    assert await patient.complaints(CHECK) == []
    patient.later = timedelta(minutes=10)
    assert (await one_complaint(patient)).message.startswith("waits for its daemons for 10 minutes")


async def test_changes_that_the_controller_has_not_seen(patient: Patient, rmd: RmdCluster) -> None:
    await rmd.reserve("one", "n1")
    await rmd.reserve("two", "n1")
    assert await patient.complaints(CHECK) == []
    patient.later = timedelta(minutes=10)
    found = await one_complaint(patient)
    assert (found.severity, found.subject) == (Severity.error, "RmdWorkload default/one, and 1 other")
    assert found.command == f"kubectl --namespace {HOME} rollout restart deployment/berth-controller"


async def test_a_deletion_that_a_silent_daemon_holds_up(patient: Patient, rmd: RmdCluster) -> None:
    async with acting(rmd):
        async with rmd.node("n1", StandIn()):
            await rmd.reserve("one", "n1")
            await rmd.says("one", "Reserved")
        await patient.client.delete(RMD_WORKLOADS, "one", namespace="default")
        await rmd.says("one", "Releasing")
        await eventually(lambda: str(rmd.states("one")["n1"]["response"]).startswith("Fail"))
        await eventually(lambda: "Fail" in rmd.ready("one")["message"])
    assert await patient.complaints(CHECK) == []
    patient.later = timedelta(minutes=10)
    found = await one_complaint(patient)
    assert found.severity is Severity.error
    assert found.message.startswith("is being deleted for 10 minutes: 1 nodes have to release it: n1: Fail: GET http:")
    assert "--field-selector=spec.nodeName=n1" in found.command


async def test_reservations_of_no_rmdworkload_are_named_and_released(patient: Patient, rmd: RmdCluster) -> None:
    stand_in = StandIn()
    stand_in.daemon.post(on("4-5", ways=1, uuid="left"))
    stand_in.daemon.post(on("6-7", ways=1, uuid="team-a/gone"))
    stand_in.daemon.post(on("8", ways=1))
    async with rmd.node("n1", stand_in), acting(rmd):
        await rmd.show("n1")
        await rmd.reserve("one", "n1")
        await rmd.says("one", "Reserved")
        await shown(rmd, "n1", 4)
        found = await one_complaint(patient)
        assert (found.severity, found.subject) == (Severity.warning, "Node n1")
        assert found.message.endswith("holds reservations of no RmdWorkload: id 3, left (id 1), team-a/gone (id 2)")
        await patient.run(found.command)
        assert set(held(stand_in)) == {"default/one"}
        await shown(rmd, "n1", 1)
    assert await patient.complaints(CHECK) == []


async def test_a_second_reservation_of_the_same_name(patient: Patient, rmd: RmdCluster) -> None:
    """That of the operator, for cores that the RmdWorkload has no more."""
    stand_in = StandIn()
    stand_in.daemon.post(on("4-5", ways=1, uuid="one"))
    async with rmd.node("n1", stand_in), acting(rmd):
        await rmd.show("n1")
        await rmd.reserve("one", "n1")
        await rmd.says("one", "Reserved")
        await shown(rmd, "n1", 2)
    assert (await one_complaint(patient)).message.endswith("holds reservations of no RmdWorkload: one (id 1)")


async def test_a_reservation_that_the_daemon_has_lost(patient: Patient, rmd: RmdCluster) -> None:
    """An RmdWorkload that was made invalid keeps what it has; the daemon starts anew without it."""
    stand_in = StandIn()
    async with rmd.node("n1", stand_in), acting(rmd):
        await rmd.show("n1")
        await rmd.reserve("one", "n1")
        await rmd.says("one", "Reserved")
        await rmd.change("one", coreIds=["x"])
        await rmd.says("one", "InvalidSpec")
        stand_in.daemon.restart()
        await rmd.reserve("two", "n1")  # it gets the same id
        await rmd.says("two", "Reserved")
        await shown(rmd, "n1", 1)
    found = {one.subject: one for one in await patient.complaints(CHECK)}
    assert found.keys() == {"RmdWorkload default/one", "Node n1"}
    assert found["Node n1"].message == (
        "its daemon does not hold what RmdWorkloads have in their status: default/one (id 1)"
    )
