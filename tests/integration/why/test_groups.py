"""Pods that the scheduler tries together: a group that is missing, is a gang without its Pods, or fits on no node."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import cast

import pytest
import pytest_asyncio

from app.kube.resources import CUSTOM_RESOURCE_DEFINITIONS, PODS, Resource
from app.text import stamp
from app.why import groups
from app.why.inquiry import JUDGES
from app.why.model import Judge, State
from tests.integration.doctor.patient import JSON, Patient

GROUP = "scheduling.example.com"
UNSCHEDULABLE = "0/2 nodes are available: 2 Insufficient example.com/vf"


@pytest_asyncio.fixture(autouse=True, loop_scope="module")
async def kinds(patient: Patient, monkeypatch: pytest.MonkeyPatch) -> None:
    """PodGroup and Workload, which the sandbox does not have, in a group of their own."""
    for constant, judge in (("POD_GROUPS", groups.judge_group), ("SCHEDULED_WORKLOADS", groups.judge_workload)):
        real: Resource = getattr(groups, constant)
        resource = replace(real, group=GROUP)
        names = {"plural": resource.plural, "kind": resource.kind, "singular": resource.kind.lower()}
        schema = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
        version = {"name": resource.version, "served": True, "storage": True, "schema": schema}
        version["subresources"] = {"status": {}}
        spec = {"group": GROUP, "scope": "Namespaced", "names": names, "versions": [version]}
        await patient.create(CUSTOM_RESOURCE_DEFINITIONS, f"{resource.plural}.{GROUP}", spec=spec)
        monkeypatch.setattr(groups, constant, resource)
        monkeypatch.setitem(cast("dict[Resource, tuple[Judge, ...]]", JUDGES), resource, (judge,))


async def group(patient: Patient, minimum: int, **spec: JSON) -> None:
    policy = {"gang": {"minCount": minimum}} if minimum else {"basic": {}}
    await patient.create(groups.POD_GROUPS, "ring", namespace="default", spec={"schedulingPolicy": policy, **spec})


async def scheduled(patient: Patient, status: str, reason: str, message: str = "") -> None:
    condition = {"type": "PodGroupInitiallyScheduled", "status": status, "reason": reason, "message": message}
    conditions = [condition | {"lastTransitionTime": stamp()}]
    await patient.report(groups.POD_GROUPS, "ring", {"conditions": conditions}, namespace="default")


async def member(patient: Patient, name: str, of: str = "ring") -> None:
    await patient.pod(name, spec={"schedulingGroup": {"podGroupName": of}})


async def test_a_group_that_is_missing_names_the_one_that_was_meant(patient: Patient) -> None:
    await group(patient, 0)
    await member(patient, "p", of="rings")
    verdict = (await patient.why("pod/p")).verdict
    assert (verdict.state, verdict.so) == (State.stuck, "the scheduler does not try its Pods")
    assert "there is no PodGroup rings in default; there is ring" in verdict.because
    assert "name ring in spec.schedulingGroup" in verdict.next
    manifest = PODS.body(
        {"name": "q"},
        spec={"containers": [{"name": "c", "image": "i"}], "schedulingGroup": {"podGroupName": "rings"}},
    )
    assert (await patient.why(manifests=[manifest])).verdict.text == "would stay Pending"


async def test_a_gang_without_its_pods_is_stuck_after_a_while(patient: Patient) -> None:
    await group(patient, 3)
    await member(patient, "p")
    await member(patient, "q")
    await member(patient, "over")
    await patient.report(PODS, "over", {"phase": "Succeeded"}, namespace="default")
    assert (await patient.why("podgroup/ring")).verdict.state is State.waits
    patient.later = timedelta(minutes=10)
    verdict = (await patient.why("podgroup/ring")).verdict
    assert (verdict.state, verdict.asks) == (State.stuck, "3 Pods at the same time")
    assert verdict.because == ("2 Pods name it, and it needs 3",)
    assert verdict.next == "is scheduled when 1 more Pod with spec.schedulingGroup ring exists"
    of_pod = (await patient.why("pod/p")).verdict
    assert of_pod.state is State.stuck
    assert of_pod.because[:2] == ("PodGroup default/ring: waits for its Pods", "2 Pods name it, and it needs 3")
    # A gang with fewer Pods is another: that is for who made it.
    assert (verdict.fix, of_pod.fix) == ("", "")


async def test_a_group_that_fits_on_no_node(patient: Patient) -> None:
    await group(patient, 1, workloadRef={"workloadName": "train", "templateName": "workers"})
    await patient.create(groups.SCHEDULED_WORKLOADS, "train", namespace="default", spec={"podGroupTemplates": []})
    await member(patient, "p")
    await scheduled(patient, "False", "Unschedulable", UNSCHEDULABLE)
    for target in ("podgroup/ring", "pod/p", f"workload.{GROUP}/train"):
        verdict = (await patient.why(target)).verdict
        assert verdict.state is State.stuck, target
        assert UNSCHEDULABLE in verdict.because
    await scheduled(patient, "True", "Scheduled")
    assert (await patient.why("podgroup/ring")).verdict.state is State.fine
    verdict = (await patient.why(f"workload.{GROUP}/train")).verdict
    assert (verdict.state, verdict.text) == (State.fine, "has 1 PodGroup, all scheduled")


async def test_where_the_kind_is_not_served_there_is_no_group(
    patient: Patient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.undo()
    await member(patient, "p")
    verdict = (await patient.why("pod/p")).verdict
    assert "there is no PodGroup ring in default, nor any other" in verdict.because


async def test_who_may_not_read_groups_reads_what_the_scheduler_says(patient: Patient) -> None:
    await group(patient, 3)
    await member(patient, "p")
    rules = [{"apiGroups": [""], "resources": ["pods", "events"], "verbs": ["get", "list"]}]
    await patient.bind("user", rules, namespace="default", user=True)
    answer = await patient.why("pod/p", kubeconfig=patient.kubeconfig_of("user"))
    assert answer.verdict.because == ("no scheduler has looked at it",)
    assert any("podgroups" in text for text in answer.unread)
