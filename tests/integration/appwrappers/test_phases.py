"""From an AppWrapper to its end, over HTTP: what is created and deleted, and what the status says of it."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from prometheus_client import REGISTRY

from app.appwrappers.model import (
    APP_WRAPPER,
    APP_WRAPPER_UID,
    APP_WRAPPERS,
    DELETION_PAUSED,
    FINALIZER,
    PODS_READY,
    QUOTA_RESERVED,
    RESOURCES_DEPLOYED,
    UNHEALTHY,
)
from app.kube.client import Request
from app.kube.resources import EVENTS, PODS
from app.metrics import publish
from tests.support.appwrappers import JOBS, NAMESPACE, SERVICES, AppWrapperCluster, job, pod, service
from tests.support.waiting import eventually

pytestmark = pytest.mark.simulated


async def test_a_pod_runs_and_succeeds(cluster: AppWrapperCluster) -> None:
    async with cluster.controller():
        made = await cluster.wrap("sample", pod("p"), service("s"))
        found = await cluster.there(PODS, "p")
        await cluster.reaches("sample", "Running")
        assert cluster.condition("sample", PODS_READY)["status"] == "False"
        metadata = found["metadata"]
        assert metadata["labels"] == {APP_WRAPPER: "sample", APP_WRAPPER_UID: made["metadata"]["uid"]} | {
            "berth.dev/appwrapper-pod-set": "0"
        }
        owner = metadata["ownerReferences"][0]
        assert (owner["kind"], owner["uid"], owner["controller"]) == ("AppWrapper", made["metadata"]["uid"], True)
        service_labels = (await cluster.there(SERVICES, "s"))["metadata"]["labels"]
        assert service_labels == {APP_WRAPPER: "sample", APP_WRAPPER_UID: made["metadata"]["uid"]}
        wrapper = cluster.object(APP_WRAPPERS, "sample")
        assert wrapper
        assert wrapper["metadata"]["finalizers"] == [FINALIZER]
        await cluster.running("p")
        await cluster.says("sample", PODS_READY, "SufficientPodsReady")
        await cluster.ended("p")
        await cluster.reaches("sample", "Succeeded")
        assert cluster.condition("sample", QUOTA_RESERVED)["status"] == "False"
        assert cluster.condition("sample", RESOURCES_DEPLOYED)["reason"] == "Succeeded"
        status = cluster.status(APP_WRAPPERS, "sample")
        assert [one["name"] for one in status["componentStatus"]] == ["p", "s"]


async def test_the_objects_of_a_successful_one_go_some_time_after_its_success(cluster: AppWrapperCluster) -> None:
    """However long it ran before that."""
    async with cluster.controller():
        await cluster.wrap("long", pod("p"), successTTLDuration="10s")
        await cluster.there(PODS, "p")
        await cluster.running("p")
        await cluster.says("long", PODS_READY, "SufficientPodsReady")
        await asyncio.sleep(15)
        await cluster.ended("p")
        await cluster.reaches("long", "Succeeded")
        await asyncio.sleep(8)
        assert cluster.object(PODS, "p")
        await eventually(lambda: cluster.object(PODS, "p") is None)
        await eventually(lambda: cluster.condition("long", RESOURCES_DEPLOYED)["status"] == "False")
        assert cluster.phase("long") == "Succeeded"


async def test_a_suspended_one_has_no_objects_until_it_is_resumed(cluster: AppWrapperCluster) -> None:
    async with cluster.controller():
        await cluster.wrap("later", pod("p"), suspend=True)
        await cluster.reaches("later", "Suspended")
        await asyncio.sleep(10)
        assert cluster.pods() == {}
        wrapper = cluster.object(APP_WRAPPERS, "later")
        assert wrapper
        assert not wrapper["metadata"].get("finalizers")
        await cluster.resume("later")
        await cluster.there(PODS, "p")
        await cluster.reaches("later", "Running")
        await cluster.suspend("later")
        await cluster.reaches("later", "Suspended")
        assert cluster.pods() == {}
        for kind in (QUOTA_RESERVED, RESOURCES_DEPLOYED, PODS_READY):
            assert cluster.condition("later", kind)["status"] == "False"
        await cluster.resume("later")
        await cluster.reaches("later", "Running")
        assert list(cluster.pods()) == ["p"]


async def test_of_a_deleted_one_nothing_is_left(cluster: AppWrapperCluster) -> None:
    async with cluster.controller():
        await cluster.wrap("gone", pod("p"), service("s"))
        await cluster.reaches("gone", "Running")
        await cluster.admin.delete(APP_WRAPPERS, "gone", namespace=NAMESPACE)
        await eventually(lambda: cluster.object(APP_WRAPPERS, "gone") is None)
    assert cluster.pods() == {}
    assert cluster.object(SERVICES, "s") is None


async def test_a_failed_pod_is_retried_after_its_grace_and_a_pause(cluster: AppWrapperCluster) -> None:
    async with cluster.controller():
        await cluster.wrap(
            "retried",
            pod("p"),
            retryLimit="2",
            failureGracePeriodDuration="10s",
            retryPausePeriodDuration="20s",
        )
        uid, loop = "", asyncio.get_running_loop()
        for used in range(3):
            found = await cluster.there(PODS, "p", other_than=uid)
            uid = found["metadata"]["uid"]
            await cluster.reaches("retried", "Running")
            await cluster.running("p")
            await cluster.says("retried", PODS_READY, "SufficientPodsReady")
            await cluster.ended("p", 1)
            began = loop.time()
            await cluster.says("retried", UNHEALTHY, "FoundFailedPods")
            await asyncio.sleep(8)
            assert cluster.phase("retried") == "Running"
            await cluster.reaches("retried", "Resetting", "Failed")
            assert 9 <= loop.time() - began <= 12
            if used < 2:
                assert cluster.status(APP_WRAPPERS, "retried")["resettingCount"] == used + 1
                began = loop.time()
                await asyncio.sleep(18)
                assert cluster.phase("retried") == "Resetting"
                await cluster.reaches("retried", "Running")
                assert 19 <= loop.time() - began <= 23
        await cluster.reaches("retried", "Failed")
        await eventually(lambda: cluster.pods() == {})
        await eventually(lambda: cluster.condition("retried", QUOTA_RESERVED)["status"] == "False")
        assert cluster.status(APP_WRAPPERS, "retried")["resettingCount"] == 2


@pytest.mark.parametrize(
    ("annotations", "code", "phase"),
    [
        ({"terminalExitCodes": "3,10"}, 10, "Failed"),
        ({"terminalExitCodes": "3,10"}, 4, "Resetting"),
        ({"retryableExitCodes": "7"}, 7, "Resetting"),
        ({"retryableExitCodes": "7"}, 8, "Failed"),
        ({"retryLimit": "0"}, 1, "Failed"),
    ],
)
async def test_exit_codes_decide_whether_there_is_a_retry(
    cluster: AppWrapperCluster, annotations: dict[str, str], code: int, phase: str
) -> None:
    async with cluster.controller():
        await cluster.wrap("coded", pod("p"), failureGracePeriodDuration="1s", **annotations)
        await cluster.there(PODS, "p")
        await cluster.ended("p", code)
        assert await cluster.reaches("coded", "Resetting", "Failed") == phase


async def test_a_job_is_what_its_conditions_say(cluster: AppWrapperCluster) -> None:
    """Its failed Pods are its own matter as long as it may retry; it is not done when no Pod is there."""
    async with cluster.controller():
        await cluster.wrap(
            "jobs", job("j", completions=4, parallelism=2, backoffLimit=6), failureGracePeriodDuration="5s"
        )
        found = await cluster.there(JOBS, "j")
        await cluster.reaches("jobs", "Running")
        labels = found["spec"]["template"]["metadata"]["labels"]
        for name in ("j-1", "j-2"):
            await cluster.admin.create(PODS, pod(name, labels=labels), namespace=NAMESPACE)
        await cluster.ended("j-1", 1)
        await cluster.ended("j-2")
        await asyncio.sleep(30)
        assert cluster.phase("jobs") == "Running"
        done = [{"type": "Complete", "status": "True"}]
        await cluster.patched(JOBS, "j", {"status": {"conditions": done, "succeeded": 4}}, subresource="status")
        await cluster.reaches("jobs", "Succeeded")


async def test_a_failed_job_is_reset_with_its_reason(cluster: AppWrapperCluster) -> None:
    async with cluster.controller():
        await cluster.wrap("jobs", job("j"))
        await cluster.there(JOBS, "j")
        failed = {"type": "Failed", "status": "True", "reason": "BackoffLimitExceeded", "message": "too often"}
        await cluster.patched(JOBS, "j", {"status": {"conditions": [failed]}}, subresource="status")
        await cluster.reaches("jobs", "Resetting")
        assert cluster.condition("jobs", UNHEALTHY)["message"].endswith("BackoffLimitExceeded: too often")


async def test_nothing_is_asked_while_nothing_changes(cluster: AppWrapperCluster) -> None:
    """Of a minute, whatever phase they are in: the watches go on, and the sweep of the whole reads caches."""
    client = await cluster.client()
    session, send, asked = client.session, client.session.json, []

    async def counted(request: Request, **how: Any) -> Any:
        asked.append(request.what)
        return await send(request, **how)

    session.json = counted  # type: ignore[method-assign]
    async with cluster.controller(client, resync=10.0):
        await cluster.wrap("waits", pod("a"), suspend=True)
        await cluster.wrap("runs", pod("b"), service("s"), job("j"))
        await cluster.wrap("is-not-ready", pod("c"))
        await cluster.wrap("has-ended", pod("d"))
        await cluster.there(PODS, "d")
        await cluster.ended("d")
        await cluster.there(PODS, "b")
        await cluster.running("b")
        labels = (await cluster.there(JOBS, "j"))["spec"]["template"]["metadata"]["labels"]
        await cluster.admin.create(PODS, pod("j-1", labels=labels), namespace=NAMESPACE)
        await cluster.running("j-1")
        await cluster.says("runs", PODS_READY, "SufficientPodsReady")
        await cluster.reaches("has-ended", "Succeeded")
        await cluster.reaches("is-not-ready", "Running")
        await asyncio.sleep(2)
        asked.clear()
        await asyncio.sleep(58)
        assert asked == []
    await client.close()


async def test_used_retries_are_forgiven_after_a_healthy_time(cluster: AppWrapperCluster) -> None:
    async with cluster.controller():
        await cluster.wrap(
            "forgiven",
            pod("p"),
            retryResetPeriodDuration="10s",
            retryPausePeriodDuration="1s",
            failureGracePeriodDuration="1s",
        )
        first = await cluster.there(PODS, "p")
        await cluster.ended("p", 1)
        await cluster.there(PODS, "p", other_than=first["metadata"]["uid"])
        await cluster.reaches("forgiven", "Running")
        assert cluster.status(APP_WRAPPERS, "forgiven")["resettingCount"] == 1
        await cluster.running("p")
        await cluster.says("forgiven", PODS_READY, "SufficientPodsReady")
        await asyncio.sleep(8)
        assert cluster.status(APP_WRAPPERS, "forgiven")["resettingCount"] == 1
        await eventually(lambda: cluster.status(APP_WRAPPERS, "forgiven")["resettingCount"] == 0)


async def test_what_failed_can_be_looked_at_for_a_while(cluster: AppWrapperCluster) -> None:
    """Its quota is held; the delay passes once."""
    async with cluster.controller():
        kept = {"retryLimit": "0", "failureGracePeriodDuration": "1s", "deletionOnFailureGracePeriodDuration": "20s"}
        for name in ("kept", "forced"):
            await cluster.wrap(name, pod(name), **kept)
            await cluster.there(PODS, name)
            await cluster.ended(name, 1)
            await cluster.reaches(name, "Failed")
        began = asyncio.get_running_loop().time()
        await cluster.says("kept", DELETION_PAUSED, "DeletionPaused")
        await cluster.suspend("forced")
        await eventually(lambda: "forced" not in cluster.pods())
        said = "Kueue forced resource deletion by suspending AppWrapper"
        await eventually(lambda: cluster.condition("forced", RESOURCES_DEPLOYED)["message"] == said)
        await asyncio.sleep(15)
        assert "kept" in cluster.pods()
        assert cluster.condition("kept", QUOTA_RESERVED)["status"] == "True"
        await eventually(lambda: "kept" not in cluster.pods())
        assert 18 <= asyncio.get_running_loop().time() - began <= 23
        await eventually(lambda: cluster.condition("kept", QUOTA_RESERVED)["status"] == "False")


async def test_pods_have_their_time_to_exist_and_to_be_ready(cluster: AppWrapperCluster) -> None:
    async with cluster.controller():
        times = {"admissionGracePeriodDuration": "5s", "warmupGracePeriodDuration": "15s"}
        await cluster.wrap("cold", pod("p"), **times)
        await cluster.wrap("empty", job("j"), **times)
        await cluster.there(PODS, "p")
        began = asyncio.get_running_loop().time()
        await cluster.reaches("empty", "Resetting")
        assert 4 <= asyncio.get_running_loop().time() - began <= 8
        assert cluster.condition("empty", UNHEALTHY)["reason"] == "InsufficientPodsReady"
        assert cluster.phase("cold") == "Running"
        await asyncio.sleep(7)
        assert cluster.phase("cold") == "Running"
        await cluster.reaches("cold", "Resetting")
        assert 14 <= asyncio.get_running_loop().time() - began <= 18
        message = "0 pods pending; 0 pods running; 0 pods succeeded: Job j has 0 of 1 Pod"
        assert cluster.condition("empty", UNHEALTHY)["message"] == message


async def test_what_happens_is_told_in_events_and_metrics(cluster: AppWrapperCluster) -> None:
    before = REGISTRY.get_sample_value("appwrapper_resets_total", {"cause": "FoundFailedPods"}) or 0.0
    entered = {"namespace": NAMESPACE, "phase": "Resetting"}
    counted = REGISTRY.get_sample_value("appwrapper_phase_total", entered) or 0.0
    async with cluster.controller(events=True):
        await cluster.wrap("told", pod("p"), failureGracePeriodDuration="1s", retryPausePeriodDuration="1s")
        await cluster.there(PODS, "p")
        await cluster.ended("p", 3)
        await cluster.reaches("told", "Resetting")
        publish()
        assert REGISTRY.get_sample_value("appwrappers", {"phase": "Resetting"}) == 1
        await cluster.suspend("told")
        await cluster.reaches("told", "Suspended")
        found = await eventually(lambda: cluster.stored(EVENTS, NAMESPACE), lambda events: len(events) == 2)
    told = {(one["reason"], one["message"]) for one in found}
    assert told == {
        ("Unhealthy", "FoundFailedPods: 1 failed pods: Pod p: container c: exit code 3 (Error)"),
        ("Suspending", "Externally suspended while in the Resetting phase"),
    }
    assert {one["involvedObject"]["name"] for one in found} == {"told"}
    assert REGISTRY.get_sample_value("appwrapper_resets_total", {"cause": "FoundFailedPods"}) == before + 1
    assert REGISTRY.get_sample_value("appwrapper_phase_total", entered) == counted + 1
