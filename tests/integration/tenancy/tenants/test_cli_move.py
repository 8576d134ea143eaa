"""`berth tenant add --move`: a cluster gets another tenant."""

from __future__ import annotations

from typing import Any

import pytest

from app.tenancy.model import CLUSTER, MOVED, holder_of, link_of
from app.tenancy.tenants.changes import list_tenants
from app.workloads.model import TENANTS
from tests.support.tenants import tenant


async def noted(cluster: Any, name: str, uid: str | None) -> None:
    body = {"metadata": {"annotations": {CLUSTER: uid}}}
    await cluster.client.patch(TENANTS, name, body, patch_type="merge")


async def holder(cluster: Any, uid: str) -> str:
    items = await list_tenants(cluster.client)
    return holder_of(uid, [(item["metadata"]["name"], link_of(item)) for item in items])


async def test_a_new_tenant_takes_a_cluster_over(cluster: Any) -> None:
    await cluster.client.create(TENANTS, tenant("tenant1"))
    await noted(cluster, "tenant1", "uid-1")
    result = await cluster.berth("add", "tenant2", "--move", "tenant1")
    assert result.status == 0, result.err
    assert result.out.startswith("tenant tenant2 created\n")
    assert (
        "cluster uid-1 belongs to tenant tenant2 from now on: the gateway refuses agents of tenant tenant1 there\n"
        "workloads of tenant tenant1 are removed when the agent of tenant tenant2 has sent its own\n"
        "rules and UVS objects of tenant tenant1 and their Pods stay, until its agent in another cluster removes them or "
        f"you do: `berth tenant remove tenant1 --kubeconfig {cluster.kubeconfig}`\n"
    ) in result.out
    assert await holder(cluster, "uid-1") == "tenant2"
    before = (await cluster.tenant("tenant2"))["metadata"]
    assert before["annotations"][MOVED]
    result = await cluster.berth("add", "tenant2", "--move", "tenant1")
    assert "tenant tenant2 has the cluster of tenant tenant1 already\n" in result.out
    assert (await cluster.tenant("tenant2"))["metadata"]["resourceVersion"] == before["resourceVersion"]


@pytest.mark.parametrize(
    ("name", "source", "message"),
    [
        ("tenant9", "tenant8", "--move: there is no tenant tenant8; want the tenant that has the cluster now"),
        ("tenant1", "tenant1", "--move: that is the tenant itself; want the tenant that has the cluster now"),
        ("tenant9", "none", "--move: no cluster is noted on tenant none"),
        ("tenant9", "second", "--move: the cluster of tenant second belongs to tenant first: --move first"),
        ("other", "first", "--move: tenant other has cluster uid-2, and a tenant has one"),
    ],
)
async def test_what_cannot_be_moved(cluster: Any, name: str, source: str, message: str) -> None:
    """It is said before anything is made."""
    for each in ("tenant1", "none", "first", "second", "other"):
        await cluster.client.create(TENANTS, tenant(each))
    for each, uid in (("first", "uid-1"), ("second", "uid-1"), ("other", "uid-2")):
        await noted(cluster, each, uid)
    result = await cluster.berth("add", name, "--move", source)
    assert result.status != 0
    assert message in result.err
    assert await cluster.find(TENANTS, "tenant9") is None
    assert await holder(cluster, "uid-1") == "first"
