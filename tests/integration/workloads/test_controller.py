"""From rules and workloads to companions, over HTTP: what is created, kept, changed in place, made anew, removed."""

from __future__ import annotations

import asyncio
import json

from app.kube.resources import PODS
from app.workloads.model import (
    ADMIN_RULES,
    COMPANION,
    INJECTED,
    RULE_NAME,
    TENANT_RULES,
    WORKLOAD,
    WORKLOAD_ID,
    WORKLOADS,
)
from tests.support.waiting import eventually
from tests.support.workloads import SYSTEM, T1, T2, Infra, rule


def annotations(infra: Infra, name: str) -> dict[str, str]:
    return dict(infra.pods()[name]["metadata"]["annotations"])


async def quiet(seconds: float = 0.3) -> None:
    """Time in which nothing must happen."""
    await asyncio.sleep(seconds)


async def test_rule_creates_a_companion_in_the_tenant_namespace_only(infra: Infra) -> None:
    await infra.workload("u1", name="p1")
    await infra.workload("u2", name="p2")
    await infra.workload("u3", name="p1", namespace=T2)
    await infra.rule("r", match=("metadata.resourceName", ["p1"]))
    async with infra.controller():
        await eventually(infra.pods)
        await quiet()
    assert list(infra.pods()) == ["r-u1"]
    metadata = infra.pods()["r-u1"]["metadata"]
    assert metadata["namespace"] == T1
    assert metadata["annotations"][RULE_NAME] == "r"
    assert metadata["annotations"][WORKLOAD] == f"{T1}/u1"
    assert metadata["labels"][COMPANION] == "tenant"


async def test_injected_annotations_are_updated_in_place(infra: Infra) -> None:
    await infra.workload("u1")
    await infra.rule("r", inject={"labels": "state.extra.labels", "node": "state.nodeName"})
    async with infra.controller() as client:
        await eventually(infra.pods)
        assert annotations(infra, "r-u1")["labels"] == "{}"
        assert "node" not in annotations(infra, "r-u1")
        uid = infra.uid("r-u1")
        await infra.workload("u1", labels={"foo": "bar"}, node="host-a")
        await eventually(lambda: annotations(infra, "r-u1")["labels"] == '{"foo":"bar"}')
        assert annotations(infra, "r-u1")["node"] == "host-a"
        # An annotation that is not injected any more goes, those of others stay.
        await infra.admin.patch(
            PODS, "r-u1", {"metadata": {"annotations": {"mine": "x"}}}, patch_type="merge", namespace=T1
        )
        await infra.rule("r", inject={"node": "state.nodeName"})
        await eventually(lambda: "labels" not in annotations(infra, "r-u1"))
        assert json.loads(annotations(infra, "r-u1")[INJECTED]) == ["node"]
        assert annotations(infra, "r-u1")["mine"] == "x"
        assert infra.uid("r-u1") == uid
        assert client.counts["get pods"] == 0
        assert client.counts["patch pods"] == 2


async def test_marks_that_people_search_by_are_repaired(infra: Infra) -> None:
    """An edit of the rule's name or of the workload's id on a companion does not stay."""
    await infra.workload("u1")
    await infra.rule("r")
    async with infra.controller():
        await eventually(infra.pods)
        uid, wrong = infra.uid("r-u1"), {"annotations": {RULE_NAME: "zzz"}, "labels": {WORKLOAD_ID: "zzz"}}
        await infra.admin.patch(PODS, "r-u1", {"metadata": wrong}, patch_type="merge", namespace=T1)
        await eventually(lambda: annotations(infra, "r-u1")[RULE_NAME] == "r")
        assert infra.pods()["r-u1"]["metadata"]["labels"][WORKLOAD_ID] == "u1"
        assert infra.uid("r-u1") == uid


async def test_annotation_of_the_template_comes_back_when_it_is_no_longer_injected(infra: Infra) -> None:
    template = rule("r")["spec"]["template"] | {"metadata": {"annotations": {"a": "template"}}}
    await infra.workload("u1", node="host-a")
    await infra.rule("r", template=template, inject={"a": "state.nodeName"})
    async with infra.controller():
        await eventually(infra.pods)
        assert annotations(infra, "r-u1")["a"] == "host-a"
        uid = infra.uid("r-u1")
        await infra.rule("r", template=template)
        await eventually(lambda: annotations(infra, "r-u1")["a"] == "template")
        assert infra.uid("r-u1") == uid


async def test_somebody_elses_change_of_an_injected_annotation_is_undone(infra: Infra) -> None:
    await infra.workload("u1", node="host-a")
    await infra.rule("r", inject={"node": "state.nodeName"})
    async with infra.controller():
        await eventually(infra.pods)
        body = {"metadata": {"annotations": {"node": "wrong"}}}
        await infra.admin.patch(PODS, "r-u1", body, patch_type="merge", namespace=T1)
        await eventually(lambda: annotations(infra, "r-u1")["node"] == "host-a")


async def test_template_change_makes_a_new_pod_of_the_same_name_once_the_old_is_gone(infra: Infra) -> None:
    await infra.workload("u1")
    await infra.rule("r")
    async with infra.controller() as client:
        await eventually(infra.pods)
        await infra.bind("r-u1")
        uid = infra.uid("r-u1")
        await infra.rule("r", image="nginx:2")
        await eventually(lambda: infra.pods()["r-u1"]["metadata"].get("deletionTimestamp"))
        await quiet()
        assert infra.uid("r-u1") == uid
        assert client.counts["create pods"] == 1
        assert client.counts["delete pods"] == 1
        await infra.confirm("r-u1")
        await eventually(lambda: infra.pods() and infra.uid("r-u1") != uid)
        assert infra.pods()["r-u1"]["spec"]["containers"][0]["image"] == "nginx:2"
        await quiet()
        assert client.counts["create pods"] == 2
        assert client.counts["get pods"] == 0


async def test_change_of_terms_keeps_the_pods_that_still_match(infra: Infra) -> None:
    await infra.workload("u1", name="p1")
    await infra.workload("u2", name="p2")
    await infra.rule("r", match=("metadata.resourceName", ["p1"]))
    async with infra.controller():
        await eventually(lambda: set(infra.pods()) == {"r-u1"})
        uid = infra.uid("r-u1")
        await infra.rule("r", match=("metadata.resourceName", ["p1", "p2"]))
        await eventually(lambda: set(infra.pods()) == {"r-u1", "r-u2"})
        assert infra.uid("r-u1") == uid
        second = infra.uid("r-u2")
        await infra.rule("r", match=("metadata.resourceName", ["p2"]))
        await eventually(lambda: set(infra.pods()) == {"r-u2"})
        assert infra.uid("r-u2") == second


async def test_end_of_a_workload_or_a_rule_ends_its_companions_and_no_others(infra: Infra) -> None:
    for id_ in ("u1", "u2"):
        await infra.workload(id_)
    await infra.rule("r1")
    await infra.rule("r2")
    plain = {"metadata": {"name": "plain", "namespace": T1}, "spec": rule("r")["spec"]["template"]["spec"]}
    await infra.admin.create(PODS, plain, namespace=T1)
    async with infra.controller():
        await eventually(lambda: len(infra.pods()) == 5)
        await infra.remove(WORKLOADS, "workload-u2")
        await eventually(lambda: set(infra.pods()) == {"plain", "r1-u1", "r2-u1"})
        uid = infra.uid("r2-u1")
        await infra.remove(TENANT_RULES, "r1")
        await eventually(lambda: set(infra.pods()) == {"plain", "r2-u1"})
        assert infra.uid("r2-u1") == uid


async def test_admin_rule_makes_companions_of_several_tenants_in_our_namespace(infra: Infra) -> None:
    await infra.workload("u1", node="host-a")
    await infra.workload("u2", node="host-c", namespace=T2)
    await infra.admin_rule("a", policy="SameNode", inject={"full-workload-info": "@"})
    async with infra.controller():
        await eventually(lambda: set(infra.pods(SYSTEM)) == {"a-tenant-tenant1-u1", "a-tenant-tenant2-u2"})
        pod = infra.pods()["a-tenant-tenant2-u2"]
        assert json.loads(pod["metadata"]["annotations"]["full-workload-info"])["state"]["nodeName"] == "host-c"
        assert pod["metadata"]["annotations"]["berth.dev/dpu-of-host"] == "host-c"
        assert host_of(pod) == {"provisioning.dpu.nvidia.com/host": ["host-c"], "berth.dev/tenant": ["tenant2"]}
        await infra.remove(ADMIN_RULES, "a", SYSTEM)
        await eventually(lambda: not infra.pods())


async def test_same_node_waits_for_the_node_and_is_confined_to_the_tenant(infra: Infra) -> None:
    await infra.workload("u1")
    await infra.rule("r", policy="SameNode")
    async with infra.controller():
        await eventually(lambda: infra.status(WORKLOADS, "workload-u1"))
        entry = infra.status(WORKLOADS, "workload-u1")["rules"]["tenant"][0]["status"]
        assert (entry["result"], entry["reason"]) == ("", "NoNode")
        assert not infra.pods()
        await infra.workload("u1", node="host-a")
        await eventually(infra.pods)
        wanted = {"provisioning.dpu.nvidia.com/host": ["host-a"], "berth.dev/tenant": ["tenant1"]}
        assert host_of(infra.pods()["r-u1"]) == wanted


async def test_policy_change_makes_the_companion_anew(infra: Infra) -> None:
    await infra.workload("u1", node="host-a")
    await infra.rule("r")
    async with infra.controller():
        await eventually(infra.pods)
        uid = infra.uid("r-u1")
        await infra.rule("r", policy="SameNode")
        await eventually(lambda: infra.pods() and infra.uid("r-u1") != uid)
        assert "provisioning.dpu.nvidia.com/host" in host_of(infra.pods()["r-u1"])


async def test_orphans_are_swept_at_the_start(infra: Infra) -> None:
    await infra.workload("u1")
    await infra.workload("u2")
    await infra.rule("r")
    await infra.rule("gone")
    async with infra.controller():
        await eventually(lambda: len(infra.pods()) == 4)
    await infra.remove(WORKLOADS, "workload-u2")
    await infra.remove(TENANT_RULES, "gone")
    async with infra.controller():
        await eventually(lambda: set(infra.pods()) == {"r-u1"})


async def test_deleted_companion_comes_back(infra: Infra) -> None:
    await infra.workload("u1")
    await infra.rule("r")
    async with infra.controller():
        await eventually(infra.pods)
        uid = infra.uid("r-u1")
        await infra.admin.delete(PODS, "r-u1", namespace=T1)
        await eventually(lambda: infra.pods() and infra.uid("r-u1") != uid)


async def test_settled_cluster_costs_no_request(infra: Infra) -> None:
    for n in range(5):
        await infra.workload(f"u{n}")
    await infra.rule("r1", inject={"x": "@"})
    await infra.rule("r2")
    async with infra.controller(resync=0.1) as client:
        await eventually(lambda: len(infra.pods()) == 10)
        for name in ("r1", "r2"):
            await eventually(lambda name=name: infra.status(TENANT_RULES, name).get("created") == 5)
        for n in range(5):
            await eventually(lambda n=n: infra.status(WORKLOADS, f"workload-u{n}").get("rules"))
        await quiet(1.2)
        before = dict(client.counts)
        await quiet(0.5)
        assert dict(client.counts) == before
        assert before["create pods"] == 10
        assert not before.get("get pods")
        # Each once; again where the watch had not shown the first when the next resync came.
        assert before["patchstatus workloads"] >= 5


def host_of(pod: dict) -> dict[str, list[str]]:
    """The conditions that the only term of the Pod's required node affinity sets."""
    affinity = pod["spec"]["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    (term,) = affinity["nodeSelectorTerms"]
    return {one["key"]: one["values"] for one in term["matchExpressions"]}
