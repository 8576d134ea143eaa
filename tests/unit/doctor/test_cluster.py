"""What the doctor reads of a cluster."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import cast

import pytest

from app.doctor.cluster import EVERYWHERE, Cluster, locate
from app.doctor.installed import read_deployment
from app.errors import ApiError
from app.kube.client import KubeClient, Page
from app.kube.resources import NETWORK_ATTACHMENTS, NODES, PODS, Resource
from app.wire import JSON


class Answering:
    """An API server that takes its time: for each request `took` seconds, with its clock read `read` seconds in."""

    def __init__(self, *, ahead: float, read: float, took: float) -> None:
        self.now = datetime(2026, 1, 1, tzinfo=UTC)
        self._ahead, self._read, self._took = ahead, read, took

    async def server_time(self) -> datetime:
        there = self.now + timedelta(seconds=self._read + self._ahead)
        self.now += timedelta(seconds=self._took)
        return there.replace(microsecond=0)


@pytest.mark.parametrize(
    ("ahead", "read", "took", "skew"),
    [
        (0, 0, 30, 0),
        (0, 30, 30, 0.5),
        (0, 0.5, 1, 0),
        (60, 0, 0, 60.5),
        (60, 10, 20, 50.5),
        (-60, 10, 20, -49.5),
        (-3600, 0, 0, -3599.5),
    ],
)
async def test_a_slow_answer_is_no_difference_of_clocks(ahead: float, read: float, took: float, skew: float) -> None:
    server = Answering(ahead=ahead, read=read, took=took)
    cluster = Cluster(cast("KubeClient", server), "berth", now=lambda: server.now)
    found = await cluster.skew()
    assert found is not None
    assert found.total_seconds() == skew


async def test_a_deployment_that_is_listed_without_a_namespace_is_none_of_ours() -> None:
    """The API server that lists it is a proxy, or broken. There is nothing to be found by it, and it stops nothing."""
    labels = {"app.kubernetes.io/part-of": "berth", "app.kubernetes.io/component": "webhook"}
    odd = {"metadata": {"name": "berth-webhook", "labels": labels}, "spec": {}}

    class Listing:
        async def list_page(self, *_: object, **__: object) -> Page:
            return Page([odd], "", "")

    assert read_deployment(odd) is None
    cluster = Cluster(cast("KubeClient", Listing()), "")
    await locate(cluster)
    assert (cluster.namespace, await cluster.installed()) == ("berth-system", [])


class Recording:
    """An API server that has nothing, or refuses everything, and keeps which namespaces were listed."""

    def __init__(self, refusal: ApiError | None = None, kinds: tuple[str, ...] = ()) -> None:
        self.listed = list[tuple[str, str | None]]()
        self._refusal, self._kinds = refusal, kinds

    async def list_page(self, resource: Resource, *, namespace: str | None = None, **_: object) -> Page:
        self.listed.append((resource.plural, namespace))
        if self._refusal is not None:
            raise self._refusal
        return Page([], "", "")

    async def get_path(self, _path: str) -> JSON:
        return {"resources": [{"kind": kind, "name": f"{kind.lower()}s", "namespaced": True} for kind in self._kinds]}


async def test_with_a_scope_lists_of_namespaced_kinds_are_those_of_the_namespace() -> None:
    server = Recording()
    cluster = Cluster(cast("KubeClient", server), "berth", scope="mine")
    await cluster.listed(PODS)
    await cluster.listed(PODS, namespace="other")
    await cluster.listed(PODS, namespace=EVERYWHERE)
    await cluster.listed(NODES)
    await cluster.serves(PODS)
    assert [obj async for obj in cluster.pods()] == []
    places = ["mine", "other", None, None, "mine", "mine"]
    assert [namespace for _, namespace in server.listed] == places


@pytest.mark.parametrize(("kinds", "undefined"), [((), True), (("NetworkAttachmentDefinition",), False)])
async def test_a_kind_that_is_not_there_is_none_for_one_without_the_right(
    kinds: tuple[str, ...], *, undefined: bool
) -> None:
    """API servers refuse both alike."""
    server = Recording(ApiError("no", status=403), kinds)
    cluster = Cluster(cast("KubeClient", server), "berth")
    if undefined:
        assert await cluster.listed(NETWORK_ATTACHMENTS) == []
        assert not await cluster.serves(NETWORK_ATTACHMENTS)
        return
    with pytest.raises(ApiError):
        await cluster.listed(NETWORK_ATTACHMENTS)
    with pytest.raises(ApiError):
        await cluster.serves(NETWORK_ATTACHMENTS)
