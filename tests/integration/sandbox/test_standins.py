"""The stand-ins as clients of a whole API server."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from app.devtools.sandbox.server import Cluster
from app.devtools.sandbox.standins.kubelet import NodeSpec
from app.devtools.sandbox.standins.standins import StandIns
from app.errors import ApiError
from app.kube.client import KubeClient
from app.kube.resources import (
    CONFIG_MAPS,
    CUSTOM_RESOURCE_DEFINITIONS,
    EVENTS,
    NAMESPACES,
    NODES,
    PODS,
    SERVICE_ACCOUNTS,
    Resource,
)
from app.kube.retry import get_or_none
from app.kube.transport import connect
from tests.support.command_line import kubectl
from tests.support.waiting import PATIENCE, eventually

JSON = dict[str, Any]
SPECS = [
    NodeSpec("host-a", {"disk": "ssd"}),
    NodeSpec("host-b", taints=[{"key": "dpu", "value": "", "effect": "NoSchedule"}]),
]


@pytest_asyncio.fixture
async def client(tmp_path: Path) -> AsyncIterator[KubeClient]:
    """A client of a cluster whose stand-ins run."""
    async with Cluster() as cluster:
        path = tmp_path / "kubeconfig"
        path.write_text(cluster.kubeconfig())
        async with await connect(kubeconfig=str(path), deadline=PATIENCE) as made:
            running = asyncio.create_task(StandIns(made, SPECS).run())
            for spec in SPECS:
                await until(made, NODES, spec.name, lambda node: node and node["status"].get("allocatable"))
            yield made
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)


async def until(
    client: KubeClient,
    resource: Resource,
    name: str,
    holds: Callable[[JSON | None], Any],
    namespace: str | None = None,
) -> Any:
    """The object (None: absent) as soon as `holds` accepts it."""
    return await eventually(lambda: get_or_none(client, resource, name, namespace=namespace), holds)


def absent(obj: JSON | None) -> bool:
    return obj is None


def pod(name: str = "p", *, requests: JSON | None = None, metadata: JSON | None = None, **spec: Any) -> JSON:
    resources = {"requests": requests, "limits": requests} if requests else {}
    container = {"name": "c", "image": "busybox", "resources": resources}
    meta = {"name": name, "namespace": "default", **(metadata or {})}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": {"containers": [container], **spec}}


async def create(client: KubeClient, obj: JSON) -> JSON:
    return await client.create(PODS, obj, namespace="default")


def running(obj: JSON | None) -> bool:
    return obj is not None and obj["status"].get("phase") == "Running"


def unschedulable(obj: JSON | None) -> str:
    conditions = (obj or {}).get("status", {}).get("conditions") or []
    return next(
        (c.get("message", "") for c in conditions if c["type"] == "PodScheduled" and c["status"] == "False"), ""
    )


async def events(client: KubeClient, name: str, count: int) -> list[JSON]:
    """The Events of a Pod, from the first to the last, once there are so many."""

    async def look() -> list[JSON]:
        found = (await client.list_page(EVENTS, namespace="default")).items
        return [one for one in found if one["involvedObject"]["name"] == name]

    found = await eventually(look, lambda found: len(found) >= count)
    return sorted(found, key=lambda one: int(one["metadata"]["resourceVersion"]))


def configmap(name: str, *owners: JSON, **metadata: Any) -> JSON:
    references = [
        {"apiVersion": o["apiVersion"], "kind": o["kind"], "name": o["metadata"]["name"], "uid": o["metadata"]["uid"]}
        for o in owners
    ]
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": name, "ownerReferences": references, **metadata},
    }


async def test_nodes_exist_with_labels_capacity_and_a_ready_condition(client: KubeClient) -> None:
    node = await client.get(NODES, "host-a")
    assert node["metadata"]["labels"]["disk"] == "ssd"
    assert node["metadata"]["labels"]["kubernetes.io/hostname"] == "host-a"
    assert node["status"]["capacity"]["cpu"] == node["status"]["allocatable"]["cpu"] == "8"
    assert {c["type"]: c["status"] for c in node["status"]["conditions"]}["Ready"] == "True"
    assert (await client.get(NODES, "host-b"))["spec"]["taints"][0]["key"] == "dpu"


async def test_the_taint_of_a_new_node_is_lifted_and_others_stay(client: KubeClient) -> None:
    fresh = {"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}
    kept = {"key": "dpu", "effect": "NoSchedule"}
    await client.patch(NODES, "host-b", {"spec": {"taints": [fresh, kept]}}, patch_type="merge")
    lifted = lambda n: n and [t["key"] for t in n["spec"]["taints"]] == ["dpu"]  # noqa: E731
    await until(client, NODES, "host-b", lifted)


async def test_a_pod_gets_a_node_and_runs_with_an_address(client: KubeClient) -> None:
    await create(client, pod())
    found = await until(client, PODS, "p", running, "default")
    assert found["spec"]["nodeName"] == "host-a"
    status = found["status"]
    assert {c["type"]: c["status"] for c in status["conditions"]}["Ready"] == "True"
    assert status["podIP"] == status["podIPs"][0]["ip"]
    assert status["podIP"].startswith("10.244.")
    assert status["containerStatuses"][0]["ready"] is True
    assert "running" in status["containerStatuses"][0]["state"]
    assert status["startTime"]


async def test_patched_device_capacity_lets_a_waiting_pod_run_and_is_never_overwritten(
    client: KubeClient, tmp_path: Path
) -> None:
    device = {"example.com/foo": "2"}
    await create(client, pod(requests=device))
    waiting = await until(client, PODS, "p", unschedulable, "default")
    assert unschedulable(waiting).startswith(
        "0/2 nodes are available: 1 Insufficient example.com/foo, 1 node(s) had untolerated taint(s). "
    )
    assert waiting["status"]["phase"] == "Pending"
    failed, *_ = await events(client, "p", 1)
    assert (failed["type"], failed["reason"]) == ("Warning", "FailedScheduling")
    assert failed["message"] == unschedulable(waiting)
    assert failed["source"] == {"component": "default-scheduler"}
    # A look at it that finds the same is no new Event.
    await client.patch(NODES, "host-b", {"metadata": {"labels": {"looked": "at"}}}, patch_type="merge")
    patch = [{"op": "add", "path": "/status/capacity/example.com~1foo", "value": "4"}]
    await client.patch(NODES, "host-a", patch, patch_type="json", subresource="status")
    await until(client, PODS, "p", running, "default")
    assert [one["reason"] for one in await events(client, "p", 2)] == ["FailedScheduling", "Scheduled"]
    printed = (await kubectl(tmp_path / "kubeconfig", "describe", "pod", "p")).partition("\nEvents:\n")[2]
    normal, warning = sorted(printed.splitlines()[2:])  # those of one second come in any order
    assert normal.split(maxsplit=3)[-1] == "default-scheduler  Successfully assigned default/p to host-a"
    assert warning.split()[:2] == ["Warning", "FailedScheduling"]
    assert "Pod/p" in await kubectl(tmp_path / "kubeconfig", "events", "--for=pod/p")
    node = await client.get(NODES, "host-a")
    assert node["status"]["capacity"]["example.com/foo"] == node["status"]["allocatable"]["example.com/foo"] == "4"
    removal = [{"op": "remove", "path": "/status/capacity/example.com~1foo"}]
    await client.patch(NODES, "host-a", removal, patch_type="json", subresource="status")
    gone = await until(client, NODES, "host-a", lambda n: n and "example.com/foo" not in n["status"]["allocatable"])
    assert "example.com/foo" not in gone["status"]["capacity"]


async def test_a_freed_device_goes_to_the_next_pod(client: KubeClient) -> None:
    patch = [{"op": "add", "path": "/status/capacity/example.com~1foo", "value": "1"}]
    await client.patch(NODES, "host-a", patch, patch_type="json", subresource="status")
    await until(client, NODES, "host-a", lambda n: n and "example.com/foo" in n["status"]["allocatable"])
    for name in ("one", "two"):
        await create(client, pod(name, requests={"example.com/foo": "1"}))
    await until(client, PODS, "one", running, "default")
    await until(client, PODS, "two", unschedulable, "default")
    await client.delete(PODS, "one", namespace="default")
    await until(client, PODS, "two", running, "default")
    assert await until(client, PODS, "one", absent, "default") is None


async def test_an_unmatched_selector_waits_for_the_label(client: KubeClient) -> None:
    await create(client, pod(nodeSelector={"late": "yes"}))
    await until(client, PODS, "p", unschedulable, "default")
    await client.patch(NODES, "host-a", {"metadata": {"labels": {"late": "yes"}}}, patch_type="merge")
    await until(client, PODS, "p", running, "default")


async def test_a_given_node_needs_no_scheduler(client: KubeClient) -> None:
    await create(client, pod(nodeName="host-b"))
    assert (await until(client, PODS, "p", running, "default"))["spec"]["nodeName"] == "host-b"


@pytest.mark.parametrize(("code", "phase", "reason"), [("0", "Succeeded", "Completed"), ("3", "Failed", "Error")])
async def test_an_annotation_ends_a_pod_that_is_never_restarted(
    client: KubeClient, code: str, phase: str, reason: str
) -> None:
    annotations = {"annotations": {"berth.dev/sandbox-exit": code}}
    await create(client, pod(metadata=annotations, restartPolicy="Never"))
    done = await until(client, PODS, "p", lambda p: p and p["status"].get("phase") == phase, "default")
    ended = done["status"]["containerStatuses"][0]["state"]["terminated"]
    assert (ended["exitCode"], ended["reason"]) == (int(code), reason)
    await create(client, pod("stays", metadata=annotations))
    await until(client, PODS, "stays", running, "default")


def container(**fields: Any) -> JSON:
    return {"containers": [{"name": "c", "image": "busybox", **fields}]}


async def test_a_pod_ends_as_its_command_says(client: KubeClient) -> None:
    """After it has been seen running: the samples of the field are Pods that sleep."""
    await create(client, pod(**container(command=["sh", "-c"], args=["sleep 1; exit 5"]), restartPolicy="Never"))
    await until(client, PODS, "p", running, "default")
    done = await until(client, PODS, "p", lambda p: p and p["status"].get("phase") == "Failed", "default")
    assert done["status"]["containerStatuses"][0]["state"]["terminated"]["exitCode"] == 5
    assert {c["type"]: c.get("reason") for c in done["status"]["conditions"]}["Ready"] == "PodFailed"


async def test_a_pod_that_crashes_is_restarted_and_then_waits(client: KubeClient) -> None:
    await create(client, pod(**container(command=["false"]), restartPolicy="OnFailure"))
    waits = lambda p: p and "waiting" in p["status"].get("containerStatuses", [{"state": {}}])[0]["state"]  # noqa: E731
    found = (await until(client, PODS, "p", waits, "default"))["status"]
    crashed = found["containerStatuses"][0]
    assert (found["phase"], crashed["restartCount"]) == ("Running", 1)
    assert crashed["state"]["waiting"]["reason"] == "CrashLoopBackOff"
    assert crashed["lastState"]["terminated"]["exitCode"] == 1


async def test_a_deleted_pod_goes_when_its_finalizers_are_gone(client: KubeClient) -> None:
    await create(client, pod(metadata={"finalizers": ["example.com/hold"]}))
    await until(client, PODS, "p", running, "default")
    await client.delete(PODS, "p", namespace="default")
    confirmed = lambda p: p and p["metadata"].get("deletionGracePeriodSeconds") == 0  # noqa: E731
    await until(client, PODS, "p", confirmed, "default")
    await client.patch(PODS, "p", {"metadata": {"finalizers": None}}, patch_type="merge", namespace="default")
    await until(client, PODS, "p", absent, "default")


async def test_custom_resources_are_collected_too(client: KubeClient) -> None:
    things = Resource("x.example.com", "v1", "things", "Thing")
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    definition = {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "things.x.example.com"},
        "spec": {
            "group": "x.example.com",
            "scope": "Namespaced",
            "names": {"plural": "things", "kind": "Thing"},
            "versions": [{"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}],
        },
    }
    await client.create(CUSTOM_RESOURCE_DEFINITIONS, definition)
    established = lambda c: any(x["type"] == "Established" for x in c["status"].get("conditions") or [])  # noqa: E731
    await until(client, CUSTOM_RESOURCE_DEFINITIONS, "things.x.example.com", established)
    owner = await client.create(CONFIG_MAPS, configmap("owner"), namespace="default")
    metadata = configmap("thing", {**owner, "apiVersion": "v1", "kind": "ConfigMap"})["metadata"]
    thing = {"apiVersion": "x.example.com/v1", "kind": "Thing", "metadata": metadata}
    async with asyncio.timeout(PATIENCE):
        while True:
            try:
                await client.create(things, thing, namespace="default")
                break
            except ApiError as error:
                if not error.not_found:
                    raise
                await asyncio.sleep(0.1)
    await client.delete(CONFIG_MAPS, "owner", namespace="default")
    await until(client, things, "thing", absent, "default")


async def test_a_namespace_has_an_account_is_emptied_and_then_goes(client: KubeClient, tmp_path: Path) -> None:
    await client.create(NAMESPACES, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "team"}})
    for _ in range(2):
        account = await until(client, SERVICE_ACCOUNTS, "default", bool, "team")
        await client.delete(SERVICE_ACCOUNTS, "default", namespace="team", uid=account["metadata"]["uid"])
        await until(client, SERVICE_ACCOUNTS, "default", lambda one, uid=account: one != uid, "team")
    await until(client, SERVICE_ACCOUNTS, "default", bool, "team")
    assert await kubectl(tmp_path / "kubeconfig", "-n", "team", "create", "token", "default", "--duration=20m")
    await client.create(CONFIG_MAPS, configmap("held", finalizers=["example.com/hold"]), namespace="team")
    await client.create(PODS, pod(metadata={"namespace": "team"}), namespace="team")
    await until(client, PODS, "p", running, "team")
    await client.delete(NAMESPACES, "team")
    await until(client, PODS, "p", absent, "team")
    held = await until(client, CONFIG_MAPS, "held", lambda c: c and c["metadata"].get("deletionTimestamp"), "team")
    assert (await client.get(NAMESPACES, "team"))["status"]["phase"] == "Terminating"
    assert held is not None
    await client.patch(CONFIG_MAPS, "held", {"metadata": {"finalizers": None}}, patch_type="merge", namespace="team")
    await until(client, NAMESPACES, "team", absent)
