"""Why AppWrappers wait, hang or fail, down to the queue, the quota and the Pod."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
import pytest_asyncio

from app.appwrappers.kueue.model import CLUSTER_QUEUES, LOCAL_QUEUES, WORKLOADS
from app.appwrappers.model import APP_WRAPPER, APP_WRAPPERS, FINALIZER, QUEUE_NAME
from app.definitions import read_definitions
from app.devtools.kueue.definitions import kueue_definitions
from app.kube.resources import CUSTOM_RESOURCE_DEFINITIONS, PODS
from app.why.model import State
from tests.integration.doctor.patient import Patient

JSON = dict[str, Any]
AT = "2026-01-01T00:00:00Z"
POD = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": {"containers": []}}


@pytest_asyncio.fixture(autouse=True, loop_scope="module")
async def kinds(patient: Patient) -> None:
    for body in (*read_definitions((APP_WRAPPERS,)), *kueue_definitions()):
        await patient.client.create(CUSTOM_RESOURCE_DEFINITIONS, body)


def condition(kind: str, status: str = "True", reason: str = "Because", message: str = "") -> JSON:
    return {"type": kind, "status": status, "reason": reason, "message": message, "lastTransitionTime": AT}


async def queues(patient: Patient, **spec: Any) -> None:
    """LocalQueue `user-queue` of ClusterQueue `all`, which has 4 CPUs."""
    flavor = {"name": "default", "resources": [{"name": "cpu", "nominalQuota": "4"}]}
    groups = [{"coveredResources": ["cpu"], "flavors": [flavor]}]
    await patient.create(CLUSTER_QUEUES, "all", spec={"resourceGroups": groups, "namespaceSelector": {}} | spec)
    await patient.create(LOCAL_QUEUES, "user-queue", namespace="default", spec={"clusterQueue": "all"})


async def wrapped(patient: Patient, name: str = "train", queue: str = "user-queue", **status: Any) -> JSON:
    labels = {QUEUE_NAME: queue} if queue else {}
    spec = {"suspend": not status or status.get("phase") == "Suspended", "components": [{"template": POD}]}
    obj = await patient.create(APP_WRAPPERS, name, namespace="default", spec=spec, metadata={"labels": labels})
    if status:
        await patient.report(APP_WRAPPERS, name, status, namespace="default")
    return obj


async def workload(patient: Patient, owner: JSON, *, cpu: str = "3", queue: str = "user-queue", **status: Any) -> None:
    name = f"appwrapper-{owner['metadata']['name']}"
    reference = {
        "apiVersion": APP_WRAPPERS.api_version,
        "kind": "AppWrapper",
        "name": owner["metadata"]["name"],
        "uid": owner["metadata"]["uid"],
        "controller": True,
    }
    container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": cpu}}}
    template = {"spec": {"containers": [container], "restartPolicy": "Never"}}
    spec = {"podSets": [{"name": "a", "count": 1, "template": template}], "queueName": queue}
    await patient.create(WORKLOADS, name, namespace="default", spec=spec, metadata={"ownerReferences": [reference]})
    if status:
        await patient.report(WORKLOADS, name, status, namespace="default")


def admission(cpu: str) -> JSON:
    assignment = {"name": "a", "flavors": {"cpu": "default"}, "resourceUsage": {"cpu": cpu}, "count": 1}
    return {
        "admission": {"clusterQueue": "all", "podSetAssignments": [assignment]},
        "conditions": [condition("QuotaReserved"), condition("Admitted")],
    }


async def test_a_queue_that_is_missing_and_the_one_that_was_meant(patient: Patient) -> None:
    await queues(patient)
    await wrapped(patient, queue="usr-queue")
    verdict = (await patient.why("appwrapper/train")).verdict
    assert (verdict.state, verdict.text) == (State.stuck, "New, will never run")
    assert verdict.because == ("there is no LocalQueue usr-queue in default; there is user-queue",)
    assert verdict.codes == ("BERTH4012",)
    await patient.run(verdict.fix)
    verdict = (await patient.why("appwrapper/train")).verdict
    assert verdict.state is State.waits


async def test_one_that_waits_for_quota_says_how_much_and_who_holds_it(patient: Patient) -> None:
    await queues(patient)
    await workload(patient, await wrapped(patient, "hog"), **admission("3"))
    used = {"name": "default", "resources": [{"name": "cpu", "total": "3", "borrowed": "0"}]}
    await patient.report(CLUSTER_QUEUES, "all", {"flavorsReservation": [used], "flavorsUsage": [used]})
    text = "couldn't assign flavors to pod set a: insufficient unused quota for cpu in flavor default, 2 more needed"
    conditions = [condition("QuotaReserved", "False", "Pending", text)]
    await workload(patient, await wrapped(patient, phase="Suspended"), conditions=conditions)
    answer = await patient.why("aw", "train")
    verdict = answer.verdict
    assert (verdict.state, verdict.text) == (State.waits, "Suspended, waits for quota")
    assert verdict.asks == "cpu 3 (1 Pod); queue user-queue -> all: 4 in all, 1 free in default; place 1 of 1"
    assert verdict.because == ("AppWrapper default/hog holds cpu 3", text)
    assert verdict.next
    assert not answer.unread
    assert ("AppWrapper default/train", "Workload default/appwrapper-train", True) in answer.links


@pytest.mark.parametrize(
    ("reason", "text"), [("ExceedsMaxQuota", "insufficient quota for cpu"), ("NoMatchingFlavor", "no flavor matches")]
)
async def test_one_that_no_quota_will_ever_fit_is_stuck(patient: Patient, reason: str, text: str) -> None:
    await queues(patient)
    conditions = [condition("QuotaReserved", "False", reason, text)]
    await workload(patient, await wrapped(patient, phase="Suspended"), conditions=conditions)
    verdict = (await patient.why("appwrapper/train")).verdict
    assert (verdict.state, verdict.because) == (State.stuck, (text,))
    assert verdict.codes == ("BERTH4012",)
    assert "clusterqueues" in verdict.fix


@pytest.mark.parametrize("where", ["local", "cluster"])
async def test_a_queue_that_is_stopped_is_named_with_the_command_that_starts_it(patient: Patient, where: str) -> None:
    await queues(patient, **({"stopPolicy": "Hold"} if where == "cluster" else {}))
    if where == "local":
        body = {"spec": {"stopPolicy": "HoldAndDrain"}}
        await patient.client.patch(LOCAL_QUEUES, "user-queue", body, patch_type="merge", namespace="default")
    await workload(patient, await wrapped(patient, phase="Suspended"))
    verdict = (await patient.why("appwrapper/train")).verdict
    assert verdict.state is State.stuck
    assert any("spec.stopPolicy is Hold" in cause for cause in verdict.because)
    await patient.run(verdict.fix)
    assert (await patient.why("appwrapper/train")).verdict.state is State.waits


async def test_a_cluster_queue_that_is_missing(patient: Patient) -> None:
    await patient.create(LOCAL_QUEUES, "user-queue", namespace="default", spec={"clusterQueue": "al"})
    await patient.create(CLUSTER_QUEUES, "all", spec={})
    await workload(patient, await wrapped(patient, phase="Suspended"))
    verdict = (await patient.why("appwrapper/train")).verdict
    assert verdict.state is State.stuck
    assert verdict.because[-1] == "there is no ClusterQueue al; there is all"


async def test_an_admission_check_that_holds_it(patient: Patient) -> None:
    await queues(patient)
    check = {"name": "provision", "state": "Pending", "message": "no nodes yet", "lastTransitionTime": AT}
    status = {"conditions": [condition("QuotaReserved")], "admissionChecks": [check]}
    await workload(patient, await wrapped(patient, phase="Suspended"), **status)
    verdict = (await patient.why("appwrapper/train")).verdict
    assert (verdict.state, verdict.because) == (State.waits, ("check provision: Pending: no nodes yet",))


async def test_one_without_a_queue_waits_for_its_user(patient: Patient) -> None:
    await wrapped(patient, queue="")
    verdict = (await patient.why("appwrapper/train")).verdict
    assert verdict.state is State.waits
    await patient.run(verdict.fix)


async def test_one_without_a_workload_is_stuck_after_a_while(patient: Patient) -> None:
    await queues(patient)
    await wrapped(patient)
    assert (await patient.why("appwrapper/train")).verdict.state is State.waits
    patient.later = timedelta(minutes=10)
    verdict = (await patient.why("appwrapper/train")).verdict
    assert (verdict.state, verdict.codes) == (State.stuck, ("BERTH4006",))


async def test_a_pod_that_crashes_is_named_although_no_condition_says_so(patient: Patient) -> None:
    await wrapped(
        patient, queue="", phase="Running", conditions=[condition("PodsReady"), condition("Unhealthy", "False")]
    )
    await patient.pod("p", labels={APP_WRAPPER: "train"}, spec={"nodeName": "n"})
    state = {"waiting": {"reason": "CrashLoopBackOff", "message": "back-off 10s"}}
    ended = {"terminated": {"exitCode": 3, "reason": "Error"}}
    container = {"name": "app", "image": "", "imageID": "", "ready": False, "restartCount": 4}
    container |= {"state": state, "lastState": ended}
    await patient.report(PODS, "p", {"phase": "Running", "containerStatuses": [container]}, namespace="default")
    verdict = (await patient.why("appwrapper/train")).verdict
    assert (verdict.state, verdict.text) == (State.broken, "Running, not ready")
    assert verdict.because == (
        "Pod default/p: runs, and is not ready: CrashLoopBackOff",
        "container app: back-off 10s: container app ended with exit code 3",
    )


async def test_one_that_failed_keeps_its_cause_after_its_pods_are_gone(patient: Patient) -> None:
    text = "1 failed pods: Pod p: container c: exit code 3; not retried: 1 of 1 retries are used"
    await wrapped(patient, queue="", phase="Failed", conditions=[condition("Unhealthy", message=text)])
    verdict = (await patient.why("appwrapper/train")).verdict
    assert (verdict.state, verdict.text, verdict.because) == (State.broken, "Failed", (text,))
    assert verdict.fix.startswith("kubectl replace --force")


async def test_one_that_is_deleted_without_its_controller_has_a_way_out(patient: Patient) -> None:
    await wrapped(patient, queue="")
    body = {"metadata": {"finalizers": [FINALIZER]}}
    await patient.client.patch(APP_WRAPPERS, "train", body, patch_type="merge", namespace="default")
    await patient.client.delete(APP_WRAPPERS, "train", namespace="default")
    assert (await patient.why("appwrapper/train")).verdict.state is State.waits
    patient.later = timedelta(minutes=10)
    verdict = (await patient.why("appwrapper/train")).verdict
    assert (verdict.state, verdict.codes) == (State.stuck, ("BERTH4011",))
    await patient.run(verdict.fix.split("\n")[0])
    verdict = (await patient.why("appwrapper/train")).verdict
    assert (verdict.state, verdict.text) == (State.broken, "does not exist")


async def test_a_name_that_is_not_there_and_the_one_that_was_meant(patient: Patient) -> None:
    await wrapped(patient, queue="")
    answer = await patient.why("appwrapper/trian")
    assert answer.verdict.because == ("there is no AppWrapper trian in default; there is train",)
    assert answer.verdict.fix == "berth why appwrapper/train -n default"
