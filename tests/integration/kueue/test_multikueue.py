"""MultiKueue: an AppWrapper that waits in one cluster and runs in another, each with the real Kueue and with Berth."""

from __future__ import annotations

import asyncio
import base64
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest_asyncio
import yaml

from app.appwrappers.kueue.model import GROUP, MULTIKUEUE, QUOTA_RESERVED, WORKLOADS
from app.appwrappers.model import APP_WRAPPERS, QUEUE_NAME
from app.kube.conditions import condition, is_true
from app.kube.resources import PODS, SECRETS, Resource
from tests.support.queued_cluster import ADMISSION_CHECKS, Queue, QueuedCluster, job
from tests.support.real_operators import KUEUE
from tests.support.waiting import eventually

JSON = dict[str, Any]
Clusters = tuple[QueuedCluster, QueuedCluster]
"""The one where AppWrappers are created, and the one where they run."""
MEMBERS, CONFIGS = (
    Resource(GROUP, "v1beta2", kind.lower() + "s", kind, namespaced=False)
    for kind in ("MultiKueueCluster", "MultiKueueConfig")
)
NAME = "worker"
"""Of the objects that lead to the other cluster."""


class Queues(NamedTuple):
    """A queue of the same name and namespace in both; that of the manager has the admission check."""

    manager: Queue
    worker: Queue


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def connected(clusters: Clusters) -> Clusters:
    """The first cluster's Kueue acts in the second, as an administrator."""
    manager, worker = clusters
    kubeconfig = await asyncio.to_thread(_whole, worker.kubeconfig)
    secret = SECRETS.body({"name": NAME}) | {"data": {"kubeconfig": base64.b64encode(kubeconfig).decode()}}
    await manager.client.create(SECRETS, secret, namespace=KUEUE.namespace)
    source = {"kubeConfig": {"locationType": "Secret", "location": NAME}}
    parameters = {"apiGroup": GROUP, "kind": CONFIGS.kind, "name": NAME}
    for resource, spec in (
        (MEMBERS, {"clusterSource": source}),
        (CONFIGS, {"clusters": [NAME]}),
        (ADMISSION_CHECKS, {"controllerName": MULTIKUEUE, "parameters": parameters}),
    ):
        await manager.client.create(resource, resource.body({"name": NAME}, spec=spec))

    async def status() -> JSON:
        return (await manager.client.get(ADMISSION_CHECKS, NAME)).get("status") or {}

    await eventually(status, lambda read: is_true(read, "Active"))
    return clusters


async def test_it_runs_in_the_other_cluster_and_its_status_comes_back(connected: Clusters) -> None:
    async with _queues(connected) as queues:
        await _submit(queues.manager, "one", job("j", pods=2, seconds=3))
        reserved = await queues.manager.workload("one", lambda workload: is_true(workload["status"], QUOTA_RESERVED))
        await queues.manager.reaches("one", "Running", "Succeeded")
        assert (await connected[0].client.list_page(PODS, namespace=queues.manager.namespace)).items == []
        status = (await queues.manager.reaches("one", "Succeeded"))["status"]
        assert [component["name"] for component in status["componentStatus"]] == ["j"]
        ended = await queues.manager.workload("one", lambda workload: is_true(workload["status"], "Finished"))
        assert condition(ended["status"], "Finished")["reason"] == "Succeeded"
        assert ended["metadata"]["uid"] == reserved["metadata"]["uid"]
        await eventually(lambda: queues.worker.get(APP_WRAPPERS, "one"), lambda wrapper: not wrapper)


async def test_what_is_deleted_in_one_goes_from_the_other(connected: Clusters) -> None:
    async with _queues(connected) as queues:
        await _submit(queues.manager, "gone", job("j"))
        await queues.worker.reaches("gone", "Running")
        await queues.manager.delete("gone")
        await eventually(lambda: queues.worker.get(APP_WRAPPERS, "gone"), lambda wrapper: not wrapper)
        await queues.worker.unused()


async def test_one_that_is_evicted_ends_in_the_other_cluster_and_runs_again(connected: Clusters) -> None:
    async with _queues(connected, cpus=1) as queues:
        await _submit(queues.manager, "evicted", job("j"))
        await queues.manager.reaches("evicted", "Running")
        name = (await queues.manager.workload("evicted"))["metadata"]["name"]
        await queues.manager.change(WORKLOADS, name, {"spec": {"active": False}})
        await queues.manager.workload("evicted", lambda workload: not is_true(workload["status"], QUOTA_RESERVED))
        await eventually(lambda: queues.worker.get(APP_WRAPPERS, "evicted"), lambda wrapper: not wrapper)
        await queues.worker.unused()
        await queues.manager.change(WORKLOADS, name, {"spec": {"active": True}})
        await queues.worker.reaches("evicted", "Running")
        await queues.manager.reaches("evicted", "Running")


async def test_one_waits_for_quota_of_the_other_cluster(connected: Clusters) -> None:
    """Its Workload does, before there is an AppWrapper."""
    async with _queues(connected, cpus=1) as queues:
        await _submit(queues.manager, "first", job("first"))
        await queues.worker.reaches("first", "Running")
        await _submit(queues.manager, "second", job("second"))
        await eventually(queues.worker.workloads, lambda workloads: any(map(_is_pending, workloads)))
        assert await queues.worker.get(APP_WRAPPERS, "second") == {}
        assert (await queues.manager.get(APP_WRAPPERS, "second"))["spec"]["suspend"] is True
        await queues.manager.delete("first")
        await queues.worker.reaches("second", "Running")


def _is_pending(workload: JSON) -> bool:
    return condition(workload.get("status") or {}, QUOTA_RESERVED).get("reason") == "Pending"


def _whole(kubeconfig: Path) -> bytes:
    """The file with the certificates in it."""
    config = yaml.safe_load(kubeconfig.read_text())
    for part in (config["clusters"][0]["cluster"], config["users"][0]["user"]):
        for field in {"certificate-authority", "client-certificate", "client-key"} & part.keys():
            part[f"{field}-data"] = base64.b64encode(Path(part.pop(field)).read_bytes()).decode()
    return yaml.safe_dump(config).encode()


@contextlib.asynccontextmanager
async def _queues(clusters: Clusters, *, cpus: int = 4) -> AsyncIterator[Queues]:
    """With this quota in the other cluster."""
    checks = {"admissionChecks": [{"name": NAME}]}
    async with (
        clusters[0].queue(8, admissionChecksStrategy=checks) as queue,
        clusters[1].queue(cpus, namespace=queue.namespace) as other,
    ):
        yield Queues(queue, other)


async def _submit(queue: Queue, name: str, template: JSON) -> None:
    """An AppWrapper that MultiKueue runs."""
    body = APP_WRAPPERS.body(
        {"name": name, "labels": {QUEUE_NAME: "lq"}},
        spec={"managedBy": MULTIKUEUE, "components": [{"template": template}]},
    )
    await queue.client.create(APP_WRAPPERS, body, namespace=queue.namespace)
