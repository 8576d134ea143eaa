"""`berth tenant remove`, as it is typed, against an API server."""

from __future__ import annotations

import json

import pytest

from app.errors import ApiError
from app.kube.resources import NAMESPACES, PODS
from app.placement.model import TENANT_LABEL
from app.tenancy.tenants.enrolling import remove
from app.workloads.model import COMPANION, SYSTEM_NAMESPACE, TENANTS, WORKLOAD
from tests.support.pods import pod
from tests.support.tenants import tenant


async def test_remove_says_what_goes_and_asks(cluster) -> None:
    """Nobody is at the keyboard: without --yes nothing is removed."""
    await cluster.berth("add", "tenant1")
    await cluster.client.create(PODS, pod("own"), namespace="tenant-tenant1")
    await cluster.client.create(PODS, pod("made", labels={COMPANION: "tenant"}), namespace="tenant-tenant1")
    for number in (1, 2):
        made = pod(f"a-{number}", labels={COMPANION: "admin"}, annotations={WORKLOAD: f"tenant-tenant{number}/x"})
        await cluster.client.create(PODS, made, namespace=SYSTEM_NAMESPACE)
    refused = await cluster.berth("remove", "tenant1")
    assert refused.status == 2
    assert "namespace tenant-tenant1 with 0 workloads, 2 companions, 1 other Pod" in refused.out
    assert "--yes" in refused.err
    assert await cluster.find(TENANTS, "tenant1") is not None
    result = await cluster.berth("remove", "tenant1", "--yes")
    assert result.status == 0
    assert "tenant tenant1 removed" in result.out
    assert await cluster.find(TENANTS, "tenant1") is None
    namespace = await cluster.find(NAMESPACES, "tenant-tenant1")
    assert namespace is None or namespace["metadata"]["deletionTimestamp"]


async def test_remove_suspends_first(cluster) -> None:
    """The agent is cut before its objects go."""
    await cluster.berth("add", "tenant1")
    version = (await cluster.tenant())["metadata"]["resourceVersion"]
    await cluster.berth("remove", "tenant1", "--yes")
    stream = cluster.client.watch(TENANTS, resource_version=version)
    events = [json.loads(line) async for line in _first(stream, 2)]
    assert [event["type"] for event in events] == ["MODIFIED", "DELETED"]
    assert events[0]["object"]["spec"]["suspended"] is True


async def _first(stream, count):
    try:
        async for line in stream:
            if line:
                yield line
                count -= 1
            if not count:
                return
    finally:
        await stream.aclose()


async def test_a_tenant_that_cannot_be_written_can_be_removed(cluster) -> None:
    """A check refuses every change of a broken Tenant, its suspension too; an API server that is down stops us."""

    class Refusing:
        status = 422

        def __getattr__(self, name):
            return getattr(cluster.client, name)

        async def replace(self, *_, **__):
            raise ApiError("refused", status=self.status)

    await cluster.berth("add", "tenant1")
    client = Refusing()
    client.status = 503
    with pytest.raises(ApiError):
        await remove(client, "tenant1")
    assert await cluster.find(TENANTS, "tenant1") is not None
    client.status = 422
    assert await remove(client, "tenant1") == [
        "tenant tenant1 removed",
        "namespace tenant-tenant1 is being deleted",
    ]
    assert await cluster.find(TENANTS, "tenant1") is None


async def test_remove_spares_a_foreign_namespace(cluster) -> None:
    await cluster.namespace("tenant-tenant1")
    await cluster.client.create(TENANTS, tenant("tenant1"))
    result = await cluster.berth("remove", "tenant1", "--yes")
    assert result.status == 0
    assert "namespace tenant-tenant1 is not ours and stays" in result.out
    namespace = await cluster.client.get(NAMESPACES, "tenant-tenant1")
    assert "deletionTimestamp" not in namespace["metadata"]


async def test_remove_goes_on_where_it_was_left(cluster) -> None:
    """The Tenant is gone, its namespace is not."""
    await cluster.namespace("tenant-tenant1", **{TENANT_LABEL: "tenant1"})
    result = await cluster.berth("remove", "tenant1", "--yes")
    assert (result.status, result.err) == (0, "")
    namespace = await cluster.find(NAMESPACES, "tenant-tenant1")
    assert namespace is None or namespace["metadata"]["deletionTimestamp"]
    assert (await cluster.berth("remove", "tenant2", "--yes")).err == "Error: there is no tenant tenant2\n"
