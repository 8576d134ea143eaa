"""What holds the deletion of an AppWrapper, and what does not."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from app.appwrappers.model import APP_WRAPPER_UID, APP_WRAPPERS, DELETED, QUOTA_RESERVED, RESOURCES_DEPLOYED
from app.kube.conditions import condition
from app.kube.resources import CUSTOM_RESOURCE_DEFINITIONS, PODS, Resource
from tests.support.appwrappers import JOBS, NAMESPACE, SHORT, AppWrapperCluster, job, pod
from tests.support.waiting import eventually
from tests.support.widgets import WIDGET, WIDGETS, define_widgets
from tests.support.workloads import behind

pytestmark = pytest.mark.simulated


async def test_a_kind_that_is_removed_later_does_not_hold_the_deletion(cluster: AppWrapperCluster) -> None:
    await define_widgets(cluster.admin)
    async with cluster.controller():
        await cluster.wrap("kinds", pod("p"), WIDGET, **SHORT)
        await cluster.reaches("kinds", "Running")
        await cluster.there(WIDGETS, "w")
        await cluster.admin.delete(CUSTOM_RESOURCE_DEFINITIONS, "widgets.example.com")
        await cluster.admin.delete(APP_WRAPPERS, "kinds", namespace=NAMESPACE)
        await eventually(lambda: cluster.object(APP_WRAPPERS, "kinds") is None)
        assert cluster.pods() == {}


async def test_a_kind_that_a_new_controller_never_saw_does_not_hold_the_deletion(cluster: AppWrapperCluster) -> None:
    await define_widgets(cluster.admin)
    async with cluster.controller():
        await cluster.wrap("kinds", pod("p"), WIDGET)
        await cluster.reaches("kinds", "Running")
    await cluster.admin.delete(CUSTOM_RESOURCE_DEFINITIONS, "widgets.example.com")
    await cluster.admin.delete(APP_WRAPPERS, "kinds", namespace=NAMESPACE)
    async with cluster.controller():
        await eventually(lambda: cluster.object(APP_WRAPPERS, "kinds") is None)
        assert cluster.pods() == {}


async def test_what_a_finalizer_holds_counts_as_gone_after_the_grace(cluster: AppWrapperCluster) -> None:
    """And it delays no other AppWrapper."""
    await define_widgets(cluster.admin)
    async with cluster.controller():
        held = WIDGET | {"metadata": {"name": "w", "finalizers": ["example.com/held"]}}
        await cluster.wrap("held", pod("p"), held, forcefulDeletionGracePeriodDuration="10s")
        await cluster.wrap("other", pod("q"))
        await cluster.reaches("held", "Running")
        await cluster.admin.delete(APP_WRAPPERS, "held", namespace=NAMESPACE)
        await cluster.reaches("held", "Terminating")
        await cluster.admin.delete(APP_WRAPPERS, "other", namespace=NAMESPACE)
        await eventually(lambda: cluster.object(APP_WRAPPERS, "other") is None)
        assert cluster.phase("held") == "Terminating"
        assert condition(cluster.component("held"), RESOURCES_DEPLOYED)["reason"] == DELETED
        await asyncio.sleep(9)
        await eventually(lambda: cluster.object(APP_WRAPPERS, "held") is None)
        assert cluster.object(WIDGETS, "w")


async def test_a_pod_whose_node_is_silent_is_removed_by_force(cluster: AppWrapperCluster) -> None:
    async with cluster.controller() as client:
        await cluster.wrap("silent", pod("p"), forcefulDeletionGracePeriodDuration="10s")
        await cluster.there(PODS, "p")
        await cluster.bind("p", NAMESPACE)
        await cluster.running("p")
        await cluster.suspend("silent")
        await cluster.reaches("silent", "Suspending")
        await asyncio.sleep(8)
        assert list(cluster.pods()) == ["p"]
        await cluster.reaches("silent", "Suspended")
        assert cluster.pods() == {}
        assert client.counts["delete pods"] == 2


async def test_quota_is_held_until_the_last_pod_is_gone(cluster: AppWrapperCluster) -> None:
    """Pods outlive the Job that has made them."""
    async with cluster.controller():
        await _pod_of_a_job(cluster, "slow")
        await cluster.bind("j-1", NAMESPACE)
        await _suspended_with_its_last_pod(cluster, "slow")


async def test_quota_is_held_for_a_pod_that_the_cache_does_not_have_yet(cluster: AppWrapperCluster) -> None:
    """The watches of two kinds are not in step: a Job may be seen to go before the Pods that it has made are seen."""

    async with await cluster.client(behind(PODS)) as client, cluster.controller(client):
        await _pod_of_a_job(cluster, "quick")
        await _suspended_with_its_last_pod(cluster, "quick")


async def _pod_of_a_job(cluster: AppWrapperCluster, name: str) -> None:
    """An AppWrapper of this name runs; its Job has the Pod `j-1`."""
    await cluster.wrap(name, job("j"))
    labels = (await cluster.there(JOBS, "j"))["spec"]["template"]["metadata"]["labels"]
    await cluster.reaches(name, "Running")
    await cluster.admin.create(PODS, pod("j-1", labels=labels), namespace=NAMESPACE)


async def _suspended_with_its_last_pod(cluster: AppWrapperCluster, name: str) -> None:
    """It keeps its quota when the Job has gone, until the Pod has gone too."""
    await cluster.suspend(name)
    await eventually(lambda: cluster.object(JOBS, "j") is None)
    await asyncio.sleep(5)
    assert cluster.phase(name) == "Suspending"
    assert cluster.condition(name, QUOTA_RESERVED)["status"] == "True"
    await cluster.admin.delete(PODS, "j-1", namespace=NAMESPACE, grace_period_seconds=0)
    await cluster.reaches(name, "Suspended")


async def test_one_whose_name_is_no_label_value_goes(cluster: AppWrapperCluster) -> None:
    """Admission refuses it; without the webhook it is stored, and no object of it can have its label."""
    async with cluster.controller():
        name = "n" * 64
        await cluster.wrap(name, pod("p"))
        await cluster.reaches(name, "Failed")
        await cluster.admin.delete(APP_WRAPPERS, name, namespace=NAMESPACE)
        await eventually(lambda: cluster.object(APP_WRAPPERS, name) is None)


async def test_an_object_that_takes_the_place_of_ours_is_not_deleted(cluster: AppWrapperCluster) -> None:
    """Between the look and the deletion, another Pod gets the name."""
    client = await cluster.client()
    delete = client.delete

    async def late(resource: Resource, name: str, **options: Any) -> Any:
        await cluster.admin.delete(PODS, "p", namespace=NAMESPACE, grace_period_seconds=0)
        await cluster.admin.create(PODS, pod("p"), namespace=NAMESPACE)
        client.delete = delete  # type: ignore[method-assign]
        return await delete(resource, name, **options)

    async with cluster.controller(client):
        await cluster.wrap("replaced", pod("p"))
        await cluster.reaches("replaced", "Running")
        client.delete = late  # type: ignore[method-assign]
        await cluster.suspend("replaced")
        await cluster.reaches("replaced", "Suspended")
        assert list(cluster.pods()) == ["p"]
        assert APP_WRAPPER_UID not in cluster.pods()["p"]["metadata"].get("labels", {})
    await client.close()
