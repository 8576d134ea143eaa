"""What an update of the page costs: what has changed is computed, and nothing else."""

from __future__ import annotations

from app.explain import compared as explained
from app.kube.resources import NODES, PODS
from app.networks.views import USES
from app.wire import JSON
from app.workloads.model import TENANT_RULES, WORKLOADS
from tests.support.fabric import Fabric
from tests.support.page import Page, page_of
from tests.support.sandbox import Sandboxed, sandboxed
from tests.support.waiting import eventually

__all__ = ["sandboxed"]


async def seen(page: Page, resource: object, namespace: str, name: str, label: str) -> None:
    """Returns when the page knows of the label."""
    stores = page.sources[0].stores

    async def known() -> bool:
        obj = await stores.get(resource, name, namespace or None)  # type: ignore[arg-type]
        return obj["metadata"].get("labels", {}).get("changed") == label

    await eventually(known)


def relabel(server: Sandboxed, path: str, label: str) -> None:
    body = {"metadata": {"labels": {"changed": label}}}
    answer = server.request("PATCH", path, body, content_type="application/merge-patch+json")
    assert answer.status == 200, answer.body


async def test_of_10_pods_on_networks_the_one_that_changed_is_looked_at(sandboxed: Sandboxed) -> None:
    fabric = Fabric(sandboxed)
    fabric.attachment("default", "net", "nvidia.com/bf3")
    for number in range(10):
        fabric.pod("default", f"user-{number}", "net", **{"nvidia.com/bf3": "1"})
    async with page_of(sandboxed.kubeconfig()) as page:
        (row,) = (await page.get("/api/networks?namespace=default")).json["page"]["rows"]
        assert row["cells"]["pods"] == "10 Pods"
        computed = USES.computed
        relabel(sandboxed, PODS.path(namespace="default", name="user-3"), "yes")
        await seen(page, PODS, "default", "user-3", "yes")
        (row,) = (await page.get("/api/networks?namespace=default")).json["page"]["rows"]
        assert row["cells"]["pods"] == "10 Pods"
        assert USES.computed == computed + 1


async def test_a_workload_concerns_the_rules_of_its_tenant_alone(sandboxed: Sandboxed) -> None:
    fabric = Fabric(sandboxed)
    unmatched: JSON = {"type": "Matched", "status": "False", "reason": "NoWorkload", "message": "matches none"}
    for tenant in ("red", "blue"):
        said = unmatched | {"lastTransitionTime": "2026-11-29T10:00:00Z"}
        fabric.rule("rule", tenant, matched=0, conditions=[said])
        for number in range(5):
            fabric.workload(f"{tenant}-{number}", tenant, "wbe")
    async with page_of(sandboxed.kubeconfig()) as page:
        results = page.sources[0].results
        rows = (await page.get("/api/rules")).json["page"]["rows"]
        ours = [row for row in rows if row["target"]["namespace"] in ("tenant-red", "tenant-blue")]
        assert [row["text"] for row in ours] == ["no companions; matches 0 of 5 workloads"] * 2
        judged, projected = results.computed, explained.STORED.computed
        relabel(sandboxed, WORKLOADS.path(namespace="tenant-red", name="workload-red-3"), "yes")
        await seen(page, WORKLOADS, "tenant-red", "workload-red-3", "yes")
        assert (await page.get("/api/rules")).json["page"]["rows"] == rows
        assert explained.STORED.computed == projected + 1
        assert results.computed == judged + 1


async def test_a_heartbeat_of_a_node_changes_nothing(sandboxed: Sandboxed) -> None:
    fabric = Fabric(sandboxed, TENANT_RULES)
    fabric.tenant("acme", "host-a")
    fabric.dpu("beating", "host-a", "acme")
    async with page_of(sandboxed.kubeconfig()) as page:
        results, path = page.sources[0].results, NODES.path(name="beating")
        before = (await page.get("/api/fabric")).json
        computed = results.computed
        node = sandboxed.request("GET", path).body
        for condition in node["status"]["conditions"]:
            condition["lastHeartbeatTime"] = "2026-11-29T12:00:00Z"
        assert sandboxed.request("PUT", f"{path}/status", node).status == 200
        version = sandboxed.request("GET", path).body["metadata"]["resourceVersion"]

        async def known() -> bool:
            obj = await page.sources[0].stores.get(NODES, "beating", None)
            return bool(obj["metadata"]["resourceVersion"] == version)

        await eventually(known)
        assert (await page.get("/api/fabric")).json == before
        assert results.computed == computed
        relabel(sandboxed, path, "yes")
        await seen(page, NODES, "", "beating", "yes")
        await page.get("/api/fabric")
        assert results.computed > computed
