"""Why an AppWrapper is reset, or has failed: the first cause, in its condition and in an Event."""

from __future__ import annotations

import re
from typing import Any

import pytest

from app.appwrappers.model import APP_WRAPPERS, UNHEALTHY
from app.kube.resources import CUSTOM_RESOURCE_DEFINITIONS, EVENTS, PODS
from tests.support.appwrappers import JOBS, NAMESPACE, SHORT, AppWrapperCluster, job, pod
from tests.support.waiting import eventually
from tests.support.widgets import WIDGET, define_widgets

pytestmark = pytest.mark.simulated
JSON = dict[str, Any]
QUICK = {"failureGracePeriodDuration": "1s", "admissionGracePeriodDuration": "2s", "warmupGracePeriodDuration": "2s"}
TERMINATED = {"exitCode": 7, "reason": "Error", "message": "no such file: model.bin"}


def container(state: JSON, **status: Any) -> JSON:
    return {"name": "c", "image": "b", "imageID": "", "restartCount": 0, "ready": False, "state": state} | status


async def told(cluster: AppWrapperCluster, name: str, *phases: str) -> str:
    """The message of the condition, which is that of the Event too."""
    await cluster.reaches(name, *phases)
    found = cluster.condition(name, UNHEALTHY)
    wanted = f"{found['reason']}: {found['message']}"
    await eventually(lambda: wanted in [one["message"] for one in cluster.stored(EVENTS, NAMESPACE)])
    return str(found["message"])


@pytest.mark.parametrize(
    ("status", "annotations", "cause"),
    [
        (
            {"phase": "Failed", "containerStatuses": [container({"terminated": TERMINATED})]},
            {"retryLimit": "0"},
            (
                "1 failed pods: Pod p: container c: exit code 7 (Error): no such file: model.bin; "
                "not retried: 0 of 0 retries are used"
            ),
        ),
        (
            {"phase": "Failed", "containerStatuses": [container({"terminated": TERMINATED})]},
            {"terminalExitCodes": "7"},
            (
                "1 failed pods: Pod p: container c: exit code 7 (Error): no such file: model.bin; "
                "not retried: exit code 7 is among terminalExitCodes"
            ),
        ),
        (
            {"phase": "Failed", "containerStatuses": [container({"terminated": TERMINATED})]},
            {"retryableExitCodes": "1"},
            (
                "1 failed pods: Pod p: container c: exit code 7 (Error): no such file: model.bin; "
                "not retried: exit code 7 is not among retryableExitCodes"
            ),
        ),
        (
            {"phase": "Failed", "containerStatuses": [container({"terminated": TERMINATED | {"reason": "OOMKilled"}})]},
            {},
            "1 failed pods: Pod p: container c: exit code 7 (OOMKilled): no such file: model.bin",
        ),
        (
            {"phase": "Failed", "reason": "Evicted", "message": "The node was low on resource: memory."},
            {},
            "1 failed pods: Pod p: Evicted: The node was low on resource: memory.",
        ),
        (
            {"phase": "Failed", "initContainerStatuses": [container({"terminated": TERMINATED}, name="setup")]},
            {},
            "1 failed pods: Pod p: container setup: exit code 7 (Error): no such file: model.bin",
        ),
        (
            {
                "phase": "Running",
                "containerStatuses": [
                    container(
                        {"waiting": {"reason": "CrashLoopBackOff", "message": "back-off 5m0s"}},
                        restartCount=3,
                        lastState={"terminated": TERMINATED},
                    )
                ],
            },
            {"restartLimit": "2"},
            (
                "1 failed pods: Pod p: container c: CrashLoopBackOff: back-off 5m0s, 3 restarts, "
                "last: exit code 7 (Error): no such file: model.bin"
            ),
        ),
        (
            {
                "phase": "Pending",
                "containerStatuses": [
                    container({"waiting": {"reason": "ErrImagePull", "message": "imagee: not found"}})
                ],
            },
            {},
            "1 pods pending; 0 pods running; 0 pods succeeded: Pod p: container c: ErrImagePull: imagee: not found",
        ),
        (
            {
                "phase": "Pending",
                "conditions": [
                    {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/3 nodes fit"}
                ],
            },
            {},
            "1 pods pending; 0 pods running; 0 pods succeeded: Pod p: Unschedulable: 0/3 nodes fit",
        ),
        (
            {"phase": "Running", "containerStatuses": [container({"running": {}})]},
            {},
            "0 pods pending; 1 pods running; 0 pods succeeded: Pod p: container c runs, and is not ready",
        ),
    ],
)
async def test_the_first_pod_its_container_and_its_exit_code_or_reason(
    cluster: AppWrapperCluster, status: JSON, annotations: dict[str, str], cause: str
) -> None:
    async with cluster.controller(events=True):
        await cluster.wrap("told", pod("p"), **QUICK, **annotations)
        await cluster.there(PODS, "p")
        await cluster.set_status("p", status, NAMESPACE)
        assert await told(cluster, "told", "Resetting", "Failed") == cause


async def test_a_failed_object_with_the_first_of_its_pods(cluster: AppWrapperCluster) -> None:
    async with cluster.controller(events=True):
        await cluster.wrap("told", job("j", backoffLimit=0), retryLimit="0")
        labels = (await cluster.there(JOBS, "j"))["spec"]["template"]["metadata"]["labels"]
        for name, finished, code in (("j-1", "2026-11-27T10:00:02Z", 8), ("j-2", "2026-11-27T10:00:01Z", 7)):
            await cluster.admin.create(PODS, pod(name, labels=labels), namespace=NAMESPACE)
            terminated = {"exitCode": code, "reason": "Error", "finishedAt": finished}
            status = {"phase": "Failed", "containerStatuses": [container({"terminated": terminated})]}
            await cluster.set_status(name, status, NAMESPACE)
        failed = {"type": "Failed", "status": "True", "reason": "BackoffLimitExceeded", "message": "too often"}
        await cluster.patched(JOBS, "j", {"status": {"conditions": [failed]}}, subresource="status")
        assert await told(cluster, "told", "Failed") == (
            "Found 1 failed components: Job j: BackoffLimitExceeded: too often: Pod j-2: container c: exit code 7 (Error); "
            "not retried: 0 of 0 retries are used"
        )


async def test_a_kind_whose_definition_was_deleted_is_named(cluster: AppWrapperCluster) -> None:
    """Where its object is missed, and where it is to be created again."""
    await define_widgets(cluster.admin)
    async with cluster.controller(events=True):
        await cluster.wrap("kinds", pod("p"), WIDGET, **SHORT)
        await cluster.there(PODS, "p")
        await cluster.running("p")
        await cluster.reaches("kinds", "Running")
        await cluster.admin.delete(CUSTOM_RESOURCE_DEFINITIONS, "widgets.example.com")
        unserved = "no kind Widget in example.com/v1 is served"
        assert unserved in await told(cluster, "kinds", "Resetting")
        assert re.fullmatch(
            f"error creating components: Widget w: {unserved}; not retried: .*", await told(cluster, "kinds", "Failed")
        )
        assert "no kind" in str(cluster.status(APP_WRAPPERS, "kinds")["componentStatus"][1])
