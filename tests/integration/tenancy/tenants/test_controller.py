"""The tenants' controller against an API server: namespaces, node labels, pinned certificates, status."""

from __future__ import annotations

import asyncio
from collections import Counter
from datetime import UTC, datetime, timedelta
from typing import Any

from app.kube.resources import CUSTOM_RESOURCE_DEFINITIONS, NAMESPACES, NODES
from app.placement.model import HOST_LABEL, TENANT_LABEL, PlacementOptions
from app.tenancy.namespace import POD_SECURITY
from app.tenancy.settings import TenantsOptions
from app.workloads.model import TENANTS
from tests.support.tenants import tenant, tenants_kit
from tests.support.waiting import eventually

PINS = ["a" * 64, "b" * 64, "c" * 64]


def pins(*ends: datetime | None) -> list[dict[str, str]]:
    return [
        {"sha256": PINS[index]} | ({"until": f"{end:%Y-%m-%dT%H:%M:%SZ}"} if end else {})
        for index, end in enumerate(ends)
    ]


async def add(cluster: Any, name: str, **spec: Any) -> None:
    await cluster.client.create(TENANTS, tenant(name, **spec))


async def status(cluster: Any, name: str = "tenant1") -> dict[str, Any]:
    return (await cluster.tenant(name)).get("status") or {}


def settled(cluster: Any, name: str, result: str, message: str = "") -> Any:
    async def check() -> bool:
        now = await status(cluster, name)
        return now.get("result") == result and message in now.get("message", "")

    return check


def condition(of: dict[str, Any], kind: str) -> tuple[str, str]:
    return next((item["status"], item["reason"]) for item in of["conditions"] if item["type"] == kind)


async def test_a_tenant_gets_its_namespace_and_status(cluster, controlled) -> None:
    await controlled()
    await add(cluster, "tenant1")
    await eventually(settled(cluster, "tenant1", "success"))
    labels = (await cluster.client.get(NAMESPACES, "tenant-tenant1"))["metadata"]["labels"]
    assert (labels[TENANT_LABEL], labels[POD_SECURITY]) == ("tenant1", "baseline")
    now = await status(cluster)
    assert (now["namespace"], now["message"], now["observedGeneration"]) == ("tenant-tenant1", "", 1)
    kinds = ("Ready", "IdentityReady", "NamespaceReady", "HostsReady")
    assert {kind: condition(now, kind)[0] for kind in kinds} == dict.fromkeys(kinds, "True")


async def test_a_namespace_that_is_deleted_comes_back(cluster, controlled) -> None:
    await controlled()
    await add(cluster, "tenant1")
    await eventually(settled(cluster, "tenant1", "success"))
    old = await cluster.client.get(NAMESPACES, "tenant-tenant1")
    await cluster.client.delete(NAMESPACES, "tenant-tenant1")
    await eventually(settled(cluster, "tenant1", "error", "is being deleted"))
    await finish(cluster, old)

    async def back() -> bool:
        namespace = await cluster.find(NAMESPACES, "tenant-tenant1")
        return bool(namespace) and namespace["metadata"]["uid"] != old["metadata"]["uid"]

    await eventually(back)
    await eventually(settled(cluster, "tenant1", "success"))


async def finish(cluster: Any, namespace: dict[str, Any]) -> None:
    """What the namespace controller does at the end: there is none in this cluster."""
    name = namespace["metadata"]["name"]
    now = await cluster.client.get(NAMESPACES, name)
    now["spec"] = {"finalizers": []}
    await cluster.client.replace(NAMESPACES, name, now, subresource="finalize")


async def test_the_admins_choice_of_pod_security_stays(cluster, controlled) -> None:
    """The level is given once; a namespace without it keeps that."""
    await cluster.namespace("tenant-tenant1", **{TENANT_LABEL: "tenant1", POD_SECURITY: "privileged"})
    await controlled()
    await add(cluster, "tenant1")
    await eventually(settled(cluster, "tenant1", "success"))
    labels = (await cluster.client.get(NAMESPACES, "tenant-tenant1"))["metadata"]["labels"]
    assert labels[POD_SECURITY] == "privileged"


async def test_a_foreign_namespace_is_an_error(cluster, controlled) -> None:
    """It gets no label of ours, not even when it has another tenant's."""
    await cluster.namespace("tenant-tenant1")
    await cluster.namespace("tenant-tenant2", **{TENANT_LABEL: "tenant1"})
    await controlled()
    await add(cluster, "tenant1")
    await add(cluster, "tenant2")
    for name in ("tenant1", "tenant2"):
        await eventually(settled(cluster, name, "error", "is not ours"))
        assert condition(await status(cluster, name), "Ready") == ("False", "ForeignNamespace")
    assert TENANT_LABEL not in (await cluster.client.get(NAMESPACES, "tenant-tenant1"))["metadata"]["labels"]
    labeled = {"metadata": {"labels": {TENANT_LABEL: "tenant1"}}}
    await cluster.client.patch(NAMESPACES, "tenant-tenant1", labeled, patch_type="merge")
    await eventually(settled(cluster, "tenant1", "success"))


async def test_a_suspended_tenant_gets_no_namespace(cluster, controlled) -> None:
    """It may be on its way out, and then nothing must be made anew."""
    await controlled()
    await add(cluster, "tenant1", suspended=True)
    await eventually(settled(cluster, "tenant1", "", "suspended"))
    assert condition(await status(cluster), "Ready") == ("False", "Suspended")
    assert await cluster.find(NAMESPACES, "tenant-tenant1") is None


async def test_a_removed_tenants_namespace_is_left_alone(cluster, controlled) -> None:
    """`kubectl delete tenant` takes away the identity, not what runs."""
    await controlled()
    await add(cluster, "tenant1")
    await eventually(settled(cluster, "tenant1", "success"))
    await cluster.client.delete(TENANTS, "tenant1")
    await add(cluster, "tenant2")
    await eventually(settled(cluster, "tenant2", "success"))
    assert "deletionTimestamp" not in (await cluster.client.get(NAMESPACES, "tenant-tenant1"))["metadata"]


async def test_nodes_of_the_hosts_are_labeled(cluster, controlled) -> None:
    """Before the tenant, after it, and no others; labels that are there already stay."""
    await cluster.node("dpu1-host-a", "host-a", own="label")
    await cluster.node("dpu1-host-c", "host-c")
    await controlled()
    await add(cluster, "tenant1", hosts=["host-a", "host-b"])
    await eventually(labeled(cluster, "dpu1-host-a", "tenant1"))
    await cluster.node("dpu1-host-b", "host-b")
    await eventually(labeled(cluster, "dpu1-host-b", "tenant1"))
    await eventually(settled(cluster, "tenant1", "success"))
    assert await cluster.labels("dpu1-host-a") == {HOST_LABEL: "host-a", "own": "label", TENANT_LABEL: "tenant1"}
    assert TENANT_LABEL not in await cluster.labels("dpu1-host-c")


def labeled(cluster: Any, node: str, name: str | None) -> Any:
    async def check() -> bool:
        return (await cluster.labels(node)).get(TENANT_LABEL) == name

    return check


async def test_a_host_without_a_node_is_no_error(cluster, controlled) -> None:
    """It may join later."""
    await controlled()
    await add(cluster, "tenant1", hosts=["host-x"])
    await eventually(settled(cluster, "tenant1", "success"))
    note = next(item for item in (await status(cluster))["conditions"] if item["type"] == "HostsReady")
    assert note["message"] == "no node yet for host-x"


async def test_labels_follow_the_list_of_hosts(cluster, controlled) -> None:
    """A host that leaves one tenant and joins another changes hands; one that only leaves is nobody's."""
    for host in ("host-a", "host-b"):
        await cluster.node(f"dpu1-{host}", host, own="label")
    await controlled()
    await add(cluster, "tenant1", hosts=["host-a", "host-b"])
    await eventually(labeled(cluster, "dpu1-host-b", "tenant1"))
    await cluster.change("tenant1", hosts=[])
    await eventually(labeled(cluster, "dpu1-host-a", None))
    await eventually(labeled(cluster, "dpu1-host-b", None))
    await add(cluster, "tenant2", hosts=["host-b"])
    await eventually(labeled(cluster, "dpu1-host-b", "tenant2"))
    assert (await cluster.labels("dpu1-host-a")) == {HOST_LABEL: "host-a", "own": "label"}


async def test_a_node_that_changes_its_host_changes_hands(cluster, controlled) -> None:
    await cluster.node("dpu1", "host-a")
    await controlled()
    await add(cluster, "tenant1", hosts=["host-a"])
    await add(cluster, "tenant2", hosts=["host-b"])
    await eventually(labeled(cluster, "dpu1", "tenant1"))
    moved = {"metadata": {"labels": {HOST_LABEL: "host-b"}}}
    await cluster.client.patch(NODES, "dpu1", moved, patch_type="merge")
    await eventually(labeled(cluster, "dpu1", "tenant2"))
    bare = {"metadata": {"labels": {HOST_LABEL: None}}}
    await cluster.client.patch(NODES, "dpu1", bare, patch_type="merge")
    await eventually(labeled(cluster, "dpu1", None))


async def test_a_host_of_two_tenants_is_an_error_of_both(cluster, controlled) -> None:
    """The label stays with whom it is until one of them lets go."""
    await cluster.node("dpu1", "host-a")
    await controlled()
    await add(cluster, "tenant2", hosts=["host-a"])
    await eventually(labeled(cluster, "dpu1", "tenant2"))
    await add(cluster, "tenant1", hosts=["host-a"])
    await eventually(settled(cluster, "tenant1", "error", "host host-a is also claimed by tenant tenant2"))
    await eventually(settled(cluster, "tenant2", "error", "host host-a is also claimed by tenant tenant1"))
    await asyncio.sleep(0.2)
    assert (await cluster.labels("dpu1"))[TENANT_LABEL] == "tenant2"
    await cluster.change("tenant2", hosts=[])
    await eventually(labeled(cluster, "dpu1", "tenant1"))
    await eventually(settled(cluster, "tenant1", "success"))
    await eventually(settled(cluster, "tenant2", "success"))


async def test_labels_of_a_removed_tenant_go(cluster, controlled) -> None:
    """Those that we set; a label of the same name that somebody else set stays."""
    await cluster.node("dpu1", "host-a")
    await cluster.node("by-hand", "host-b", **{TENANT_LABEL: "stranger"})
    await controlled()
    await add(cluster, "tenant1", hosts=["host-a"])
    await eventually(labeled(cluster, "dpu1", "tenant1"))
    await cluster.client.delete(TENANTS, "tenant1")
    await eventually(labeled(cluster, "dpu1", None))
    assert (await cluster.labels("by-hand"))[TENANT_LABEL] == "stranger"


async def test_without_hosts_the_labels_are_not_ours(cluster, controlled) -> None:
    """Neither set nor removed nor overruled by another tenant's claim, which is told instead."""
    await cluster.node("dpu1", "host-a", **{TENANT_LABEL: "tenant1"})
    await controlled()
    await add(cluster, "tenant1")
    await eventually(settled(cluster, "tenant1", "success"))
    await add(cluster, "tenant2", hosts=["host-a"])
    await eventually(
        settled(cluster, "tenant2", "error", "node dpu1 is labeled for tenant tenant1, which lists no hosts")
    )
    assert (await cluster.labels("dpu1"))[TENANT_LABEL] == "tenant1"
    await cluster.change("tenant1", hosts=[])
    await eventually(labeled(cluster, "dpu1", "tenant2"))
    await eventually(settled(cluster, "tenant2", "success"))


async def test_other_label_keys_and_no_confinement(cluster, controlled) -> None:
    """Keys are configurable; with an empty one no node is touched."""
    await cluster.client.create(NODES, {"metadata": {"name": "dpu1", "labels": {"h": "host-a"}}})
    await controlled(options=TenantsOptions(placement=PlacementOptions(host_label="h", tenant_node_label="t")))
    await add(cluster, "tenant1", hosts=["host-a"])

    async def by_other_key() -> bool:
        return await cluster.labels("dpu1") == {"h": "host-a", "t": "tenant1"}

    await eventually(by_other_key)


async def test_no_confinement_touches_no_node(cluster, controlled) -> None:
    await cluster.node("dpu1", "host-a")
    before = await cluster.client.get(NODES, "dpu1")
    await controlled(options=TenantsOptions(placement=PlacementOptions(tenant_node_label="")))
    await add(cluster, "tenant1", hosts=["host-a"])
    await eventually(settled(cluster, "tenant1", "success"))
    await asyncio.sleep(0.2)
    assert await cluster.client.get(NODES, "dpu1") == before


async def test_expired_certificates_are_dropped(cluster, controlled) -> None:
    """When their time comes, without another event."""
    start = datetime.now(UTC)
    await controlled()
    ends = [start - timedelta(hours=1), start + timedelta(hours=1), start + timedelta(days=1)]
    await add(cluster, "tenant1", identity={"names": ["n"], "certificates": pins(*ends)})
    await eventually(left(cluster, PINS[1:]))
    ends[1] = datetime.now(UTC) + timedelta(seconds=3)
    await cluster.change("tenant1", identity={"names": ["n"], "certificates": pins(*ends)[1:]})
    await eventually(left(cluster, PINS[2:]))
    await eventually(settled(cluster, "tenant1", "success"))


def left(cluster: Any, wanted: list[str]) -> Any:
    async def check() -> bool:
        now = (await cluster.spec())["identity"]["certificates"]
        return [pin["sha256"] for pin in now] == wanted

    return check


async def test_the_last_certificate_is_never_dropped(cluster, controlled) -> None:
    """With none left the name alone would open the door. The status says what to do."""
    start = datetime.now(UTC)
    ends = (start - timedelta(hours=1), start - timedelta(minutes=1), start - timedelta(hours=2))
    await controlled()
    await add(cluster, "tenant1", identity={"names": ["n"], "certificates": pins(*ends)})
    await eventually(settled(cluster, "tenant1", "error", "berth tenant rotate tenant1"))
    assert [pin["sha256"] for pin in (await cluster.spec())["identity"]["certificates"]] == [PINS[1]]
    assert condition(await status(cluster), "IdentityReady") == ("False", "CertificatesExpired")


async def test_shared_identities_are_errors(cluster, controlled) -> None:
    """Of two tenants, in any case of letters, and of a tenant and the cloud admin."""
    await controlled()
    await add(cluster, "tenant1", identity={"names": ["agent.example"]})
    await eventually(settled(cluster, "tenant1", "success"))
    await add(cluster, "tenant2", identity={"names": ["Agent.Example"]})
    await add(cluster, "tenant3", identity={"names": ["Cloud-Admin.local"]})
    await eventually(settled(cluster, "tenant1", "error", "agent.example is also that of tenant tenant2"))
    await eventually(settled(cluster, "tenant2", "error", "Agent.Example is also that of tenant tenant1"))
    await eventually(settled(cluster, "tenant3", "error", "is the cloud admin's"))
    await cluster.client.delete(TENANTS, "tenant2")
    await eventually(settled(cluster, "tenant1", "success"))


async def test_a_broken_tenant_is_told_so(cluster, controlled) -> None:
    """One that passed the schema while no webhook looked; it gets no namespace and claims no host."""
    await cluster.node("dpu1", "host-a")
    await controlled()
    await add(cluster, "tenant1", identity={"names": [" n"]}, hosts=["host-a"])
    await eventually(settled(cluster, "tenant1", "error", "spec.identity.names[0]"))
    assert await cluster.find(NAMESPACES, "tenant-tenant1") is None
    assert TENANT_LABEL not in await cluster.labels("dpu1")


async def test_a_settled_tenant_is_not_written_again(cluster, controlled) -> None:
    """And a condition that stays keeps the time of its transition, whatever else changes."""
    moments = iter(datetime(2026, 1, 1, tzinfo=UTC) + timedelta(minutes=n) for n in range(1000))
    client = Counting(cluster.client)
    await controlled(client=client, now=lambda: next(moments), resync=0.2)
    await add(cluster, "tenant1")
    await eventually(settled(cluster, "tenant1", "success"))
    await asyncio.sleep(0.3)
    first, written, read = await cluster.tenant(), client.calls["apply"], client.calls["get"]
    await eventually(lambda: client.calls["get"] > read + 4)
    assert client.calls["apply"] == written
    await cluster.change("tenant1", suspended=True)
    await eventually(settled(cluster, "tenant1", "", "suspended"))
    times = [
        {item["type"]: item["lastTransitionTime"] for item in of["conditions"]}
        for of in (first["status"], await status(cluster))
    ]
    assert times[0]["IdentityReady"] == times[1]["IdentityReady"]
    assert times[0]["Ready"] != times[1]["Ready"]


class Counting:
    """A client that counts what it is asked."""

    def __init__(self, client: Any) -> None:
        self._client = client
        self.calls: Counter[str] = Counter()

    def __getattr__(self, name: str) -> Any:
        self.calls[name] += 1
        return getattr(self._client, name)


async def test_two_controllers_at_once_agree(cluster, controlled) -> None:
    for number in range(4):
        await cluster.node(f"dpu{number}", f"host-{number}")
    await controlled()
    await controlled()
    for number in range(4):
        await add(cluster, f"tenant{number}", hosts=[f"host-{number}"])
    for number in range(4):
        await eventually(settled(cluster, f"tenant{number}", "success"))
        await eventually(labeled(cluster, f"dpu{number}", f"tenant{number}"))


async def test_it_waits_for_the_definition_and_says_so(cluster, controlled) -> None:
    """Readiness names what is missing; when the definition comes, work begins."""
    name = "tenants.workload.infra.universe.nvidia.com"
    definition = await cluster.client.get(CUSTOM_RESOURCE_DEFINITIONS, name)
    await cluster.client.delete(CUSTOM_RESOURCE_DEFINITIONS, name)

    async def gone() -> bool:
        return await cluster.find(CUSTOM_RESOURCE_DEFINITIONS, name) is None

    await eventually(gone)
    starting = asyncio.create_task(controlled())
    controller = tenants_kit(cluster.client)
    assert sorted(line.split(":")[0] for line in controller.waiting()) == ["namespaces", "nodes", "tenants"]
    await asyncio.sleep(0.2)
    assert not starting.done()
    body = {"metadata": {"name": name}, "spec": definition["spec"]}
    await cluster.client.create(CUSTOM_RESOURCE_DEFINITIONS, body)
    await add(cluster, "tenant1")
    await starting
    await eventually(settled(cluster, "tenant1", "success"))
