"""Another controller beside ours, and two of ours."""

from __future__ import annotations

from typing import Any

import pytest

from app.appwrappers.model import APP_WRAPPERS
from app.errors import ApiError
from app.kube.resources import Resource
from tests.support.appwrappers import NAMESPACE, SHORT, AppWrapperCluster, app_wrapper, pod

pytestmark = pytest.mark.simulated


async def test_one_that_another_controller_manages_is_left_alone(cluster: AppWrapperCluster) -> None:
    async with cluster.controller():
        body = app_wrapper("theirs", pod("p"))
        body["spec"]["managedBy"] = "kueue.x-k8s.io/multikueue"
        await cluster.admin.create(APP_WRAPPERS, body, namespace=NAMESPACE)
        await cluster.wrap("ours", pod("q"))
        await cluster.reaches("ours", "Running")
        assert cluster.status(APP_WRAPPERS, "theirs") == {}
        assert list(cluster.pods()) == ["q"]


async def test_a_decision_upon_an_old_state_is_refused(cluster: AppWrapperCluster) -> None:
    """It is suspended while the controller is about to say that it runs."""
    client = await cluster.client()
    patch, refused = client.patch, 0

    async def late(resource: Resource, name: str, body: Any, **options: Any) -> Any:
        nonlocal refused
        if body.get("status", {}).get("phase") == "Running" and not refused:
            await cluster.suspend("raced")
        try:
            return await patch(resource, name, body, **options)
        except ApiError as error:
            refused += error.conflict
            raise

    client.patch = late  # type: ignore[method-assign]
    async with cluster.controller(client):
        await cluster.wrap("raced", pod("p"))
        await cluster.reaches("raced", "Suspended")
        assert refused == 1
    await client.close()


async def test_two_controllers_at_once_make_no_more_than_one_would(cluster: AppWrapperCluster) -> None:
    async with cluster.controller() as first, cluster.controller() as second:
        names = [f"w{number}" for number in range(10)]
        for name in names:
            await cluster.wrap(name, pod(generateName=f"{name}-"), **SHORT)
        for name in names:
            await cluster.reaches(name, "Running")
        assert len(cluster.pods()) == len(names)
        for name in names:
            await cluster.suspend(name)
        for name in names:
            await cluster.reaches(name, "Suspended")
        assert cluster.pods() == {}
        assert all(cluster.status(APP_WRAPPERS, name).get("resettingCount", 0) == 0 for name in names)
        assert first.counts["create pods"]
        assert second.counts["create pods"]
