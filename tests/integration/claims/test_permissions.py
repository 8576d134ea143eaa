"""What the API server does not permit is said with the rule to add, tried again, and done as soon as it is there."""

from __future__ import annotations

import pytest

from app.claims.permissions import PERMISSIONS
from app.kube.kit import Kit
from app.kube.resources import RESOURCE_CLAIMS
from app.wiring import Permission
from tests.support.claims import NAMESPACE, VF, ClaimsCluster, attached
from tests.support.rbac import allow
from tests.support.waiting import eventually

pytestmark = pytest.mark.asyncio
ACCOUNT = f"system:serviceaccount:{NAMESPACE}:claims"
GROUP = RESOURCE_CLAIMS.group


async def prepared(cluster: ClaimsCluster, *, node: str = "n1") -> None:
    await cluster.attachment()
    await cluster.slice("vf1", node=node)
    pod = await cluster.pod("p", "c", node=node)
    await cluster.claim("c", pod, "vf1", node=node)
    await cluster.attach("p", attached("10.0.0.5"))


def given(role: str, *resources: str, drivers: tuple[str, ...] = (VF,)) -> list[Permission]:
    """What the role is declared to need, but for these resources."""
    found = [one for one in PERMISSIONS[role] if not set(one.resources) & set(resources)]
    return [Permission(one.scope, one.group, one.resources, one.verbs, drivers if one.names else ()) for one in found]


async def missing(controller: Kit) -> str:
    """The line of readiness with the rule that is missing, once the caches are full."""
    (line,) = await eventually(controller.waiting, lambda lines: len(lines) == 1 and "the role needs" in lines[0])
    return line


async def grant(cluster: ClaimsCluster, name: str, permissions: list[Permission]) -> None:
    await allow(cluster.admin, ACCOUNT, permissions, role=name, release=NAMESPACE)


async def test_what_the_role_declares_is_enough(cluster: ClaimsCluster) -> None:
    await grant(cluster, "claims", given("claims"))
    await prepared(cluster)
    async with await cluster.client(cluster.kubeconfig_of("claims")) as client, cluster.controller(client):
        await eventually(lambda: cluster.ips("c"))
        assert client.applied == {"c": 1}


async def test_without_the_permission_for_the_driver(cluster: ClaimsCluster) -> None:
    await grant(cluster, "claims", given("claims", "resourceclaims/driver"))
    await prepared(cluster)
    async with (
        await cluster.client(cluster.kubeconfig_of("claims")) as client,
        cluster.controller(client, events=True, ready=False) as (_, controller),
    ):
        line = await missing(controller)
        rule = (
            "apiGroups [resource.k8s.io], resources [resourceclaims/driver], verbs [arbitrary-node:patch], "
            f"resourceNames [{VF}]"
        )
        assert rule in line
        found = await eventually(lambda: cluster.events("NetworkDataForbidden"), lambda found: len(found) == 2)
        assert {one["involvedObject"]["kind"] for one in found} == {"Pod", "ResourceClaim"}
        assert all(rule in one["message"] for one in found)
        assert await cluster.ips("c") == []
        driver = Permission("cluster", GROUP, ("resourceclaims/driver",), ("arbitrary-node:patch",), (VF,))
        await grant(cluster, "driver", [driver])
        await eventually(lambda: cluster.ips("c"))
        await eventually(lambda: controller.waiting() == [])


async def test_of_two_drivers_the_one_without_permission_is_named(cluster: ClaimsCluster) -> None:
    other = "other.example.com"
    await grant(cluster, "claims", given("claims", drivers=(other,)))
    await cluster.attachment()
    await cluster.slice("vf1")
    await cluster.slice("vf2", driver=other)
    pod = await cluster.pod("p", "c", networks="net,net")
    claim = await cluster.claim("c")
    request = claim["spec"]["devices"]["requests"][0]["name"]
    devices = {"vf1": VF, "vf2": other}
    results = [{"request": request, "driver": one, "pool": "n1", "device": name} for name, one in devices.items()]
    reserved = [{"resource": "pods", "name": "p", "uid": pod["metadata"]["uid"]}]
    await cluster.put(claim | {"status": {"allocation": {"devices": {"results": results}}, "reservedFor": reserved}})
    await cluster.attach("p", attached("10.0.0.5"), attached("10.0.0.6", interface="net2", pci="0000:03:00.2"))
    async with (
        await cluster.client(cluster.kubeconfig_of("claims")) as client,
        cluster.controller(client, ready=False) as (_, controller),
    ):
        said = await eventually(lambda: [one for one in controller.waiting() if "resourceNames" in one])
        assert [f"resourceNames [{VF}]" in one for one in said] == [True]


async def test_without_the_permission_for_the_status(cluster: ClaimsCluster) -> None:
    await grant(cluster, "claims", given("claims", "resourceclaims/status"))
    await prepared(cluster)
    async with (
        await cluster.client(cluster.kubeconfig_of("claims")) as client,
        cluster.controller(client, ready=False) as (_, controller),
    ):
        line = await missing(controller)
        assert "resources [resourceclaims/status], verbs [patch]" in line
        await grant(cluster, "status", [Permission("cluster", GROUP, ("resourceclaims/status",), ("patch",))])
        await eventually(lambda: cluster.ips("c"))
        await eventually(lambda: controller.waiting() == [])


async def test_a_token_of_the_node_writes_claims_of_its_node(cluster: ClaimsCluster) -> None:
    await grant(cluster, "claims", given("claims-node"))
    await prepared(cluster)
    other = await cluster.pod("q", "d", node="n2")
    await cluster.slice("vf1", node="n2")
    await cluster.claim("d", other, "vf1", node="n2")
    await cluster.attach("q", attached("10.0.0.6"))
    async with (
        await cluster.client(cluster.kubeconfig_of("claims", node="n1")) as client,
        cluster.controller(client, node="n1") as (_, controller),
    ):
        await eventually(lambda: cluster.ips("c"))
        assert controller.waiting() == []
        assert client.applied == {"c": 1}
    async with (
        await cluster.client(cluster.kubeconfig_of("claims", node="n2")) as client,
        cluster.controller(client, node="n2"),
    ):
        await eventually(lambda: cluster.ips("d"))
        assert client.applied == {"d": 1}


async def test_a_token_of_another_node_is_refused(cluster: ClaimsCluster) -> None:
    await grant(cluster, "claims", given("claims-node"))
    await prepared(cluster)
    async with (
        await cluster.client(cluster.kubeconfig_of("claims", node="n2")) as client,
        cluster.controller(client, node="n1", ready=False) as (_, controller),
    ):
        line = await missing(controller)
        assert "verbs [associated-node:patch]" in line
        assert await cluster.ips("c") == []
