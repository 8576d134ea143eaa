"""Pods and nodes that are not healthy, and the ConfigMap that says what follows."""

from __future__ import annotations

import asyncio

import pytest

from app.appwrappers.model import APP_WRAPPERS, PODS_READY, UNHEALTHY
from app.kube.resources import NODES, PODS, Resource
from tests.support.appwrappers import CONFIG, NAMESPACE, SHORT, SYSTEM, AppWrapperCluster, pod

pytestmark = pytest.mark.simulated


async def test_pods_in_a_crash_loop_are_failed_ones(cluster: AppWrapperCluster) -> None:
    async with cluster.controller():
        await cluster.wrap("looping", pod("p"), restartLimit="3", **SHORT)
        await cluster.there(PODS, "p")
        waiting = {"state": {"waiting": {"reason": "CrashLoopBackOff"}}, "lastState": {}, "ready": False}
        status = {"name": "c", "image": "busybox", "imageID": "", "restartCount": 3} | waiting
        body = {"phase": "Running", "containerStatuses": [status]}
        await cluster.set_status("p", body, NAMESPACE)
        await asyncio.sleep(3)
        assert cluster.phase("looping") == "Running"
        assert cluster.condition("looping", PODS_READY)["status"] == "False"
        await cluster.set_status("p", {"containerStatuses": [status | {"restartCount": 4}]}, NAMESPACE)
        await cluster.reaches("looping", "Resetting")
        assert cluster.condition("looping", UNHEALTHY)["reason"] == "FoundFailedPods"


async def test_pods_leave_nodes_that_health_checks_have_labeled(cluster: AppWrapperCluster) -> None:
    """No retry is used up; new Pods keep off such nodes."""
    gpus = pod("p")
    gpus["spec"]["containers"][0]["resources"] = {"limits": {"nvidia.com/gpu": "1"}}
    node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "dpu"}}
    await cluster.admin.create(NODES, node)
    async with cluster.controller():
        await cluster.wrap("moved", gpus, **SHORT)
        found = await cluster.there(PODS, "p")
        terms = found["spec"]["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
        wanted = {"key": "autopilot.ibm.com/gpuhealth", "operator": "NotIn", "values": ["TESTING", "EVICT"]}
        assert terms["nodeSelectorTerms"] == [{"matchExpressions": [wanted]}]
        await cluster.bind("p", NAMESPACE)
        await cluster.running("p")
        await cluster.says("moved", PODS_READY, "SufficientPodsReady")
        labels = {"metadata": {"labels": {"autopilot.ibm.com/gpuhealth": "EVICT"}}}
        await cluster.admin.patch(NODES, "dpu", labels, patch_type="merge")
        await cluster.says("moved", UNHEALTHY, "AutopilotNoExecute")
        assert cluster.status(APP_WRAPPERS, "moved").get("resettingCount", 0) == 0


async def test_the_config_map_is_followed_and_a_wrong_one_is_not_used(cluster: AppWrapperCluster) -> None:
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": CONFIG}}
    text = "appwrapper: {faultTolerance: {retryLimit: 0, failureGracePeriod: 1000000000}}"
    resource = Resource("", "v1", "configmaps", "ConfigMap")
    await cluster.admin.create(resource, body | {"data": {"config.yaml": text}}, namespace=SYSTEM)
    async with cluster.controller():
        for name in ("one", "two"):
            await cluster.wrap(name, pod(name))
            await cluster.there(PODS, name)
            await cluster.ended(name, 1)
            await cluster.reaches(name, "Failed")
            wrong = {"data": {"config.yaml": "appwrapper: {faultTolerance: {retryLimit: many}}"}}
            await cluster.admin.patch(resource, CONFIG, wrong, patch_type="merge", namespace=SYSTEM)
