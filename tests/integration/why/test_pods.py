"""Pods and what makes them, deletions, versions of a kind, and what may not be read."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from app.admission.injected import INJECTED_BY
from app.appwrappers.kueue.model import LOCAL_QUEUES_V1BETA1
from app.devtools.kueue.definitions import kueue_definitions
from app.kube.resources import CUSTOM_RESOURCE_DEFINITIONS, DEPLOYMENTS, JOBS, NAMESPACES, PODS, REPLICA_SETS
from app.text import stamp
from app.why.model import State
from app.why.owners import CRON_JOBS
from tests.integration.doctor.patient import JSON, Patient

POD = {"containers": [{"name": "app", "image": "app"}]}


def owned_by(obj: JSON) -> JSON:
    reference = {"apiVersion": obj["apiVersion"], "kind": obj["kind"], "controller": True}
    return reference | {"name": obj["metadata"]["name"], "uid": obj["metadata"]["uid"]}


async def deployment(patient: Patient, replicas: int, ready: int) -> JSON:
    """Deployment web and its ReplicaSet, which is what is returned."""
    template = {"metadata": {"labels": {"app": "web"}}, "spec": POD}
    spec = {"replicas": replicas, "selector": {"matchLabels": {"app": "web"}}, "template": template}
    made = await patient.create(DEPLOYMENTS, "web", namespace="default", spec=spec)
    await patient.report(DEPLOYMENTS, "web", {"replicas": replicas, "readyReplicas": ready}, namespace="default")
    metadata = {"ownerReferences": [owned_by({**made, "apiVersion": "apps/v1", "kind": "Deployment"})]}
    made = await patient.create(REPLICA_SETS, "web-1", namespace="default", spec=spec, metadata=metadata)
    return {**made, "apiVersion": "apps/v1", "kind": "ReplicaSet"}


async def pod(patient: Patient, name: str, owner: JSON, **status: Any) -> None:
    await patient.pod(name, spec={"nodeName": "n"}, ownerReferences=[owned_by(owner)])
    ready = [{"type": "Ready", "status": "True"}]
    await patient.report(PODS, name, {"phase": "Running", "conditions": ready} | status, namespace="default")


async def test_what_was_injected_is_said(patient: Patient) -> None:
    said = {"version": "0.1.0", "networks": ["default/foo"], "resources": {"example.com/foo": "1"}}
    for name, value in (("says", json.dumps(said)), ("odd", "[7"), ("odder", "[7]")):
        await patient.pod(name, spec={"nodeName": "n"}, annotations={INJECTED_BY: value})
        ready = [{"type": "Ready", "status": "True"}]
        await patient.report(PODS, name, {"phase": "Running", "conditions": ready}, namespace="default")
    verdict = (await patient.why("pod/says")).verdict
    text = "runs on n; injected by Berth 0.1.0: networks default/foo; resources example.com/foo=1"
    assert (verdict.state, verdict.text) == (State.fine, text)
    for name in ("odd", "odder"):
        assert (await patient.why(f"pod/{name}")).verdict.text == "runs on n"


def crashing(finished: str | None = None, **state: Any) -> JSON:
    ended = {"exitCode": 3, "reason": "Error"} | ({"finishedAt": finished} if finished else {})
    entry = {"name": "app", "image": "", "imageID": "", "ready": False, "restartCount": 4}
    entry |= {"state": state or {"waiting": {"reason": "CrashLoopBackOff"}}, "lastState": {"terminated": ended}}
    return {
        "containerStatuses": [entry],
        "conditions": [{"type": "Ready", "status": "False", "reason": "ContainersNotReady"}],
    }


async def test_pods_that_are_over_make_no_deployment_broken(patient: Patient) -> None:
    owner = await deployment(patient, 1, 1)
    await pod(patient, "web-1-a", owner)
    await pod(patient, "web-1-0old", owner, phase="Failed", reason="Evicted")
    verdict = (await patient.why("deploy/web")).verdict
    assert (verdict.state, verdict.text) == (State.fine, "1 of 1 Pod run")


async def test_the_pods_that_are_not_well_are_looked_at_first(patient: Patient) -> None:
    owner = await deployment(patient, 25, 24)
    for number in range(24):
        await pod(patient, f"web-{number:02}", owner)
    await pod(patient, "web-99", owner, **crashing())
    verdict = (await patient.why("deploy/web")).verdict
    assert (verdict.state, verdict.text) == (
        State.broken,
        "24 of 25 Pods run; web-99: runs, and is not ready: CrashLoopBackOff",
    )


async def test_a_failed_job_whose_pods_are_gone_has_failed(patient: Patient) -> None:
    """It is not refused: Kubernetes has deleted its Pods."""
    template = {"spec": {**POD, "restartPolicy": "Never"}}
    await patient.create(JOBS, "j", namespace="default", spec={"template": template})
    text = "Job has reached the specified backoff limit"
    failed = {"type": "Failed", "status": "True", "reason": "BackoffLimitExceeded", "message": text}
    at = "2026-01-01T00:00:00Z"
    target = failed | {"type": "FailureTarget"}
    conditions = [condition | {"lastTransitionTime": at, "lastProbeTime": at} for condition in (target, failed)]
    await patient.report(JOBS, "j", {"startTime": at, "conditions": conditions}, namespace="default")
    verdict = (await patient.why("job/j")).verdict
    assert (verdict.state, verdict.text, verdict.because) == (State.broken, "Failed", (text,))


async def test_readiness_that_fails_for_long_is_stuck_and_an_old_restart_is_no_cause(patient: Patient) -> None:
    now = datetime.now(UTC)
    await patient.pod("slow", spec={"nodeName": "n"})
    old = stamp(now - timedelta(days=30))
    status = crashing(old, running={"startedAt": old})
    status["conditions"][0]["lastTransitionTime"] = stamp(now - timedelta(seconds=5))
    await patient.report(PODS, "slow", {"phase": "Running"} | status, namespace="default")
    assert (await patient.why("pod/slow")).verdict.state is State.waits
    patient.later = timedelta(minutes=10)
    assert (await patient.why("pod/slow")).verdict.state is State.stuck


async def test_a_cron_job_of_a_file_is_not_that_of_somebody_else(patient: Patient) -> None:
    await patient.create(
        JOBS, "other", namespace="default", spec={"template": {"spec": {**POD, "restartPolicy": "Never"}}}
    )
    job = {"spec": {"template": {"spec": {**POD, "restartPolicy": "Never"}}}}
    manifest = CRON_JOBS.body({"name": "mine"}, spec={"schedule": "@daily", "jobTemplate": job})
    verdict = (await patient.why(manifests=[manifest])).verdict
    assert (verdict.state, verdict.text) == (State.fine, "would be created")


async def test_what_came_out_of_a_cluster_is_judged_as_new(patient: Patient) -> None:
    manifest = PODS.body(
        {"name": "old", "uid": "u", "deletionTimestamp": "2026-01-01T00:00:00Z"}, spec=POD, status={"phase": "Failed"}
    )
    assert (await patient.why(manifests=[manifest])).verdict.state is State.fine


async def test_a_namespace_that_does_not_go_says_what_is_left(patient: Patient) -> None:
    await patient.client.create(NAMESPACES, {"metadata": {"name": "gone", "finalizers": ["example.com/held"]}})
    left = "Some resources are remaining: widgets.example.com has 1 resource instances"
    condition = {
        "type": "NamespaceContentRemaining",
        "status": "True",
        "reason": "SomeResourcesRemain",
        "message": left,
    }
    await patient.client.delete(NAMESPACES, "gone")
    await patient.report(NAMESPACES, "gone", {"phase": "Terminating", "conditions": [condition]})
    assert (await patient.why("ns/gone")).verdict.state is State.waits
    patient.later = timedelta(hours=1)
    verdict = (await patient.why("ns/gone")).verdict
    assert verdict.state is State.stuck
    assert {left, "finalizer example.com/held holds it"} <= {*verdict.because}


async def test_one_kind_in_two_versions_is_one_kind(patient: Patient) -> None:
    for body in kueue_definitions():
        await patient.client.create(CUSTOM_RESOURCE_DEFINITIONS, body)
    spec = {"clusterQueue": "all"}
    await patient.create(LOCAL_QUEUES_V1BETA1, "q", namespace="default", spec=spec)
    answer = await patient.why("localqueue/q")
    assert answer.subject == "LocalQueue default/q"
    assert answer.verdict.because[0].startswith("there is no ClusterQueue all")


async def test_events_that_may_not_be_read_are_a_line_of_the_answer(patient: Patient) -> None:
    await patient.pod("new", spec={"nodeName": "n"})
    rules = [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get", "list"]}]
    await patient.bind("she", rules, namespace="default", user=True)
    answer = await patient.why("pod/new", kubeconfig=patient.kubeconfig_of("she"))
    assert any("list events" in text for text in answer.unread)


async def test_what_cannot_be_judged_is_not_fine(patient: Patient) -> None:
    """A status of a wrong shape, as no API server stores one, and no other judge that knows the kind."""
    storage = patient.cluster.storage
    await patient.create(
        JOBS, "odd", namespace="default", spec={"template": {"spec": {**POD, "restartPolicy": "Never"}}}
    )
    storage.get(("batch", "jobs"), "default", "odd")["spec"]["parallelism"] = "many"
    answer = await patient.why("job/odd")
    assert answer.verdict.state is not State.fine
    assert any("not judged: an internal error" in text for text in answer.unread)


@pytest.mark.parametrize("name", ["batch.kubernetes.io/job-tracking", "example.com/billing"])
async def test_a_pod_that_finalizers_of_others_hold_says_whose_they_are(patient: Patient, name: str) -> None:
    await patient.pod("held", finalizers=[name])
    await patient.client.delete(PODS, "held", namespace="default", grace_period_seconds=0)
    patient.later = timedelta(hours=1)
    verdict = (await patient.why("pod/held")).verdict
    assert (verdict.state, verdict.fix) == (State.stuck, "")
    assert verdict.because[0] == f"finalizers hold it: {name}"
    owner = "the Job controller of Kubernetes, which" if name.startswith("batch") else "the controller of example.com"
    assert verdict.next.startswith(f"{name} is of {owner}")
