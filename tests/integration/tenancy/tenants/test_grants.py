"""What Berth's roles may do in a tenant's namespace: bound there by the controller, and never anybody else's."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from app.errors import ApiError
from app.kube.resources import NAMESPACES, PODS, ROLE_BINDINGS
from app.kube.transport import connect
from app.permissions import permissions_of
from app.placement.model import TENANT_LABEL
from app.registry import CONTROLLER, settings_of
from app.runtime.composing import compose
from app.tenancy.model import tenants_role
from app.tenancy.namespace import ensure_grants, parse_grant
from app.tenancy.permissions import TENANT_GRANTS
from app.tenancy.settings import TenantsOptions
from app.workloads.model import TENANTS
from tests.support.rbac import CLUSTER_ROLES, allow
from tests.support.tenants import tenant
from tests.support.waiting import PATIENCE, eventually

ControllerSettings = settings_of("controller")

OWN, GATEWAY = "berth-controller-tenants", "berth-gateway-tenants"
GRANTS = (parse_grant(f"{OWN}=berth/berth-controller"), parse_grant(f"{GATEWAY}=berth/berth-gateway"))
OPTIONS = TenantsOptions(grants=GRANTS)
MANAGED = {"app.kubernetes.io/managed-by": "berth"}


async def binding(cluster: Any, name: str = OWN, namespace: str = "tenant-tenant1") -> dict[str, Any] | None:
    return await cluster.find(ROLE_BINDINGS, name, namespace=namespace)


def ready(cluster: Any, status: str, message: str = "", kind: str = "NamespaceReady") -> Any:
    async def check() -> bool:
        found = ((await cluster.tenant()).get("status") or {}).get("conditions") or []
        return any(item["type"] == kind and item["status"] == status and message in item["message"] for item in found)

    return check


async def test_each_tenant_gets_the_bindings_before_it_is_ready(cluster, controlled) -> None:
    await controlled(options=OPTIONS, resync=0.2)
    await cluster.client.create(TENANTS, tenant("tenant1"))
    await eventually(ready(cluster, "True", kind="Ready"))
    for grant, account in zip(GRANTS, ("berth-controller", "berth-gateway"), strict=True):
        found = await binding(cluster, grant.name)
        assert found is not None
        assert found["metadata"]["labels"] == MANAGED
        assert found["roleRef"] == {
            "apiGroup": "rbac.authorization.k8s.io",
            "kind": "ClusterRole",
            "name": grant.name,
        }
        assert found["subjects"] == [{"kind": "ServiceAccount", "name": account, "namespace": "berth"}]


async def test_what_is_removed_or_changed_comes_back(cluster, controlled) -> None:
    await controlled(options=OPTIONS, resync=0.2)
    await cluster.client.create(TENANTS, tenant("tenant1"))
    await eventually(lambda: binding(cluster))
    await cluster.client.delete(ROLE_BINDINGS, OWN, namespace="tenant-tenant1")
    await eventually(lambda: binding(cluster))
    changed = {"subjects": [{"kind": "ServiceAccount", "name": "other", "namespace": "other"}]}
    await cluster.client.patch(ROLE_BINDINGS, OWN, changed, patch_type="merge", namespace="tenant-tenant1")

    async def mended() -> bool:
        found = await binding(cluster)
        return found is not None and [one["name"] for one in found["subjects"]] == ["berth-controller"]

    await eventually(mended)


async def test_nothing_is_written_while_nothing_changes(cluster) -> None:
    await cluster.namespace("tenant-tenant1", **{TENANT_LABEL: "tenant1"})
    await ensure_grants(cluster.client, "tenant-tenant1", GRANTS)
    before = [await binding(cluster, grant.name) for grant in GRANTS]
    await ensure_grants(cluster.client, "tenant-tenant1", GRANTS)
    assert [await binding(cluster, grant.name) for grant in GRANTS] == before


async def test_a_foreign_binding_is_not_taken_over_and_told(cluster, controlled) -> None:
    """The others are made; handed over by its label it is used."""
    await cluster.namespace("tenant-tenant1", **{TENANT_LABEL: "tenant1"})
    foreign = GRANTS[0].body("tenant-tenant1")
    foreign["metadata"].pop("labels")
    foreign["subjects"] = [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "somebody"}]
    created = await cluster.client.create(ROLE_BINDINGS, foreign, namespace="tenant-tenant1")
    await controlled(options=OPTIONS, resync=0.2)
    await cluster.client.create(TENANTS, tenant("tenant1"))
    await eventually(ready(cluster, "False", f"RoleBinding tenant-tenant1/{OWN} is not ours"))
    await eventually(ready(cluster, "False", kind="Ready"))
    assert await binding(cluster) == created
    assert await binding(cluster, GATEWAY) is not None
    patch = {"metadata": {"labels": MANAGED}}
    await cluster.client.patch(ROLE_BINDINGS, OWN, patch, patch_type="merge", namespace="tenant-tenant1")
    await eventually(ready(cluster, "True"))
    found = await binding(cluster)
    assert found is not None
    assert [one["name"] for one in found["subjects"]] == ["berth-controller"]


async def test_a_binding_of_another_role_cannot_be_mended_and_is_told(cluster, controlled) -> None:
    await cluster.namespace("tenant-tenant1", **{TENANT_LABEL: "tenant1"})
    other = GRANTS[0].body("tenant-tenant1")
    other["roleRef"]["name"] = "view"
    await cluster.client.create(ROLE_BINDINGS, other, namespace="tenant-tenant1")
    await controlled(options=OPTIONS, resync=0.2)
    await cluster.client.create(TENANTS, tenant("tenant1"))
    await eventually(ready(cluster, "False", f"binds another role than ClusterRole {OWN}: remove it"))
    await cluster.client.delete(ROLE_BINDINGS, OWN, namespace="tenant-tenant1")
    await eventually(ready(cluster, "True"))


async def test_a_suspended_tenant_gets_none(cluster, controlled) -> None:
    await controlled(options=OPTIONS, resync=0.2)
    await cluster.client.create(TENANTS, tenant("tenant1", suspended=True))
    await eventually(ready(cluster, "True", "left as it is"))
    assert await cluster.find(NAMESPACES, "tenant-tenant1") is None


class Racing:
    """A client that finds no binding, though a rival makes one before it is written."""

    def __init__(self, client: Any) -> None:
        self._client = client

    def __getattr__(self, name: str) -> Any:
        return getattr(self._client, name)

    async def create(self, resource: Any, body: Any, **options: Any) -> Any:
        rival = body | {"metadata": {"name": body["metadata"]["name"]}}
        await self._client.create(resource, rival, **options)
        return await self._client.create(resource, body, **options)


async def test_a_rivals_binding_is_not_overwritten(cluster) -> None:
    await cluster.namespace("tenant-tenant1", **{TENANT_LABEL: "tenant1"})
    with pytest.raises(ApiError) as refused:
        await ensure_grants(Racing(cluster.client), "tenant-tenant1", GRANTS[:1])
    assert refused.value.conflict
    found = await binding(cluster)
    assert found is not None
    assert not found["metadata"].get("labels")


@pytest.mark.parametrize(
    "text", ["", "role", "role=ns", "role=/sa", "=ns/sa", "role=ns/", "role=NS/sa", "ro le=ns/sa", "role=ns/sa/more"]
)
def test_what_is_no_grant_is_refused_in_words(text) -> None:
    with pytest.raises(ValueError, match="want CLUSTERROLE=NAMESPACE/SERVICEACCOUNT"):
        parse_grant(text)


async def test_the_controllers_permissions_are_enough(cluster, tmp_path) -> None:
    """As its ServiceAccount, with the roles of the table: it makes the namespace, binds the roles and tells so."""
    user = "system:serviceaccount:berth:berth-controller"
    await allow(cluster.client, user, permissions_of("controller"), role="controller", release="berth")
    for role in TENANT_GRANTS:
        if role != "controller":
            await cluster.client.create(CLUSTER_ROLES, {"metadata": {"name": tenants_role(role)}, "rules": []})
    kubeconfig = tmp_path / "controller.kubeconfig"
    kubeconfig.write_text(cluster.served.kubeconfig(user=user, groups=()))
    given: dict[str, object] = {
        "kubeconfig": str(kubeconfig),
        "namespace": "berth",
        "controllers": "tenants",
        "namespace_grant": [f"{tenants_role(role)}=berth/berth-{role}" for role in TENANT_GRANTS],
        "resync_seconds": 1.0,
    }
    part = compose(CONTROLLER, ControllerSettings.load(given, environment=False))
    running = asyncio.create_task(part.run())
    try:
        await cluster.node("dpu1", "host-a")
        await cluster.client.create(TENANTS, tenant("tenant1", hosts=["host-a"]))
        await eventually(ready(cluster, "True", kind="Ready"))
        await eventually(lambda: not part.waiting())
        for role in TENANT_GRANTS:
            assert await binding(cluster, tenants_role(role)) is not None
        assert (await cluster.labels("dpu1"))[TENANT_LABEL] == "tenant1"
    finally:
        running.cancel()
        await asyncio.wait({running})
    async with await connect(kubeconfig=str(kubeconfig), deadline=PATIENCE) as limited:
        pods = await limited.list_page(PODS)
        assert pods.items == []
        await limited.create(PODS, _pod(), namespace="tenant-tenant1")
        with pytest.raises(ApiError) as refused:
            await limited.create(PODS, _pod(), namespace="default")
        assert refused.value.status == 403


def _pod() -> dict[str, Any]:
    return {"metadata": {"name": "companion"}, "spec": {"containers": [{"name": "main", "image": "x"}]}}
