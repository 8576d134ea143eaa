"""What holds in a tenant's namespace without a webhook: kept by the controller, and back where it is taken away."""

from __future__ import annotations

from typing import Any

import pytest

from app.errors import ApiError
from app.kube.resources import CONFIG_MAPS, PODS, RESOURCE_QUOTAS, ROLE_BINDINGS, SERVICE_ACCOUNTS
from app.placement.model import TENANT_LABEL
from app.tenancy.model import tenants_role
from app.tenancy.namespace import ISOLATION, OBJECTS, OWN_ROLE, bounds_of, ensure_bounds, parse_grant
from app.tenancy.settings import TenantsOptions
from app.workloads.model import TENANTS
from app.workloads.settings import DEFAULT_QUOTA, parse_quota
from tests.support.tenants import tenant
from tests.support.waiting import eventually

from .test_grants import ready

NAMESPACE = "tenant-tenant1"
GATEWAY = parse_grant(f"{tenants_role('gateway')}=berth/berth-gateway")
OPTIONS = TenantsOptions(grants=(parse_grant(f"{OWN_ROLE}=berth/berth-controller"), GATEWAY))
EVIL = {
    "metadata": {"name": "evil", "labels": {"evil": "1"}},
    "spec": {
        "containers": [{"name": "main", "image": "x"}],
        "affinity": {
            "podAntiAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": [
                    {
                        "topologyKey": "kubernetes.io/os",
                        "namespaceSelector": {},
                        "labelSelector": {"matchExpressions": [{"key": "evil", "operator": "DoesNotExist"}]},
                    }
                ]
            }
        },
    },
}


async def enrolled(cluster: Any, controlled: Any, options: TenantsOptions = OPTIONS, resync: float = 0.2) -> None:
    await controlled(options=options, resync=resync)
    await cluster.client.create(TENANTS, tenant("tenant1"))
    await eventually(ready(cluster, "True", kind="Ready"))


async def found(cluster: Any, resource: Any, name: str) -> Any:
    return await cluster.find(resource, name, namespace=NAMESPACE)


async def test_a_pod_that_reaches_into_other_namespaces_is_refused_without_a_webhook(cluster, controlled) -> None:
    await enrolled(cluster, controlled)
    with pytest.raises(ApiError) as refused:
        await cluster.client.create(PODS, EVIL, namespace=NAMESPACE)
    assert refused.value.status == 403
    assert "exceeded quota: berth-isolation, requested: pods=1, used: pods=0, limited: pods=0" in str(refused.value)


async def test_every_bound_is_there_before_the_gateway_may_write(cluster, controlled) -> None:
    await enrolled(cluster, controlled)
    for bound in bounds_of(DEFAULT_QUOTA):
        present = await found(cluster, bound.resource, bound.name)
        assert bound.is_met_by(present), present
        given = await found(cluster, ROLE_BINDINGS, GATEWAY.name)
        assert int(present["metadata"]["resourceVersion"]) < int(given["metadata"]["resourceVersion"])


async def test_the_number_of_objects_is_bounded(cluster, controlled) -> None:
    await enrolled(cluster, controlled, TenantsOptions(quota=parse_quota(["configmaps=1"])), resync=600.0)
    await cluster.client.create(CONFIG_MAPS, {"metadata": {"name": "a"}}, namespace=NAMESPACE)
    with pytest.raises(ApiError, match="exceeded quota: berth-objects, requested: configmaps=1"):
        await cluster.client.create(CONFIG_MAPS, {"metadata": {"name": "b"}}, namespace=NAMESPACE)


@pytest.mark.parametrize("bound", bounds_of(DEFAULT_QUOTA), ids=lambda one: one.name)
async def test_what_is_deleted_comes_back(cluster, controlled, bound) -> None:
    await enrolled(cluster, controlled)
    before = await found(cluster, bound.resource, bound.name)
    await cluster.client.delete(bound.resource, bound.name, namespace=NAMESPACE)

    async def back() -> bool:
        present = await found(cluster, bound.resource, bound.name)
        return present is not None and present["metadata"]["uid"] != before["metadata"]["uid"]

    await eventually(back)
    assert bound.is_met_by(await found(cluster, bound.resource, bound.name))


@pytest.mark.parametrize(
    ("resource", "name", "change"),
    [
        (RESOURCE_QUOTAS, ISOLATION, {"spec": {"hard": {"pods": "9"}}}),
        (RESOURCE_QUOTAS, ISOLATION, {"spec": {"scopeSelector": None}}),
        (RESOURCE_QUOTAS, OBJECTS, {"spec": {"hard": {"count/pods": "1"}}}),
        (RESOURCE_QUOTAS, OBJECTS, {"spec": {"hard": {"secrets": None}}}),
        (SERVICE_ACCOUNTS, "default", {"automountServiceAccountToken": True}),
        (SERVICE_ACCOUNTS, "default", {"automountServiceAccountToken": None}),
    ],
)
async def test_what_is_changed_by_hand_is_changed_back(cluster, controlled, resource, name, change) -> None:
    await enrolled(cluster, controlled)
    bound = next(one for one in bounds_of(DEFAULT_QUOTA) if one.name == name)
    changed = await cluster.client.patch(resource, name, change, patch_type="merge", namespace=NAMESPACE)
    assert not bound.is_met_by(changed)

    async def restored() -> bool:
        return bound.is_met_by(await found(cluster, resource, name))

    await eventually(restored)


async def test_what_an_admin_adds_stays(cluster) -> None:
    """More bounds in our quota, Secrets of the ServiceAccount; a bound that the setting no longer has goes."""
    await cluster.namespace(NAMESPACE, **{TENANT_LABEL: "tenant1"})
    bounds = bounds_of(parse_quota(["services=3"]))
    await ensure_bounds(cluster.client, NAMESPACE, bounds)
    patches = {
        (RESOURCE_QUOTAS, OBJECTS): {"spec": {"hard": {"persistentvolumeclaims": "7"}}},
        (SERVICE_ACCOUNTS, "default"): {"imagePullSecrets": [{"name": "registry"}]},
    }
    for (resource, name), patch in patches.items():
        await cluster.client.patch(resource, name, patch, patch_type="merge", namespace=NAMESPACE)
    await ensure_bounds(cluster.client, NAMESPACE, bounds_of(DEFAULT_QUOTA))
    hard = (await found(cluster, RESOURCE_QUOTAS, OBJECTS))["spec"]["hard"]
    assert hard["persistentvolumeclaims"] == "7"
    assert "services" not in hard
    account = await found(cluster, SERVICE_ACCOUNTS, "default")
    assert account["imagePullSecrets"] == [{"name": "registry"}]
    assert account["automountServiceAccountToken"] is False


async def test_nothing_is_written_while_nothing_changes(cluster) -> None:
    await cluster.namespace(NAMESPACE, **{TENANT_LABEL: "tenant1"})
    bounds = bounds_of(DEFAULT_QUOTA)
    await ensure_bounds(cluster.client, NAMESPACE, bounds)
    reading = Reading(cluster.client)
    await ensure_bounds(reading, NAMESPACE, bounds)
    assert reading.asked == ["get"] * len(bounds)


class Reading:
    """A client that notes what is asked of it."""

    def __init__(self, client: Any) -> None:
        self._client = client
        self.asked: list[str] = []

    def __getattr__(self, name: str) -> Any:
        self.asked.append(name)
        return getattr(self._client, name)


class Uncounted:
    """A cluster without kube-controller-manager: quotas have no status until `counted`."""

    def __init__(self, client: Any, *, missing: str = "") -> None:
        self._client = client
        self._missing = missing
        self.counted = False
        self.applied: list[Any] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._client, name)

    async def get(self, resource: Any, name: str, **options: Any) -> Any:
        return self._seen(resource, await self._client.get(resource, name, **options))

    async def apply(self, resource: Any, name: str, body: Any, **options: Any) -> Any:
        if resource == RESOURCE_QUOTAS:
            self.applied.append(body["spec"]["hard"])
        return self._seen(resource, await self._client.apply(resource, name, body, **options))

    def _seen(self, resource: Any, obj: Any) -> Any:
        if resource != RESOURCE_QUOTAS or self.counted:
            return obj
        if not self._missing:
            return {key: value for key, value in obj.items() if key != "status"}
        used = {key: value for key, value in obj["status"]["used"].items() if key != self._missing}
        return {**obj, "status": {**obj["status"], "used": used}}


async def test_the_gateway_gets_no_rights_before_the_quotas_hold(cluster, controlled) -> None:
    """An API server enforces no quota that has not been counted."""
    client = Uncounted(cluster.client)
    await controlled(client=client, options=OPTIONS, resync=0.2)
    await cluster.client.create(TENANTS, tenant("tenant1"))
    text = "ResourceQuota tenant-tenant1/berth-isolation does not hold yet for pods: kube-controller-manager has not"
    await eventually(ready(cluster, "False", text))
    assert await found(cluster, ROLE_BINDINGS, OWN_ROLE) is not None
    assert await found(cluster, ROLE_BINDINGS, GATEWAY.name) is None
    client.counted = True
    await eventually(ready(cluster, "True", kind="Ready"))
    assert await found(cluster, ROLE_BINDINGS, GATEWAY.name) is not None


async def test_kinds_that_were_unknown_when_they_were_counted_are_counted_again(cluster, controlled) -> None:
    """Else kube-controller-manager would take minutes to do so, and the API server refuses these objects meanwhile."""
    kind = "count/workloads.workload.infra.universe.nvidia.com"
    client = Uncounted(cluster.client, missing=kind)
    await controlled(client=client, options=OPTIONS, resync=0.2)
    await cluster.client.create(TENANTS, tenant("tenant1"))
    await eventually(ready(cluster, "False", f"does not hold yet for {kind}"))
    assert any(kind not in hard for hard in client.applied if "secrets" in hard)
    client.counted = True
    await eventually(ready(cluster, "True", kind="Ready"))
    assert kind in (await found(cluster, RESOURCE_QUOTAS, OBJECTS))["spec"]["hard"]


async def test_a_quota_of_our_name_with_scopes_is_told(cluster, controlled) -> None:
    await cluster.namespace(NAMESPACE, **{TENANT_LABEL: "tenant1"})
    scoped = {"metadata": {"name": ISOLATION}, "spec": {"hard": {"pods": "0"}, "scopes": ["NotTerminating"]}}
    await cluster.client.create(RESOURCE_QUOTAS, scoped, namespace=NAMESPACE)
    await controlled(options=OPTIONS, resync=0.2)
    await cluster.client.create(TENANTS, tenant("tenant1"))
    await eventually(ready(cluster, "False", "berth-isolation has scopes, which cannot be changed: remove it"))
    await cluster.client.delete(RESOURCE_QUOTAS, ISOLATION, namespace=NAMESPACE)


def test_the_setting_changes_and_removes_defaults() -> None:
    bounds = parse_quota(["secrets=1k", "configmaps=", "count/pods=5"])
    assert bounds == {**{k: v for k, v in DEFAULT_QUOTA.items() if k != "configmaps"}, "secrets": 1000, "count/pods": 5}
    assert parse_quota([]) == DEFAULT_QUOTA


def test_bounds_of_companions_are_none_of_the_namespace() -> None:
    quota = parse_quota(["companions/Any=5", "companions/SameNode=", "companions/bytes=1Gi"])
    assert of_companions(quota) == {
        "companions/Any": 5,
        "companions/bytes": 2**30,
        "companions/pending-bytes": 8 * 2**20,
        "companions/queued": 100,
        "companions/pending": 300,
        "companions/pending-of-host": 32,
    }
    removed = ["companions/bytes=", "companions/queued=", "companions/pending=", "companions/pending-of-host=9"]
    assert of_companions(parse_quota(removed)) == {
        "companions/Any": 110,
        "companions/SameNode": 20_000,
        "companions/pending-bytes": 8 * 2**20,
        "companions/pending-of-host": 9,
    }
    assert bounds_of(quota) == bounds_of(DEFAULT_QUOTA)
    assert DEFAULT_QUOTA["companions/SameNode"] == DEFAULT_QUOTA["count/pods"]


def of_companions(quota: dict[str, int]) -> dict[str, int]:
    return {name: bound for name, bound in quota.items() if name.startswith("companions/")}


@pytest.mark.parametrize(
    "text", ["secrets", "dogs=1", "=1", "secrets=-1", "secrets=1.5", "secrets=x", "count/=1", "cpu=1"]
)
def test_what_is_no_bound_is_refused_in_words(text) -> None:
    with pytest.raises(ValueError, match="want RESOURCE=NUMBER"):
        parse_quota([text])


def test_the_controllers_own_role_is_the_one_of_the_permissions() -> None:
    assert tenants_role("controller") == OWN_ROLE == "berth-controller-tenants"
