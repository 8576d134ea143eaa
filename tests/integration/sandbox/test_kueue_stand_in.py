"""The stand-in for Kueue's scheduler as a client of a whole API server."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest_asyncio
from structlog.testing import capture_logs

from app.appwrappers.kueue.model import CLUSTER_QUEUES, LOCAL_QUEUES, RESOURCE_FLAVORS, WORKLOADS
from app.devtools.clusters.definitions import define
from app.devtools.kueue.definitions import KINDS, kueue_definitions
from app.devtools.kueue.stand_in import RUNTIME_CLASSES, KueueStandIn
from app.devtools.sandbox.server import Cluster
from app.kube.client import KubeClient
from app.kube.conditions import condition
from app.kube.resources import Resource
from app.kube.retry import get_or_none
from app.kube.transport import connect
from app.text import stamp
from tests.support.running import running
from tests.support.waiting import PATIENCE, eventually

JSON = dict[str, Any]
NAMESPACE = "default"
GROUPS = [
    {
        "coveredResources": ["cpu"],
        "flavors": [{"name": "plain", "resources": [{"name": "cpu", "nominalQuota": "4"}]}],
    }
]


@pytest_asyncio.fixture
async def client(tmp_path: Path) -> AsyncIterator[KubeClient]:
    """A client of a cluster whose quota the stand-in gives: 4 CPUs, to the LocalQueue lq."""
    async with Cluster() as cluster:
        path = tmp_path / "kubeconfig"
        path.write_text(cluster.kubeconfig())
        async with await connect(kubeconfig=str(path), deadline=PATIENCE) as made:
            await define(made, KINDS, kueue_definitions())
            await create(made, RESOURCE_FLAVORS, "plain", {})
            preempting = {"withinClusterQueue": "LowerPriority"}
            spec = {"resourceGroups": GROUPS, "namespaceSelector": {}, "preemption": preempting}
            await create(made, CLUSTER_QUEUES, "cq", spec)
            await create(made, LOCAL_QUEUES, "lq", {"clusterQueue": "cq"})
            async with running(KueueStandIn(made).run()):
                yield made


async def create(client: KubeClient, resource: Resource, name: str, spec: JSON) -> JSON:
    namespace = NAMESPACE if resource.namespaced else None
    return await client.create(resource, resource.body({"name": name}, spec=spec), namespace=namespace)


async def submit(client: KubeClient, name: str, cpu: int, **spec: Any) -> None:
    containers = [{"name": "c", "image": "busybox", "resources": {"requests": {"cpu": "1"}}}]
    pod_sets = [{"name": "main", "count": cpu, "template": {"spec": {"containers": containers}}}]
    await create(client, WORKLOADS, name, {"podSets": pod_sets, "queueName": "lq", **spec})


async def until(client: KubeClient, name: str, holds: Callable[[JSON], Any], resource: Resource = WORKLOADS) -> JSON:
    """The status of an object as soon as `holds` accepts it."""
    namespace = NAMESPACE if resource.namespaced else None
    found = await eventually(
        lambda: get_or_none(client, resource, name, namespace=namespace),
        lambda one: one is not None and holds(one.get("status") or {}),
    )
    status: JSON = found["status"]
    return status


def says(kind: str, status: str = "True", reason: str = "") -> Callable[[JSON], bool]:
    def holds(found: JSON) -> bool:
        one = condition(found, kind)
        return one.get("status") == status and reason in ("", one.get("reason"))

    return holds


async def say(client: KubeClient, name: str, kind: str, truth: str, reason: str = "Test", **fields: Any) -> None:
    """What the owner of a Workload writes into its status."""
    found = await client.get(WORKLOADS, name, namespace=NAMESPACE)
    others = [one for one in found["status"].get("conditions") or [] if one["type"] != kind]
    new = {"type": kind, "status": truth, "reason": reason, "message": "", "lastTransitionTime": stamp()}
    body = {"status": {"conditions": [*others, new], **fields}}
    await client.patch(WORKLOADS, name, body, patch_type="merge", namespace=NAMESPACE, subresource="status")


async def change(client: KubeClient, resource: Resource, name: str, **spec: Any) -> None:
    namespace = NAMESPACE if resource.namespaced else None
    await client.patch(resource, name, {"spec": spec}, patch_type="merge", namespace=namespace)


async def test_it_counts_what_a_pod_needs_besides_its_containers(client: KubeClient) -> None:
    overhead = {"metadata": {"name": "kata"}, "handler": "kata", "overhead": {"podFixed": {"cpu": "250m"}}}
    await client.create(RUNTIME_CLASSES, RUNTIME_CLASSES.body(overhead.pop("metadata"), **overhead))
    pod = {"containers": [{"name": "c", "image": "busybox"}], "resources": {"limits": {"cpu": "2"}}}
    template = {"spec": {**pod, "runtimeClassName": "kata"}}
    pod_sets = [{"name": "main", "count": 1, "template": template}]
    await create(client, WORKLOADS, "counted", {"podSets": pod_sets, "queueName": "lq"})
    status = await until(client, "counted", says("Admitted"))
    assert status["admission"]["podSetAssignments"][0]["resourceUsage"] == {"cpu": "2250m"}


async def test_it_says_that_it_is_a_stand_in(client: KubeClient) -> None:
    with capture_logs() as lines:
        another = asyncio.create_task(KueueStandIn(client).run())
        await eventually(lambda: [line["event"] for line in lines if line["event"].startswith("a stand-in")])
        another.cancel()
        await asyncio.gather(another, return_exceptions=True)
    assert {
        "event": "a stand-in schedules Workloads; it is not Kueue",
        "server": client.server,
        "log_level": "info",
    } in lines


async def test_one_waits_and_is_admitted_when_the_other_has_finished(client: KubeClient) -> None:
    await submit(client, "first", 3)
    status = await until(client, "first", says("Admitted"))
    assert status["admission"]["clusterQueue"] == "cq"
    await submit(client, "second", 2)
    await until(client, "second", says("QuotaReserved", "False", "WaitingForQuota"))
    used = [{"name": "plain", "resources": [{"name": "cpu", "total": "3", "borrowed": "0"}]}]
    status = await until(client, "cq", lambda s: s.get("pendingWorkloads") == 1, CLUSTER_QUEUES)
    assert says("Active")(status)
    assert (status["admittedWorkloads"], status["flavorsUsage"]) == (1, used)
    await say(client, "first", "Finished", "True")
    await until(client, "second", says("Admitted"))
    status = await until(client, "lq", lambda s: s.get("pendingWorkloads") == 0, LOCAL_QUEUES)
    assert (status["reservingWorkloads"], status["admittedWorkloads"]) == (1, 1)


async def test_many_that_come_at_once_get_no_more_than_there_is(client: KubeClient) -> None:
    async with asyncio.TaskGroup() as group:
        for number in range(12):
            group.create_task(submit(client, f"w{number}", 1))
    for number in range(12):
        await until(client, f"w{number}", lambda s: condition(s, "QuotaReserved"))
    status = await until(client, "cq", lambda s: s.get("pendingWorkloads") == 8, CLUSTER_QUEUES)
    assert status["admittedWorkloads"] == 4


async def test_who_is_preempted_comes_back_when_its_owner_has_stopped(client: KubeClient) -> None:
    await submit(client, "low", 4)
    await until(client, "low", says("Admitted"))
    await submit(client, "high", 2, priority=7)
    status = await until(client, "low", says("Evicted", "True", "Preempted"))
    assert says("Preempted", "True", "InClusterQueue")(status)
    await until(client, "high", says("QuotaReserved", "False", "WaitingForPreemptedWorkloads"))
    await say(client, "low", "QuotaReserved", "False")
    await until(client, "high", says("Admitted"))
    status = await until(client, "low", says("QuotaReserved", "False", "WaitingForQuota"))
    assert "admission" not in status
    assert says("Admitted", "False")(status)
    await client.delete(WORKLOADS, "high", namespace=NAMESPACE)
    status = await until(client, "low", says("Admitted"))
    assert says("Evicted", "False", "QuotaReserved")(status)


async def test_a_deactivated_workload_is_evicted_and_comes_back(client: KubeClient) -> None:
    await submit(client, "one", 4)
    await until(client, "one", says("Admitted"))
    await change(client, WORKLOADS, "one", active=False)
    await until(client, "one", says("Evicted", "True", "Deactivated"))
    await say(client, "one", "QuotaReserved", "False", admission=None)
    await until(client, "one", says("QuotaReserved", "False", "Deactivated"))
    await change(client, WORKLOADS, "one", active=True)
    await until(client, "one", says("Admitted"))


async def test_a_queue_that_is_stopped_and_started(client: KubeClient) -> None:
    await change(client, CLUSTER_QUEUES, "cq", stopPolicy="Hold")
    await until(client, "lq", says("Active", "False", "ClusterQueueIsInactive"), LOCAL_QUEUES)
    await submit(client, "one", 1)
    await until(client, "one", says("QuotaReserved", "False", "Suspended"))
    await change(client, CLUSTER_QUEUES, "cq", stopPolicy="None")
    await until(client, "one", says("Admitted"))


async def test_it_is_queued_again_at_its_time_without_any_event(client: KubeClient) -> None:
    await change(client, LOCAL_QUEUES, "lq", stopPolicy="Hold")
    await submit(client, "one", 1)
    await until(client, "one", says("QuotaReserved", "False", "Suspended"))
    requeue = {"requeueAt": stamp(datetime.now(UTC) + timedelta(seconds=2))}
    await say(client, "one", "Requeued", "False", "PodsReadyTimeout", requeueState=requeue)
    status = await until(client, "one", says("Requeued", "True", "BackoffFinished"))
    assert "requeueAt" not in status["requeueState"]


async def test_quota_that_is_added_admits_who_waits(client: KubeClient) -> None:
    await submit(client, "large", 5)
    await until(client, "large", says("QuotaReserved", "False", "ExceedsMaxQuota"))
    flavors = [{"name": "plain", "resources": [{"name": "cpu", "nominalQuota": 6}]}]
    await change(client, CLUSTER_QUEUES, "cq", resourceGroups=[{"coveredResources": ["cpu"], "flavors": flavors}])
    await until(client, "large", says("Admitted"))


async def test_a_status_that_the_api_server_refuses_keeps_no_other_waiting(client: KubeClient) -> None:
    await submit(client, "full", 1, queueName="nowhere")
    await until(client, "full", says("QuotaReserved", "False", "Misconfigured"))
    full = [
        {"type": f"Other{n}", "status": "True", "reason": "Test", "message": "", "lastTransitionTime": stamp()}
        for n in range(16)
    ]
    body = {"status": {"conditions": full}}
    await client.patch(WORKLOADS, "full", body, patch_type="merge", namespace=NAMESPACE, subresource="status")
    await submit(client, "other", 1)
    await until(client, "other", says("Admitted"))
    assert not condition(await until(client, "full", bool), "QuotaReserved")
