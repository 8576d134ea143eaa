"""Objects that have ended stay so when they are cleaned up: Jobs by their TTL, Pods with their node, all by hand."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from app.appwrappers.model import APP_WRAPPERS, ENDED, PODS_READY, UNHEALTHY
from app.kube.conditions import condition
from app.kube.resources import PODS
from tests.support.appwrappers import JOBS, NAMESPACE, SHORT, AppWrapperCluster, job, pod, service
from tests.support.waiting import eventually

pytestmark = pytest.mark.simulated
JSON = dict[str, Any]
DONE = {"status": {"conditions": [{"type": "Complete", "status": "True"}], "succeeded": 1}}
BROKEN = {"type": "Failed", "status": "True", "reason": "BackoffLimitExceeded", "message": "too often"}


def end_of(cluster: AppWrapperCluster, name: str, index: int = 0) -> JSON:
    return condition(cluster.component(name, index), ENDED)


async def job_done(cluster: AppWrapperCluster, name: str, body: JSON = DONE) -> None:
    await cluster.there(JOBS, name)
    await cluster.patched(JOBS, name, body, subresource="status")


async def job_cleaned(cluster: AppWrapperCluster, name: str) -> None:
    await cluster.admin.delete(JOBS, name, namespace=NAMESPACE, propagation_policy="Background")
    await eventually(lambda: cluster.object(JOBS, name) is None)


async def test_a_job_that_succeeded_and_is_cleaned_up_leaves_the_rest_running(cluster: AppWrapperCluster) -> None:
    async with cluster.controller():
        await cluster.wrap("ttl", job("prepare"), pod("train"), **SHORT)
        await cluster.there(PODS, "train")
        await cluster.running("train")
        await cluster.reaches("ttl", "Running")
        uid = cluster.uid("train")
        await job_done(cluster, "prepare")
        await eventually(lambda: end_of(cluster, "ttl").get("reason") == "Succeeded")
        await job_cleaned(cluster, "prepare")
        await cluster.says("ttl", PODS_READY, "SufficientPodsReady")
        await asyncio.sleep(20)
        assert (cluster.phase("ttl"), cluster.uid("train")) == ("Running", uid)
        await cluster.ended("train")
        await cluster.reaches("ttl", "Succeeded")
        assert cluster.status(APP_WRAPPERS, "ttl").get("resettingCount", 0) == 0


async def test_an_end_and_its_cleaning_up_at_once_are_seen_in_the_watch(cluster: AppWrapperCluster) -> None:
    """A TTL of 0: by the time at which the AppWrapper is looked at, the object is gone."""
    async with cluster.controller():
        await cluster.wrap("ttl", job("prepare"), pod("train"), **SHORT)
        await cluster.there(PODS, "train")
        await cluster.running("train")
        await cluster.reaches("ttl", "Running")
        await asyncio.sleep(1)
        await asyncio.gather(
            cluster.patched(JOBS, "prepare", DONE, subresource="status"),
            cluster.admin.delete(JOBS, "prepare", namespace=NAMESPACE, propagation_policy="Background"),
        )
        await eventually(lambda: end_of(cluster, "ttl").get("reason") == "Succeeded")
        await asyncio.sleep(20)
        assert cluster.phase("ttl") == "Running"


async def test_a_pod_that_succeeded_goes_with_its_node(cluster: AppWrapperCluster) -> None:
    async with cluster.controller():
        await cluster.wrap("gc", pod("prepare"), pod("train"), service("s"), **SHORT)
        for name in ("prepare", "train"):
            await cluster.there(PODS, name)
            await cluster.running(name)
        await cluster.ended("prepare")
        await eventually(lambda: end_of(cluster, "gc").get("reason") == "Succeeded")
        await cluster.admin.delete(PODS, "prepare", namespace=NAMESPACE)
        await asyncio.sleep(20)
        assert cluster.phase("gc") == "Running"
        await cluster.ended("train")
        await cluster.reaches("gc", "Succeeded")


async def test_an_end_survives_the_controller(cluster: AppWrapperCluster) -> None:
    """The object is cleaned up while no controller runs."""
    async with cluster.controller():
        await cluster.wrap("restarted", job("prepare"), pod("train"), **SHORT)
        await cluster.there(PODS, "train")
        await cluster.running("train")
        await job_done(cluster, "prepare")
        await eventually(lambda: end_of(cluster, "restarted").get("status") == "True")
    await job_cleaned(cluster, "prepare")
    async with cluster.controller():
        await asyncio.sleep(20)
        assert cluster.phase("restarted") == "Running"
        await cluster.ended("train")
        await cluster.reaches("restarted", "Succeeded")


async def test_what_had_not_ended_is_missing(cluster: AppWrapperCluster) -> None:
    async with cluster.controller():
        await cluster.wrap("lost", job("prepare"), pod("train"), **SHORT)
        await cluster.there(JOBS, "prepare")
        await cluster.reaches("lost", "Running")
        await job_cleaned(cluster, "prepare")
        await cluster.reaches("lost", "Resetting")
        assert cluster.condition("lost", UNHEALTHY)["reason"] == "MissingComponent"


async def test_a_failed_one_that_is_gone_stays_failed(cluster: AppWrapperCluster) -> None:
    async with cluster.controller():
        await cluster.wrap("broken", job("prepare"), pod("train"), **SHORT)
        await cluster.there(JOBS, "prepare")
        await cluster.reaches("broken", "Running")
        await asyncio.sleep(1)
        await asyncio.gather(
            cluster.patched(JOBS, "prepare", {"status": {"conditions": [BROKEN]}}, subresource="status"),
            cluster.admin.delete(JOBS, "prepare", namespace=NAMESPACE, propagation_policy="Background"),
        )
        await cluster.reaches("broken", "Resetting")
        found = cluster.condition("broken", UNHEALTHY)
        assert found["reason"] == "FailedComponent"
        assert "Job prepare: BackoffLimitExceeded: too often" in found["message"]


async def test_the_exit_code_of_a_failed_pod_counts_after_the_pod_is_gone(cluster: AppWrapperCluster) -> None:
    """Also after a restart: the code makes a retry pointless."""
    async with cluster.controller():
        await cluster.wrap("coded", pod("p"), failureGracePeriodDuration="1h", terminalExitCodes="3")
        await cluster.there(PODS, "p")
        await cluster.ended("p", 3)
        await eventually(lambda: end_of(cluster, "coded").get("status") == "True")
    await cluster.admin.delete(PODS, "p", namespace=NAMESPACE)
    async with cluster.controller():
        assert await cluster.reaches("coded", "Resetting", "Failed") == "Failed"
        assert "exit code 3" in cluster.condition("coded", UNHEALTHY)["message"]


async def test_a_reset_forgets_what_had_ended(cluster: AppWrapperCluster) -> None:
    """All is created again, and the end of the former object is not that of the new one."""
    async with cluster.controller():
        await cluster.wrap("again", job("prepare"), pod("train"), **SHORT)
        await cluster.there(PODS, "train")
        await job_done(cluster, "prepare")
        await eventually(lambda: end_of(cluster, "again").get("status") == "True")
        first = await cluster.there(JOBS, "prepare")
        await cluster.ended("train", 1)
        await cluster.reaches("again", "Resetting")
        await cluster.there(JOBS, "prepare", other_than=first["metadata"]["uid"])
        await cluster.reaches("again", "Running")
        assert end_of(cluster, "again") == {}
        await job_cleaned(cluster, "prepare")
        await cluster.reaches("again", "Resetting")
        assert cluster.condition("again", UNHEALTHY)["reason"] == "MissingComponent"


async def test_an_end_from_before_the_peer_reset_it_is_not_believed(cluster: AppWrapperCluster) -> None:
    """AppWrapper v1.2 keeps a condition that it does not know, and creates the object again."""
    async with cluster.controller():
        await cluster.wrap("taken", job("prepare"), pod("train"), **SHORT)
        await cluster.there(PODS, "train")
        await cluster.running("train")
        await job_done(cluster, "prepare")
        await eventually(lambda: end_of(cluster, "taken").get("status") == "True")
    await job_cleaned(cluster, "prepare")
    components = cluster.status(APP_WRAPPERS, "taken")["componentStatus"]
    for status in components:
        deployed = condition(status, "ResourcesDeployed")
        deployed.pop("observedGeneration")  # as the peer writes it
        deployed["lastTransitionTime"] = f"{cluster.now():%Y-%m-%dT%H:%M:%SZ}"
    await cluster.patched(APP_WRAPPERS, "taken", {"status": {"componentStatus": components}}, subresource="status")
    async with cluster.controller():
        await cluster.reaches("taken", "Resetting")
        assert cluster.condition("taken", UNHEALTHY)["reason"] == "MissingComponent"
