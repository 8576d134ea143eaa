"""Which objects the controller takes for those of an AppWrapper, and what it does about others, and about none."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from app.appwrappers.model import APP_WRAPPER, APP_WRAPPERS, RESOURCES_DEPLOYED, UNHEALTHY
from app.errors import ApiError
from app.kube.conditions import condition
from app.kube.resources import PODS, Resource
from tests.support.appwrappers import JOBS, NAMESPACE, SHORT, AppWrapperCluster, job, pod
from tests.support.waiting import eventually
from tests.support.widgets import WIDGET

pytestmark = pytest.mark.simulated


async def test_a_deleted_object_is_made_again(cluster: AppWrapperCluster) -> None:
    async with cluster.controller():
        await cluster.wrap("repaired", pod("p"), job("j"), **SHORT)
        await cluster.there(JOBS, "j")
        await cluster.reaches("repaired", "Running")
        first = await cluster.there(PODS, "p")
        await cluster.admin.delete(JOBS, "j", namespace=NAMESPACE, propagation_policy="Background")
        await cluster.says("repaired", UNHEALTHY, "MissingComponent")
        message = cluster.condition("repaired", UNHEALTHY)["message"]
        assert message == "Only found 1 deployed components, but was expecting 2: Job j is gone"
        await cluster.there(PODS, "p", other_than=first["metadata"]["uid"])
        await cluster.reaches("repaired", "Running")
        assert cluster.status(APP_WRAPPERS, "repaired")["resettingCount"] == 1


async def test_what_a_lagging_cache_does_not_show_is_not_missing(cluster: AppWrapperCluster) -> None:
    """The watch of Jobs is refused, so that its cache never has the Job."""
    client = await cluster.client()
    watch = client.watch

    def lagging(resource: Resource, **options: Any) -> Any:
        if resource.plural == "jobs":
            raise ApiError("jobs: slow", status=500)
        return watch(resource, **options)

    client.watch = lagging  # type: ignore[method-assign]
    async with cluster.controller(client):
        await cluster.wrap("healthy", job("j"))
        await cluster.there(JOBS, "j")
        await cluster.reaches("healthy", "Running")
        await asyncio.sleep(20)
        assert cluster.phase("healthy") == "Running"
    await client.close()


async def test_a_generated_name_is_made_once_though_the_controller_crashes(cluster: AppWrapperCluster) -> None:
    """It dies after the API server has made the Pod, and before the status has its name."""
    client = await cluster.client()
    dead = asyncio.Event()
    create = client.create

    async def crash(resource: Resource, body: Any, **more: Any) -> Any:
        made = await create(resource, body, **more)
        if resource.plural == "pods":
            dead.set()
            await asyncio.Event().wait()
        return made

    client.create = crash  # type: ignore[method-assign]
    async with cluster.controller(client):
        await cluster.wrap("generated", pod(generateName="p-"))
        await dead.wait()
    await client.close()
    before = list(cluster.pods())
    async with cluster.controller():
        await cluster.reaches("generated", "Running")
        assert list(cluster.pods()) == before
        assert before[0].startswith("p-")
        assert cluster.status(APP_WRAPPERS, "generated")["componentStatus"][0]["name"] == before[0]


async def test_an_object_of_others_is_neither_taken_over_nor_deleted(cluster: AppWrapperCluster) -> None:
    labels = {APP_WRAPPER: "second"}
    foreign = await cluster.admin.create(PODS, pod("p", labels=labels), namespace=NAMESPACE)
    async with cluster.controller():
        await cluster.wrap("first", pod("first"))
        await cluster.reaches("first", "Running")  # from here on the cache of Pods has the foreign one
        await cluster.wrap("second", pod("q"), pod("p"))
        await cluster.reaches("second", "Failed")
        problem = (
            "error creating components: Pod p: pods p exists, and belongs to another owner; not retried: it can never be "
            "created as it is"
        )
        assert cluster.condition("second", UNHEALTHY)["message"] == problem
        await cluster.says("second", RESOURCES_DEPLOYED, "Failed")
        await cluster.admin.delete(APP_WRAPPERS, "second", namespace=NAMESPACE)
        await eventually(lambda: cluster.object(APP_WRAPPERS, "second") is None)
        assert cluster.uid("p") == foreign["metadata"]["uid"]
        assert sorted(cluster.pods()) == ["first", "p"]


async def test_an_object_of_a_former_one_of_the_same_name_is_not_taken_over(cluster: AppWrapperCluster) -> None:
    """It belongs to another UID, and goes away with its owner; then ours is made."""
    owner = {"apiVersion": APP_WRAPPERS.api_version, "kind": "AppWrapper", "name": "again", "uid": "former"}
    await cluster.admin.create(PODS, pod("p", ownerReferences=[owner | {"controller": True}]), namespace=NAMESPACE)
    async with cluster.controller():
        await cluster.wrap("again", pod("p"))
        failed = "ComponentCreationErrored"
        statuses = await eventually(lambda: cluster.status(APP_WRAPPERS, "again").get("componentStatus"))
        await eventually(lambda: condition(cluster.component("again"), RESOURCES_DEPLOYED).get("reason") == failed)
        assert statuses
        assert cluster.phase("again") == "Resuming"
        await cluster.admin.delete(PODS, "p", namespace=NAMESPACE, grace_period_seconds=0)
        await cluster.reaches("again", "Running")


async def test_a_kind_that_is_not_served_fails_at_once(cluster: AppWrapperCluster) -> None:
    async with cluster.controller():
        await cluster.wrap("unknown", pod("p"), WIDGET)
        await cluster.reaches("unknown", "Failed")
        assert "no kind Widget in example.com/v1 is served" in cluster.condition("unknown", UNHEALTHY)["message"]
        await eventually(lambda: cluster.pods() == {})


async def test_a_fault_of_the_api_server_is_waited_out_for_the_admission_grace(cluster: AppWrapperCluster) -> None:
    client = await cluster.client()
    create, calls = client.create, 0

    async def full(resource: Resource, body: Any, **more: Any) -> Any:
        nonlocal calls
        if resource.plural == "pods":
            calls += 1
            if calls < 4:
                raise ApiError("exceeded quota", status=403, reason="Forbidden")
        return await create(resource, body, **more)

    client.create = full  # type: ignore[method-assign]
    async with cluster.controller(client):
        await cluster.wrap("late", pod("p"))
        await cluster.reaches("late", "Running")
        assert calls == 4
        assert cluster.status(APP_WRAPPERS, "late").get("resettingCount", 0) == 0
        calls = -1000
        await cluster.wrap("never", pod("q"), **SHORT)
        await cluster.reaches("never", "Resetting")
        assert "exceeded quota" in cluster.condition("never", UNHEALTHY)["message"]
    await client.close()


async def test_what_the_api_server_refuses_for_good_fails_at_once(cluster: AppWrapperCluster) -> None:
    broken = pod("p")
    broken["spec"]["containers"] = []
    async with cluster.controller():
        await cluster.wrap("broken", broken)
        await cluster.reaches("broken", "Failed")
        assert "containers" in cluster.condition("broken", UNHEALTHY)["message"]
