"""Why RmdWorkloads are not reserved."""

from __future__ import annotations

from app.kube.resources import NODES
from app.rmd.model import RMD_NODE_STATES, RMD_WORKLOADS
from app.why.model import State
from tests.integration.doctor.patient import Patient
from tests.integration.doctor.rmd_patient import acting
from tests.support.rmd_cluster import RmdCluster, StandIn
from tests.support.waiting import eventually


async def test_a_node_that_is_not_there_and_the_one_that_is(patient: Patient, rmd: RmdCluster) -> None:
    async with rmd.node("host-a", StandIn(), rdt="true"), acting(rmd):
        await rmd.show("host-a")
        await rmd.reserve("ghost", "host-b")
        await rmd.says("ghost", "NotReserved")
    answer = await patient.why("rmdworkload/ghost")
    verdict = answer.verdict
    assert (verdict.state, verdict.text) == (State.broken, "not reserved on 1 of 1 nodes")
    assert verdict.because == ("there is no Node host-b; there is host-a; daemons run on host-a",)
    assert verdict.codes == ("BERTH6019",)
    assert verdict.fix == "kubectl --namespace default edit rmdworkloads.intel.com ghost"


async def test_one_that_is_reserved_is_fine(patient: Patient, rmd: RmdCluster) -> None:
    async with rmd.node("host-a", StandIn(), rdt="true"), acting(rmd):
        await rmd.show("host-a")
        await rmd.reserve("one", "host-a")
        await rmd.says("one", "Reserved")
    verdict = (await patient.why("rmdworkload/one")).verdict
    assert (verdict.state, verdict.text) == (State.fine, "reserved on 1 of 1 nodes")


async def test_cores_that_another_one_has(patient: Patient, rmd: RmdCluster) -> None:
    async with rmd.node("host-a", StandIn(), rdt="true"), acting(rmd):
        await rmd.show("host-a")
        await rmd.reserve("one", "host-a")
        await rmd.says("one", "Reserved")
        await rmd.reserve("two", "host-a")
        await rmd.says("two", "NotReserved")
        await eventually(lambda: bool(rmd.status(RMD_NODE_STATES, "rmd-node-state-host-a").get("workloads")))
    verdict = (await patient.why("rmdworkload/two")).verdict
    assert verdict.state is State.broken
    assert "one (id " in verdict.because[0]
    assert verdict.fix == "kubectl --namespace default edit rmdworkloads.intel.com two"


async def test_a_manifest_that_names_a_node_that_is_not_there(patient: Patient, rmd: RmdCluster) -> None:
    spec = {"nodes": ["host-z"], "coreIds": ["1"], "rdt": {"cache": {"max": 1, "min": 1}}}
    manifest = RMD_WORKLOADS.body({"name": "new", "namespace": "default"}, spec=spec)
    async with rmd.node("host-a", StandIn(), rdt="true"):
        verdict = (await patient.why(manifests=[manifest])).verdict
    assert (verdict.state, verdict.text) == (State.stuck, "would not be reserved")
    assert verdict.because == ("there is no Node host-z; there is host-a",)


async def test_a_manifest_that_names_a_node_without_a_daemon(patient: Patient, rmd: RmdCluster) -> None:
    await patient.create(NODES, "host-b")
    spec = {"nodes": ["host-a", "host-b"], "coreIds": ["1"], "rdt": {"cache": {"max": 1, "min": 1}}}
    manifest = RMD_WORKLOADS.body({"name": "new", "namespace": "default"}, spec=spec)
    async with rmd.node("host-a", StandIn(), rdt="true"), acting(rmd):
        await rmd.show("host-a")
        verdict = (await patient.why(manifests=[manifest])).verdict
    assert (verdict.state, verdict.because) == (
        State.stuck,
        ("Node host-b has no RMD daemon; daemons run on host-a",),
    )
