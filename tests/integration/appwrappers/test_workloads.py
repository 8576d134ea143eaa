"""The Workload of an AppWrapper with a queue, over HTTP. The test is Kueue's scheduler: it admits and evicts."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from copy import deepcopy
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from app.appwrappers.controller.stored import stored_app_wrapper
from app.appwrappers.kueue.model import (
    ADMITTED,
    CLUSTER_QUEUE_NAME,
    EVICTED,
    FINISHED,
    JOB_UID,
    LOCAL_QUEUE_NAME,
    MULTIKUEUE,
    PODS_READY,
    PODSET,
    PREBUILT_WORKLOAD,
    PRIORITY_CLASS,
    QUOTA_RESERVED,
    REQUEUED,
    RESOURCE_FLAVORS,
    RESOURCE_IN_USE,
    WORKLOAD_NAME,
    WORKLOAD_PRIORITY_CLASSES,
    WORKLOADS,
    WORKLOADS_V1BETA1,
)
from app.appwrappers.kueue.workloads import name_of
from app.appwrappers.model import APP_WRAPPERS, PREEMPTED, QUEUE_NAME
from app.devtools.kueue.definitions import kueue_definitions
from app.devtools.kueue.stand_in import RUNTIME_CLASSES
from app.errors import ApiError
from app.kube.conditions import condition
from app.kube.resources import CUSTOM_RESOURCE_DEFINITIONS, EVENTS, PODS, Resource
from app.text import moment, stamp
from tests.support.appwrappers import (
    JOBS,
    NAMESPACE,
    SHORT,
    AppWrapperCluster,
    app_wrapper,
    job,
    open_cluster,
    pod,
    service,
)
from tests.support.kueue_cases import cluster_spec, ray_job
from tests.support.waiting import eventually
from tests.support.workloads import behind

pytestmark = pytest.mark.simulated
JSON = dict[str, Any]
ADMITTED_AT = datetime(2026, 1, 1, tzinfo=UTC)
"""When a condition of the test's has changed."""
GPUS = {"key": "gpu", "operator": "Exists", "effect": "NoSchedule"}


@pytest_asyncio.fixture
async def kueue(tmp_path: Path) -> AsyncIterator[AppWrapperCluster]:
    """With the flavor `gpus`."""
    async with open_cluster(tmp_path) as cluster:
        for body in kueue_definitions():
            await cluster.admin.create(CUSTOM_RESOURCE_DEFINITIONS, body)
        spec = {"nodeLabels": {"zone": "a"}, "tolerations": [GPUS]}
        flavor = {"apiVersion": RESOURCE_FLAVORS.api_version, "kind": RESOURCE_FLAVORS.kind}
        await cluster.admin.create(RESOURCE_FLAVORS, flavor | {"metadata": {"name": "gpus"}, "spec": spec})
        yield cluster


@contextlib.asynccontextmanager
async def both(cluster: AppWrapperCluster) -> AsyncIterator[None]:
    async with cluster.controller(), cluster.workloads():
        yield


async def queued(cluster: AppWrapperCluster, name: str, *templates: JSON, manager: str = "", **labels: str) -> JSON:
    """Create an AppWrapper that waits in a queue; `manager` is its `spec.managedBy`."""
    body = app_wrapper(name, *templates, suspend=True)
    body["metadata"]["labels"] = {QUEUE_NAME: "user-queue"} | labels
    body["spec"] |= {"managedBy": manager} if manager else {}
    return await cluster.admin.create(APP_WRAPPERS, body, namespace=NAMESPACE)


async def the_workload(cluster: AppWrapperCluster, *, other_than: str = "") -> JSON:
    def look() -> JSON | None:
        return next((one for one in cluster.stored(WORKLOADS) if one["metadata"]["uid"] != other_than), None)

    found = await eventually(look)
    assert found is not None
    return found


def now(cluster: AppWrapperCluster, workload: JSON) -> JSON:
    uid = workload["metadata"]["uid"]
    return next((one for one in cluster.stored(WORKLOADS) if one["metadata"]["uid"] == uid), {})


async def say(cluster: AppWrapperCluster, workload: JSON, status: JSON, **conditions: str) -> None:
    """Write conditions (type and reason; a reason that begins with "!" is of one that is False) and other fields."""
    before = now(cluster, workload).get("status") or {}
    kept = [one for one in before.get("conditions") or () if one["type"] not in conditions]
    made = [
        {
            "type": kind,
            "status": "False" if reason.startswith("!") else "True",
            "reason": reason.strip("!"),
            "message": "as the test says",
            "lastTransitionTime": stamp(ADMITTED_AT),
        }
        for kind, reason in conditions.items()
    ]
    body = {"status": {"conditions": kept + made} | status}
    await cluster.patched(WORKLOADS, workload["metadata"]["name"], body, subresource="status")


async def admit(cluster: AppWrapperCluster, workload: JSON, flavor: str = "gpus", **more: Any) -> None:
    assignments = [
        {"name": one["name"], "count": one["count"], "flavors": {"cpu": flavor, "memory": flavor}}
        for one in workload["spec"]["podSets"]
    ]
    admission = {"clusterQueue": "cluster-queue", "podSetAssignments": assignments}
    await say(cluster, workload, {"admission": admission} | more, QuotaReserved="QuotaReserved", Admitted="Admitted")


def has(cluster: AppWrapperCluster, workload: JSON, kind: str, status: str = "True") -> bool:
    return bool(condition(now(cluster, workload).get("status") or {}, kind).get("status") == status)


async def test_admitted_it_runs_where_the_flavors_say_and_is_finished(kueue: AppWrapperCluster) -> None:
    async with both(kueue):
        made = await queued(kueue, "sample", pod("p"), service("s"), job("j", parallelism=3))
        workload = await the_workload(kueue)
        metadata, spec = workload["metadata"], workload["spec"]
        assert metadata["name"].startswith("appwrapper-sample-")
        assert metadata["labels"] == {JOB_UID: made["metadata"]["uid"]}
        assert metadata["finalizers"] == [RESOURCE_IN_USE]
        assert metadata["ownerReferences"][0]["uid"] == made["metadata"]["uid"]
        assert spec["queueName"] == "user-queue"
        assert [(one["name"], one["count"]) for one in spec["podSets"]] == [("sample-0", 1), ("sample-1", 3)]
        assert kueue.pods() == {}
        await admit(kueue, workload)
        found = await kueue.there(PODS, "p")
        marks = {PODSET: "sample-0", LOCAL_QUEUE_NAME: "user-queue", CLUSTER_QUEUE_NAME: "cluster-queue"}
        assert found["metadata"]["labels"].items() >= marks.items()
        assert found["metadata"]["annotations"][WORKLOAD_NAME] == metadata["name"]
        assert found["spec"]["nodeSelector"] == {"zone": "a"}
        assert GPUS in found["spec"]["tolerations"]
        await kueue.ended("p")
        done = {"status": {"conditions": [{"type": "Complete", "status": "True"}], "succeeded": 3}}
        await kueue.reaches("sample", "Running")
        await kueue.patched(JOBS, "j", done, subresource="status")
        await kueue.reaches("sample", "Succeeded")
        await eventually(lambda: has(kueue, workload, FINISHED))
        assert condition(now(kueue, workload)["status"], FINISHED)["reason"] == "Succeeded"
        await eventually(lambda: not now(kueue, workload)["metadata"].get("finalizers"))


async def test_evicted_it_gives_its_quota_back_when_it_has_no_pods(kueue: AppWrapperCluster) -> None:
    async with both(kueue):
        await queued(kueue, "evicted", pod("p"))
        workload = await the_workload(kueue)
        await admit(kueue, workload)
        await kueue.there(PODS, "p")
        await kueue.bind("p", NAMESPACE)
        await kueue.running("p")
        await kueue.reaches("evicted", "Running")
        await say(kueue, workload, {}, Evicted="Preempted")
        await kueue.reaches("evicted", "Suspending")
        await asyncio.sleep(3)
        assert has(kueue, workload, QUOTA_RESERVED)
        assert kueue.condition("evicted", PREEMPTED)["reason"] == "Preempted"
        await kueue.confirm("p", NAMESPACE)
        await kueue.reaches("evicted", "Suspended")
        await eventually(lambda: has(kueue, workload, QUOTA_RESERVED, "False"))
        status = now(kueue, workload)["status"]
        assert "admission" not in status
        assert has(kueue, workload, REQUEUED)
        assert has(kueue, workload, ADMITTED, "False")
        assert has(kueue, workload, EVICTED)
        wrapper = kueue.object(APP_WRAPPERS, "evicted")
        assert wrapper
        assert "podSetInfos" not in wrapper["spec"]["components"][0]
        await say(kueue, workload, {}, Evicted="!QuotaReserved")
        await admit(kueue, workload)
        await kueue.there(PODS, "p")
        await kueue.reaches("evicted", "Running")


async def remote(cluster: AppWrapperCluster) -> JSON:
    """The Workload of an AppWrapper that MultiKueue runs in another cluster. The test copies its status from there."""
    await queued(cluster, "remote", job("j", parallelism=3), manager=MULTIKUEUE)
    workload = await the_workload(cluster)
    await admit(cluster, workload)
    await eventually(lambda: cluster.object(APP_WRAPPERS, "remote"), lambda found: found["spec"]["suspend"] is False)
    await copied(cluster, "Running", reserved="True")
    return workload


async def copied(cluster: AppWrapperCluster, phase: str, *, reserved: str) -> None:
    quota = {"type": "QuotaReserved", "status": reserved, "reason": phase, "message": ""}
    status = {"phase": phase, "conditions": [quota | {"lastTransitionTime": stamp()}]}
    await cluster.patched(APP_WRAPPERS, "remote", {"status": status}, subresource="status")


async def test_one_that_runs_in_another_cluster_keeps_its_quota_until_it_has_ended_there(
    kueue: AppWrapperCluster,
) -> None:
    async with both(kueue):
        workload = await remote(kueue)
        assert [(pods["name"], pods["count"]) for pods in workload["spec"]["podSets"]] == [("remote-0", 3)]
        await say(kueue, workload, {}, Evicted="Preempted")
        await eventually(lambda: kueue.object(APP_WRAPPERS, "remote"), lambda found: found["spec"]["suspend"] is True)
        await asyncio.sleep(3)
        assert has(kueue, workload, QUOTA_RESERVED)
        await copied(kueue, "Suspended", reserved="False")
        await eventually(lambda: has(kueue, workload, QUOTA_RESERVED, "False"))
        assert has(kueue, workload, REQUEUED)
        assert kueue.stored(JOBS) == []


async def test_it_gives_its_quota_back_where_that_cluster_is_lost(kueue: AppWrapperCluster) -> None:
    async with both(kueue):
        workload = await remote(kueue)
        await say(kueue, workload, {}, Evicted="AdmissionCheck")
        await eventually(lambda: has(kueue, workload, QUOTA_RESERVED, "False"))


async def test_it_can_be_deleted_while_it_runs_in_that_cluster(kueue: AppWrapperCluster) -> None:
    """Before its Workload, as `kubectl delete --cascade=foreground` does it."""
    async with both(kueue):
        workload = await remote(kueue)
        await kueue.admin.delete(APP_WRAPPERS, "remote", namespace=NAMESPACE, propagation_policy="Foreground")
        assert kueue.object(APP_WRAPPERS, "remote")
        await eventually(lambda: not now(kueue, workload).get("metadata", {}).get("finalizers"))


EVICTIONS = {
    "Preempted": ("True", "Requeued", "waits in the queue user-queue again"),
    "NodeFailures": ("True", "Requeued", "waits in the queue user-queue again"),
    "FlavorMigration": ("True", "Requeued", "waits in the queue user-queue again"),
    "PodsReadyTimeout": ("True", "Requeued", "waits in the queue user-queue again, after the pause that Kueue makes"),
    "AdmissionCheck": ("True", "Requeued", "waits in the queue user-queue again, after the pause that Kueue makes"),
    "ClusterQueueStopped": (
        *("False", "ClusterQueueStopped"),
        "runs again only after the ClusterQueue of the queue user-queue is started",
    ),
    "LocalQueueStopped": ("False", "LocalQueueStopped", "runs again only after the queue user-queue is started"),
    **dict.fromkeys(
        ("Deactivated", "DeactivatedDueToRequeuingLimitExceeded", "DeactivatedDueToMaximumExecutionTimeExceeded"),
        ("False", "Deactivated", "runs again only after spec.active of its Workload is set to true"),
    ),
}
"""Reasons of Kueue, and what the condition Requeued of the AppWrapper says of each."""


@pytest.mark.parametrize("reason", EVICTIONS)
async def test_one_that_is_evicted_says_whether_it_waits_again(kueue: AppWrapperCluster, reason: str) -> None:
    async with both(kueue):
        await queued(kueue, "evicted", pod("p"))
        workload = await the_workload(kueue)
        await admit(kueue, workload)
        await kueue.there(PODS, "p")
        await say(kueue, workload, {}, Evicted=reason)
        await kueue.reaches("evicted", "Suspended")
        said = kueue.condition("evicted", REQUEUED)
        assert (said["status"], said["reason"], said["message"]) == EVICTIONS[reason]
        await say(kueue, workload, {}, Evicted="!QuotaReserved")
        await admit(kueue, workload)
        await kueue.reaches("evicted", "Running", "Resuming")
        assert kueue.condition("evicted", REQUEUED).get("status") != "True"


@pytest.mark.parametrize(
    ("served", "field"),
    [(WORKLOADS, "accumulatedPastExecutionTimeSeconds"), (WORKLOADS_V1BETA1, "accumulatedPastExexcutionTimeSeconds")],
    ids=["v1beta2", "v1beta1"],
)
async def test_the_seconds_of_each_admission_count_towards_the_maximum(
    kueue: AppWrapperCluster, monkeypatch: pytest.MonkeyPatch, served: Resource, field: str
) -> None:
    """As Kueue counts them: whole seconds from each admission to the end of its reservation. v1beta1 spells it so."""
    monkeypatch.setitem(globals(), "WORKLOADS", served)
    if served is WORKLOADS_V1BETA1:
        change = [{"op": "replace", "path": "/spec/versions/0/served", "value": False}]
        await kueue.admin.patch(CUSTOM_RESOURCE_DEFINITIONS, "workloads.kueue.x-k8s.io", change, patch_type="json")
    async with both(kueue):
        await queued(kueue, "limited", pod("p"))
        workload, past = await the_workload(kueue), 0
        for _ in range(3):
            await admit(kueue, workload)
            await kueue.there(PODS, "p")
            await asyncio.sleep(7)
            await say(kueue, workload, {}, Evicted="Preempted")
            await kueue.reaches("limited", "Suspended")
            await eventually(lambda: has(kueue, workload, ADMITTED, "False"))
            status = now(kueue, workload)["status"]
            ended = moment(condition(status, ADMITTED)["lastTransitionTime"])
            assert ended is not None
            past += int((ended - ADMITTED_AT).total_seconds())
            assert status[field] == past > 0
            await say(kueue, workload, {}, Evicted="!QuotaReserved")


async def test_the_readiness_of_its_pods_is_told_as_kueue_tells_it(kueue: AppWrapperCluster) -> None:
    """The reasons of Kueue 0.19 (`generatePodsReadyCondition`): by them it times a start, or a recovery."""

    def tells(reason: str) -> Callable[[], bool]:
        return lambda: condition(now(kueue, workload)["status"], PODS_READY).get("reason") == reason

    async with both(kueue):
        body = app_wrapper("ready", pod("p"), suspend=True)
        body["metadata"] |= {
            "labels": {QUEUE_NAME: "user-queue"},
            "annotations": {f"workload.codeflare.dev.appwrapper/{key}": value for key, value in SHORT.items()},
        }
        await kueue.admin.create(APP_WRAPPERS, body, namespace=NAMESPACE)
        workload = await the_workload(kueue)
        await admit(kueue, workload)
        first = await kueue.there(PODS, "p")
        await eventually(tells("WaitForStart"))
        await kueue.running("p")
        await eventually(tells("Started"))
        await kueue.ended("p", 1)
        await eventually(tells("WaitForRecovery"))
        await kueue.there(PODS, "p", other_than=first["metadata"]["uid"])
        await kueue.running("p")
        await eventually(tells("Recovered"))
        await say(kueue, workload, {}, Evicted="Preempted")
        await eventually(lambda: has(kueue, workload, ADMITTED, "False"))
        assert tells("WaitForStart")()
        await say(kueue, workload, {}, Evicted="!QuotaReserved")
        await admit(kueue, workload)
        await kueue.there(PODS, "p")
        await kueue.running("p")
        await eventually(tells("Started"))


async def test_one_that_runs_without_admission_is_stopped(kueue: AppWrapperCluster) -> None:
    async with both(kueue):
        await queued(kueue, "early", pod("p"))
        workload = await the_workload(kueue)
        await kueue.resume("early")
        await eventually(lambda: (kueue.object(APP_WRAPPERS, "early") or {})["spec"]["suspend"])
        await kueue.reaches("early", "Suspended")
        assert kueue.pods() == {}
        assert now(kueue, workload)


async def test_a_workload_that_does_not_fit_any_more_is_replaced(kueue: AppWrapperCluster) -> None:
    """With quota it is deleted and made anew; without, it is changed in place."""
    async with both(kueue):
        await queued(kueue, "changed", pod("p"))
        workload = await the_workload(kueue)
        name = workload["metadata"]["name"]
        pod_sets = [workload["spec"]["podSets"][0] | {"count": 7}]
        await kueue.patched(WORKLOADS, name, {"spec": {"podSets": pod_sets}})
        await eventually(lambda: now(kueue, workload)["spec"]["podSets"][0]["count"] == 1)
        await kueue.patched(APP_WRAPPERS, "changed", {"metadata": {"labels": {QUEUE_NAME: "other"}}})
        await eventually(lambda: now(kueue, workload)["spec"]["queueName"] == "other")
        labels = {"kueue.x-k8s.io/max-exec-time-seconds": "60"}
        await kueue.patched(APP_WRAPPERS, "changed", {"metadata": {"labels": labels}})
        await eventually(lambda: now(kueue, workload)["spec"].get("maximumExecutionTimeSeconds") == 60)
        await admit(kueue, workload)
        await kueue.reaches("changed", "Running")
        labels = {"kueue.x-k8s.io/max-exec-time-seconds": "90"}
        await kueue.patched(APP_WRAPPERS, "changed", {"metadata": {"labels": labels}})
        second = await the_workload(kueue, other_than=workload["metadata"]["uid"])
        assert second["spec"]["maximumExecutionTimeSeconds"] == 90
        await kueue.reaches("changed", "Suspended")


async def test_in_place_of_a_workload_that_a_user_deletes_another_comes_behind_those_that_wait(
    kueue: AppWrapperCluster,
) -> None:
    """Kueue gives quota that is free to those that wait at most a second later, and whole seconds are stored."""
    async with both(kueue):
        await queued(kueue, "runs", pod("p"))
        workload = await the_workload(kueue)
        await admit(kueue, workload)
        await kueue.reaches("runs", "Running")
        await kueue.admin.delete(WORKLOADS, workload["metadata"]["name"], namespace=NAMESPACE)
        await eventually(lambda: not now(kueue, workload))
        gone = asyncio.get_running_loop().time()
        await the_workload(kueue, other_than=workload["metadata"]["uid"])
        assert asyncio.get_running_loop().time() - gone >= 1.5


async def test_a_workload_from_before_that_counts_less_is_changed_while_it_waits(kueue: AppWrapperCluster) -> None:
    """Earlier versions left out what a Pod needs besides its containers."""
    spec = {"resources": {"requests": {"cpu": "8"}}, "runtimeClassName": "kata"}
    await kueue.admin.create(RUNTIME_CLASSES, RUNTIME_CLASSES.body({"name": "kata"}, handler="kata"))
    async with both(kueue):
        made = pod("p")
        await queued(kueue, "counted", made | {"spec": made["spec"] | spec})
        workload = await the_workload(kueue)
        (pod_set,) = workload["spec"]["podSets"]
        assert spec.items() <= pod_set["template"]["spec"].items()
        for field in spec:
            less = {key: value for key, value in pod_set["template"]["spec"].items() if key != field}
            pod_sets = [pod_set | {"template": pod_set["template"] | {"spec": less}}]
            await kueue.patched(WORKLOADS, workload["metadata"]["name"], {"spec": {"podSets": pod_sets}})
            await eventually(lambda: now(kueue, workload)["spec"]["podSets"] == [pod_set])
        await admit(kueue, workload)
        await kueue.reaches("counted", "Running")


async def test_a_ray_job_gets_the_pod_that_submits_it_where_the_flavor_says(kueue: AppWrapperCluster) -> None:
    names = {"plural": "rayjobs", "singular": "rayjob", "kind": "RayJob"}
    schema = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
    version = {"name": "v1", "served": True, "storage": True, "schema": schema}
    definition = {"group": "ray.io", "scope": "Namespaced", "names": names, "versions": [version]}
    body = {"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition"}
    body |= {"metadata": {"name": "rayjobs.ray.io"}, "spec": definition}
    await kueue.admin.create(CUSTOM_RESOURCE_DEFINITIONS, body)
    async with both(kueue):
        await queued(kueue, "ray", ray_job(cluster_spec({"replicas": 2, "numOfHosts": 2})))
        workload = await the_workload(kueue)
        assert [one["count"] for one in workload["spec"]["podSets"]] == [1, 4, 1]
        await admit(kueue, workload)
        made = await kueue.there(Resource("ray.io", "v1", "rayjobs", "RayJob"), "r")
        submitter = made["spec"]["submitterPodTemplate"]
        assert submitter["spec"]["nodeSelector"] == {"zone": "a"}
        assert submitter["metadata"]["labels"][PODSET] == "ray-2"


async def test_the_priority_of_its_class_is_told_and_followed(kueue: AppWrapperCluster) -> None:
    for name, value in (("low", 1), ("high", 100)):
        body = {"apiVersion": WORKLOAD_PRIORITY_CLASSES.api_version, "kind": WORKLOAD_PRIORITY_CLASSES.kind}
        body |= {"metadata": {"name": name}, "value": value, "description": name}
        await kueue.admin.create(WORKLOAD_PRIORITY_CLASSES, body)
    async with both(kueue):
        await queued(kueue, "ranked", pod("p"), **{PRIORITY_CLASS: "low"})
        workload = await the_workload(kueue)
        ref = {"group": "kueue.x-k8s.io", "kind": "WorkloadPriorityClass", "name": "low"}
        assert (workload["spec"]["priority"], workload["spec"]["priorityClassRef"]) == (1, ref)
        await kueue.patched(APP_WRAPPERS, "ranked", {"metadata": {"labels": {PRIORITY_CLASS: "high"}}})
        await eventually(lambda: now(kueue, workload)["spec"]["priority"] == 100)


async def test_a_workload_that_was_made_before_is_taken(kueue: AppWrapperCluster) -> None:
    """As MultiKueue does it in a worker cluster."""
    async with both(kueue):
        await queued(kueue, "first", pod("p"))
        spec = deepcopy((await the_workload(kueue))["spec"])
        spec["podSets"][0] |= {"name": "second-0", "count": 5}
        body = WORKLOADS.body({"name": "made"}, spec=spec)
        made = await kueue.admin.create(WORKLOADS, body, namespace=NAMESPACE)
        wrapper = await queued(kueue, "second", pod("q"), **{PREBUILT_WORKLOAD: "made"})
        await eventually(lambda: has(kueue, made, FINISHED))
        assert condition(now(kueue, made)["status"], FINISHED)["reason"] == "OutOfSync"
        assert now(kueue, made)["metadata"]["ownerReferences"][0]["uid"] == wrapper["metadata"]["uid"]
        spec["podSets"][0] |= {"name": "third-0", "count": 1}
        body["metadata"] = {"name": "fits"}
        fits = await kueue.admin.create(WORKLOADS, body, namespace=NAMESPACE)
        wrapper = await queued(kueue, "third", pod("q"), **{PREBUILT_WORKLOAD: "fits"})
        uid = wrapper["metadata"]["uid"]
        await eventually(lambda: now(kueue, fits)["metadata"].get("labels", {}).get(JOB_UID) == uid)
        await admit(kueue, fits)
        await kueue.reaches("third", "Running")


async def test_pods_that_are_not_needed_any_more_are_reported(kueue: AppWrapperCluster) -> None:
    async with both(kueue):
        await queued(kueue, "partly", job("j", parallelism=2, completions=2))
        workload = await the_workload(kueue)
        await admit(kueue, workload)
        await kueue.there(JOBS, "j")
        await kueue.reaches("partly", "Running")
        await kueue.patched(JOBS, "j", {"status": {"succeeded": 1}}, subresource="status")
        wanted = [{"name": "partly-0", "count": 1}]
        await eventually(lambda: now(kueue, workload)["status"].get("reclaimablePods") == wanted)


async def test_its_workload_goes_with_it_and_not_before_its_pods(kueue: AppWrapperCluster) -> None:
    async with both(kueue):
        await queued(kueue, "gone", pod("p"))
        workload = await the_workload(kueue)
        await admit(kueue, workload)
        await kueue.there(PODS, "p")
        await kueue.bind("p", NAMESPACE)
        await kueue.running("p")
        await kueue.reaches("gone", "Running")
        name = workload["metadata"]["name"]
        await kueue.admin.delete(WORKLOADS, name, namespace=NAMESPACE)
        await kueue.reaches("gone", "Suspending")
        await asyncio.sleep(3)
        assert now(kueue, workload)
        await kueue.confirm("p", NAMESPACE)
        await eventually(lambda: not now(kueue, workload))
        second = await the_workload(kueue, other_than=workload["metadata"]["uid"])
        await kueue.admin.delete(APP_WRAPPERS, "gone", namespace=NAMESPACE)
        await eventually(lambda: kueue.object(APP_WRAPPERS, "gone") is None)
        # The garbage collector of a cluster does this.
        await kueue.admin.delete(WORKLOADS, second["metadata"]["name"], namespace=NAMESPACE)
        await eventually(lambda: not kueue.stored(WORKLOADS))


async def test_one_that_cannot_start_is_finished_with_the_reason(kueue: AppWrapperCluster) -> None:
    async with both(kueue):
        await queued(kueue, "wrong", pod("p"))
        workload = await the_workload(kueue)
        update = {"name": "wrong-0", "labels": {PODSET: "another"}}
        check = {"name": "c", "state": "Ready", "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z"}
        await admit(kueue, workload, admissionChecks=[check | {"podSetUpdates": [update]}])
        await eventually(lambda: has(kueue, workload, FINISHED))
        found = condition(now(kueue, workload)["status"], FINISHED)
        assert found["reason"] == "FailedToStart"
        assert "conflict for labels" in found["message"]


async def test_without_a_queue_there_is_no_workload(kueue: AppWrapperCluster) -> None:
    async with both(kueue):
        await kueue.wrap("alone", pod("p"))
        await queued(kueue, "queued", pod("q"))
        await the_workload(kueue)
        await kueue.reaches("alone", "Running")
        assert [one["spec"]["podSets"][0]["name"] for one in kueue.stored(WORKLOADS)] == ["queued-0"]


async def test_a_workload_of_another_with_the_name_is_left_alone(kueue: AppWrapperCluster) -> None:
    """The AppWrapper waits until the name is free; nothing of the other is touched."""
    async with both(kueue):
        await queued(kueue, "first", pod("p"))
        spec = deepcopy((await the_workload(kueue))["spec"])
        body = app_wrapper("second", pod("q"), suspend=True)
        made = await kueue.admin.create(APP_WRAPPERS, body, namespace=NAMESPACE)
        name = name_of(stored_app_wrapper(made))
        foreign = WORKLOADS.body({"name": name})
        before = await kueue.admin.create(WORKLOADS, foreign | {"spec": spec}, namespace=NAMESPACE)
        await kueue.patched(APP_WRAPPERS, "second", {"metadata": {"labels": {QUEUE_NAME: "user-queue"}}})
        await asyncio.sleep(5)
        assert now(kueue, before) == before
        assert kueue.phase("second") == "Suspended"
        await kueue.admin.delete(WORKLOADS, name, namespace=NAMESPACE)
        await eventually(lambda: [one for one in kueue.stored(WORKLOADS) if one["metadata"]["name"] == name])


@pytest.mark.parametrize(
    "change",
    [
        {"podSetAssignments": []},
        {"podSetAssignments": [{"name": "other", "count": 1}]},
        {"podSetAssignments": [{"name": "odd-0", "count": 1, "flavors": {"cpu": "unknown"}}]},
    ],
)
async def test_an_admission_that_does_not_fit_starts_nothing(kueue: AppWrapperCluster, change: JSON) -> None:
    async with both(kueue):
        await queued(kueue, "odd", pod("p"))
        workload = await the_workload(kueue)
        admission = {"clusterQueue": "cluster-queue"} | change
        with contextlib.suppress(ApiError):  # Kueue's rules may refuse it
            await say(kueue, workload, {"admission": admission}, QuotaReserved="x", Admitted="x")
        await queued(kueue, "well", pod("q"))
        second = await the_workload(kueue, other_than=workload["metadata"]["uid"])
        await admit(kueue, second)
        await kueue.reaches("well", "Running")
        assert kueue.phase("odd") == "Suspended"
        assert list(kueue.pods()) == ["q"]


async def test_two_workload_controllers_make_one_workload_each(kueue: AppWrapperCluster) -> None:
    async with kueue.controller(), kueue.workloads(), kueue.workloads():
        names = [f"w{number}" for number in range(8)]
        for name in names:
            await queued(kueue, name, pod(name))
        await eventually(lambda: len(kueue.stored(WORKLOADS)) == len(names))
        for workload in list(kueue.stored(WORKLOADS)):
            await admit(kueue, workload)
        for name in names:
            await kueue.reaches(name, "Running")
        assert len(kueue.stored(WORKLOADS)) == len(names)


async def child(cluster: AppWrapperCluster, name: str, owner: JSON, *, suspend: bool = False) -> JSON:
    """An AppWrapper with a queue that belongs to this object."""
    body = app_wrapper(name, pod(name), suspend=suspend)
    said = {field: owner["metadata"][field] for field in ("name", "uid")}
    reference = {"apiVersion": owner["apiVersion"], "kind": owner["kind"], "controller": True, **said}
    body["metadata"] |= {"labels": {QUEUE_NAME: "user-queue"}, "ownerReferences": [reference]}
    return await cluster.admin.create(APP_WRAPPERS, body, namespace=NAMESPACE)


async def test_what_belongs_to_a_job_of_kueue_runs_while_that_is_admitted(kueue: AppWrapperCluster) -> None:
    """It has no Workload, and is stopped while its owner waits: a user may have named any job as its owner."""
    async with both(kueue):
        owner = await queued(kueue, "owner", pod("p"))
        workload = await the_workload(kueue)
        await child(kueue, "early", owner)
        await kueue.reaches("early", "Suspended")
        await eventually(lambda: kueue.object(APP_WRAPPERS, "early"), lambda one: bool(one and one["spec"]["suspend"]))
        await admit(kueue, workload)
        await kueue.there(PODS, "p")
        await child(kueue, "late", owner)
        await kueue.there(PODS, "late")
        await asyncio.sleep(20)
        assert [one["metadata"]["uid"] for one in kueue.stored(WORKLOADS)] == [workload["metadata"]["uid"]]
        assert "late" in kueue.pods()
        assert "early" not in kueue.pods()


async def test_an_owner_that_kueue_does_not_manage_changes_nothing(kueue: AppWrapperCluster) -> None:
    async with both(kueue):
        owner = await kueue.admin.create(PODS, pod("bare"), namespace=NAMESPACE)
        made = await child(kueue, "waits", owner, suspend=True)
        workload = await the_workload(kueue)
        assert workload["metadata"]["labels"] == {JOB_UID: made["metadata"]["uid"]}
        await child(kueue, "runs", owner | {"metadata": owner["metadata"] | {"uid": "another"}})
        await eventually(lambda: kueue.object(APP_WRAPPERS, "runs"), lambda one: bool(one and one["spec"]["suspend"]))
        assert "runs" not in kueue.pods()


@pytest.mark.parametrize("status", [403, 413, 422])
async def test_a_workload_that_is_refused_is_told_and_keeps_no_other(kueue: AppWrapperCluster, status: int) -> None:
    refused = ApiError(f"POST: HTTP {status}: no", status=status)

    async def refuse(verb: str, name: str) -> None:
        if verb == "create" and name.startswith("appwrapper-bad"):
            raise refused

    async with await kueue.client() as client:
        client.before = refuse
        async with kueue.workloads(client, events=True), kueue.controller():
            await queued(kueue, "bad", pod("a"))
            await queued(kueue, "good", pod("b"))
            assert (await the_workload(kueue))["metadata"]["name"].startswith("appwrapper-good")
            await eventually(lambda: ("bad", "WorkloadRefused") in _told(kueue))
    async with kueue.workloads(events=True), kueue.controller():
        await eventually(lambda: len(kueue.stored(WORKLOADS)) == 2)


async def test_a_name_that_another_workload_has_is_told(kueue: AppWrapperCluster) -> None:
    """A user may have made a Workload of that name: it is not ours, whatever it says."""
    made = await queued(kueue, "taken", pod("a"))
    name = name_of(stored_app_wrapper(made))
    template = {"spec": {"containers": [{"name": "c", "image": "i"}]}}
    spec = {"podSets": [{"name": "m", "count": 1, "template": template}]}
    await kueue.admin.create(WORKLOADS, WORKLOADS.body({"name": name}, spec=spec), namespace=NAMESPACE)
    async with kueue.workloads(events=True), kueue.controller():
        await eventually(lambda: ("taken", "WorkloadRefused") in _told(kueue))
        await kueue.admin.delete(WORKLOADS, name, namespace=NAMESPACE)
        await eventually(lambda: [one for one in kueue.stored(WORKLOADS) if one["metadata"].get("ownerReferences")])


async def test_a_cache_that_is_behind_tells_of_nothing_missing(kueue: AppWrapperCluster) -> None:
    """The watches of two kinds are not in step: a Workload may name what its own kind's watch has not brought yet."""

    async with (
        await kueue.client(behind(RESOURCE_FLAVORS, WORKLOAD_PRIORITY_CLASSES)) as client,
        kueue.workloads(client, events=True),
        kueue.controller(),
    ):
        for resource, body in ((RESOURCE_FLAVORS, {"spec": {}}), (WORKLOAD_PRIORITY_CLASSES, {"value": 7})):
            await kueue.admin.create(resource, resource.body({"name": "late"}) | body)
        await queued(kueue, "w", pod("p"), **{PRIORITY_CLASS: "late"})
        workload = await the_workload(kueue)
        assert workload["spec"]["priority"] == 7
        await admit(kueue, workload, flavor="late")
        await kueue.reaches("w", "Running")
        await eventually(lambda: ("w", "Started") in _told(kueue))
        assert ("w", "WorkloadRefused") not in _told(kueue)


async def test_a_class_that_does_not_exist_is_told(kueue: AppWrapperCluster) -> None:
    async with kueue.workloads(events=True), kueue.controller():
        await queued(kueue, "bad", pod("a"), **{PRIORITY_CLASS: "none"})
        await queued(kueue, "good", pod("b"))
        await the_workload(kueue)
        await eventually(lambda: ("bad", "WorkloadRefused") in _told(kueue))


def _told(cluster: AppWrapperCluster) -> list[tuple[str, str]]:
    """The object and the reason of each Event."""
    return [(one["involvedObject"]["name"], one["reason"]) for one in cluster.stored(EVENTS)]
