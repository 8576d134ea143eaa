"""What the stand-in for Kueue does not have: cohorts, admission checks, topologies, quota for devices, and a limit of time to
be ready."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any

from app.appwrappers.kueue.model import ADMITTED, GROUP, QUOTA_RESERVED, RESOURCE_FLAVORS, WORKLOADS
from app.appwrappers.model import APP_WRAPPERS
from app.kube.conditions import condition, is_true
from app.kube.resources import DEVICE_CLASSES, NODES, PODS, RESOURCE_CLAIM_TEMPLATES, RESOURCE_SLICES, Resource
from app.text import stamp
from tests.support.control_plane import NODE_NAMES
from tests.support.devices import DRIVER, claim_spec, device, device_class, exactly, resource_slice
from tests.support.queued_cluster import ADMISSION_CHECKS, Queue, QueuedCluster, job, pod, unready
from tests.support.waiting import eventually

JSON = dict[str, Any]
STAND_IN = False
TOPOLOGIES = Resource(GROUP, "v1beta2", "topologies", "Topology", namespaced=False)
RACK = "example.com/rack"
DEVICES = "example.com/nics"
"""What quota calls the devices of the class `DRIVER`."""


async def test_what_a_cohort_lends_it_takes_back(queues: QueuedCluster) -> None:
    reclaims = {"reclaimWithinCohort": "Any"}
    async with (
        queues.queue(2, most=4, cohortName="shared") as borrower,
        queues.queue(2, cohortName="shared", preemption=reclaims) as owner,
    ):
        borrower.counted.add(owner.namespace)
        await borrower.submit("large", job("large", pods=4))
        await borrower.reaches("large", "Running")
        await owner.submit("own", job("own", pods=2))
        await owner.reaches("own", "Running")
        await borrower.interrupted("large", reason="Preempted", waits=True)
        await owner.delete("own")
        await borrower.reaches("large", "Running")


async def test_one_waits_for_the_checks_of_its_queue_and_gets_what_they_say(queues: QueuedCluster) -> None:
    async with _checked(queues) as (queue, check):
        await queue.submit("one", pod("p"))
        pending = await queue.workload("one", lambda found: is_true(found["status"], QUOTA_RESERVED) and _checks(found))
        (pod_set,) = pending["spec"]["podSets"]
        assert not is_true(pending["status"], ADMITTED)
        assert (await queue.get(PODS, "p")) == {}
        updates = [
            {"name": pod_set["name"], "annotations": {"example.com/from": "check"}, "labels": {"checked": "yes"}}
        ]
        await _answer(queue, "one", check, "Ready", podSetUpdates=updates)
        await queue.reaches("one", "Running")
        metadata = (await queue.get(PODS, "p"))["metadata"]
        assert metadata["annotations"]["example.com/from"] == "check"
        assert metadata["labels"]["checked"] == "yes"


async def test_a_check_that_asks_for_another_try_gets_one(queues: QueuedCluster) -> None:
    async with _checked(queues) as (queue, check):
        await _passes(queue, "one", check)
        await _answer(queue, "one", check, "Retry")
        await queue.interrupted("one", reason="AdmissionCheck", waits=True)
        await queue.workload("one", lambda found: _checks(found) == {check: "Pending"})
        await _lets_run(queue, "one", check)


async def test_a_check_that_rejects_it_ends_its_turn(queues: QueuedCluster) -> None:
    async with _checked(queues) as (queue, check):
        await _passes(queue, "one", check)
        await _answer(queue, "one", check, "Rejected")
        await queue.workload("one", lambda found: found["spec"].get("active") is False)
        await queue.reaches("one", "Suspended")
        await eventually(lambda: queue.get(PODS, "p"), lambda found: not found)


async def test_its_pods_are_in_one_domain_of_the_topology(queues: QueuedCluster) -> None:
    async with _racks(queues) as flavor, queues.queue(8, flavor=flavor) as queue:
        for number in range(2):
            together = job(f"j{number}", pods=3)
            marks = {"annotations": {"kueue.x-k8s.io/podset-required-topology": RACK}}
            together["spec"]["template"]["metadata"] = marks
            await queue.submit(f"a{number}", together)
        for number in range(2):
            await queue.reaches(f"a{number}", "Running")
            pods = await eventually(lambda number=number: _scheduled(queue, f"j{number}"), lambda pods: len(pods) == 3)
            assert len({pod["spec"]["nodeName"] for pod in pods}) == 1


async def test_devices_that_its_pods_claim_take_quota(queues: QueuedCluster) -> None:
    """Of Workloads that Berth makes: Kueue's integration leaves claims out (AppWrapper's `GetPodTemplateSpec`)."""
    async with _devices(queues) as group, queues.queue(4, resourceGroups=[group]) as queue:
        template = RESOURCE_CLAIM_TEMPLATES.body({"name": "nic"}, spec={"spec": claim_spec(exactly())})
        await queue.client.create(RESOURCE_CLAIM_TEMPLATES, template, namespace=queue.namespace)
        await queue.submit("first", _claiming("first"))
        await queue.reaches("first", "Running")
        await queue.submit("second", _claiming("second"))
        if queues.side != "ours":
            await queue.reaches("second", "Running")
            return
        waiting = await queue.workload("second", lambda workload: condition(workload["status"], QUOTA_RESERVED))
        reserved = condition(waiting["status"], QUOTA_RESERVED)
        assert (reserved["status"], reserved["reason"]) == ("False", "Pending")
        assert f"insufficient unused quota for {DEVICES}" in reserved["message"]
        assert (await queue.get(PODS, "second")) == {}
        await queue.delete("first")
        await queue.reaches("second", "Running")


async def test_one_that_is_not_ready_in_time_gives_way_and_is_deactivated(queues: QueuedCluster) -> None:
    """`waitForPodsReady`: a timeout, a wait that grows, and a limit of tries."""
    async with queues.queue(2) as queue:
        await queue.submit("good", pod("p"))
        await queue.reaches("good", "Running")
        await queue.workload("good", lambda found: is_true(found["status"], "PodsReady"))
        requeuing = {"backoffLimitCount": 1, "backoffBaseSeconds": 1, "backoffMaxSeconds": 1}
        async with queues.configured(waitForPodsReady={"timeout": "3s", "requeuingStrategy": requeuing}):
            await queue.submit("stuck", unready(pod("q")))
            await queue.workload("stuck", lambda found: (found["status"].get("requeueState") or {}).get("count") == 1)
            await queue.workload("stuck", lambda found: found["spec"].get("active") is False)
            await queue.interrupted("stuck", reason="DeactivatedDueToRequeuingLimitExceeded", waits=False)
            await queue.reaches("stuck", "Suspended")
            await queue.reaches("good", "Running")


@contextlib.asynccontextmanager
async def _checked(queues: QueuedCluster) -> AsyncIterator[tuple[Queue, str]]:
    """A queue with an admission check that the test answers, and the check's name."""
    name = "by-the-test"
    check = ADMISSION_CHECKS.body({"name": name}, spec={"controllerName": "example.com/test"})
    await queues.client.apply(ADMISSION_CHECKS, name, check)
    active = {"type": "Active", "status": "True", "reason": "Test", "message": "", "lastTransitionTime": stamp()}
    status = {"status": {"conditions": [active]}}
    await queues.client.patch(ADMISSION_CHECKS, name, status, patch_type="merge", subresource="status")
    async with queues.queue(1, admissionChecksStrategy={"admissionChecks": [{"name": name}]}) as queue:
        yield queue, name


async def _passes(queue: Queue, name: str, check: str) -> None:
    """An AppWrapper with a Pod, which runs since its check has said so."""
    await queue.submit(name, pod("p"))
    await _lets_run(queue, name, check)


async def _lets_run(queue: Queue, name: str, check: str) -> None:
    """Answers as the controller of the check does: once more where Kueue has written over it meanwhile."""

    async def phase() -> str:
        workload = await queue.workload(name, _checks)
        if _checks(workload)[check] == "Pending":
            await _answer(queue, name, check, "Ready")
        return str((await queue.get(APP_WRAPPERS, name)).get("status", {}).get("phase"))

    await eventually(phase, lambda reached: reached == "Running")


async def _answer(queue: Queue, name: str, check: str, state: str, **more: Any) -> None:
    """What the controller of the check writes into the Workload of an AppWrapper."""
    workload = await queue.workload(name, _checks)
    answer = {"name": check, "state": state, "message": "", "lastTransitionTime": stamp(), **more}
    body = {"status": {"admissionChecks": [answer]}}
    await queue.client.patch(
        WORKLOADS,
        workload["metadata"]["name"],
        body,
        patch_type="merge",
        namespace=queue.namespace,
        subresource="status",
    )


def _checks(workload: JSON) -> dict[str, str]:
    return {check["name"]: check["state"] for check in workload["status"].get("admissionChecks") or ()}


@contextlib.asynccontextmanager
async def _racks(queues: QueuedCluster) -> AsyncIterator[str]:
    """A flavor whose nodes are a rack each."""
    levels = [{"nodeLabel": RACK}, {"nodeLabel": "kubernetes.io/hostname"}]
    await queues.client.apply(TOPOLOGIES, "racks", TOPOLOGIES.body({"name": "racks"}, spec={"levels": levels}))
    spec = {"nodeLabels": {"example.com/pool": "racks"}, "topologyName": "racks"}
    await queues.client.apply(RESOURCE_FLAVORS, "racks", RESOURCE_FLAVORS.body({"name": "racks"}, spec=spec))
    await asyncio.gather(*(_label(queues, name, {RACK: name, "example.com/pool": "racks"}) for name in NODE_NAMES))
    yield "racks"
    await asyncio.gather(*(_label(queues, name, {RACK: None, "example.com/pool": None}) for name in NODE_NAMES))


@contextlib.asynccontextmanager
async def _devices(queues: QueuedCluster) -> AsyncIterator[JSON]:
    """Two devices on each node, of which quota is for one; yields the group of resources of a ClusterQueue."""
    await queues.client.apply(DEVICE_CLASSES, DRIVER, DEVICE_CLASSES.body({}) | device_class())
    for name in NODE_NAMES:
        slices = RESOURCE_SLICES.body({}) | resource_slice(device("nic-0"), device("nic-1"), node=name)
        await queues.client.create(RESOURCE_SLICES, slices)
    quota = [{"name": "cpu", "nominalQuota": "4"}, {"name": DEVICES, "nominalQuota": "1"}]
    mapping = {"name": DEVICES, "deviceClassNames": [DRIVER]}
    try:
        async with queues.configured(resources={"deviceClassMappings": [mapping]}):
            yield {"coveredResources": ["cpu", DEVICES], "flavors": [{"name": "default", "resources": quota}]}
    finally:
        for name in NODE_NAMES:
            await queues.client.delete(RESOURCE_SLICES, f"{name}-1")


def _claiming(name: str) -> JSON:
    """A Pod with a device by a claim."""
    claiming = pod(name)
    claiming["spec"]["resourceClaims"] = [{"name": "nic", "resourceClaimTemplateName": "nic"}]
    claiming["spec"]["containers"][0]["resources"]["claims"] = [{"name": "nic"}]
    return claiming


async def _scheduled(queue: Queue, job: str) -> list[JSON]:
    """The Pods of a Job that have a node."""
    pods = (await queue.client.list_page(PODS, namespace=queue.namespace)).items
    return [pod for pod in pods if pod["metadata"]["labels"].get("job-name") == job and pod["spec"].get("nodeName")]


async def _label(queues: QueuedCluster, node: str, labels: dict[str, str | None]) -> None:
    await queues.client.patch(NODES, node, {"metadata": {"labels": labels}}, patch_type="merge")
