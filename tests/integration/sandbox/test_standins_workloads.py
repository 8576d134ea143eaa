"""Deployments, ReplicaSets and Jobs as the stand-ins keep them, over a whole API server."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any, TypeVar

import pytest
import pytest_asyncio

from app.devtools.sandbox.server import Cluster
from app.devtools.sandbox.standins.jobs import JobRunner
from app.devtools.sandbox.standins.kubelet import NodeSpec
from app.devtools.sandbox.standins.reconciling import Watched
from app.devtools.sandbox.standins.standins import StandIns
from app.errors import ApiError
from app.kube.client import KubeClient
from app.kube.reflector import Reflector, Scope
from app.kube.resources import DEPLOYMENTS, JOBS, PODS, REPLICA_SETS, STATEFUL_SETS, Resource
from app.kube.transport import connect
from tests.support.running import running
from tests.support.waiting import PATIENCE, eventually

JSON = dict[str, Any]
T = TypeVar("T")
HERE = "default"


@pytest_asyncio.fixture
async def client(tmp_path: Path) -> AsyncIterator[KubeClient]:
    async with Cluster() as cluster:
        path = tmp_path / "kubeconfig"
        path.write_text(cluster.kubeconfig())
        async with (
            await connect(kubeconfig=str(path), deadline=PATIENCE) as made,
            running(StandIns(made, [NodeSpec("node")]).run()),
        ):
            yield made


def get(client: KubeClient, resource: Resource, name: str) -> Callable[[], Awaitable[JSON]]:
    return lambda: client.get(resource, name, namespace=HERE)


def listed(client: KubeClient, resource: Resource) -> Callable[[], Awaitable[list[JSON]]]:
    async def look() -> list[JSON]:
        return (await client.list_page(resource, namespace=HERE)).items

    return look


def deployment(replicas: int = 2, image: str = "busybox:1") -> JSON:
    labels = {"app": "d"}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "c", "image": image}]}}
    spec = {"replicas": replicas, "selector": {"matchLabels": labels}, "template": template}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d"}, "spec": spec}


def complete(found: JSON, replicas: int) -> bool:
    status = found.get("status") or {}
    counts = [status.get(name) for name in ("replicas", "updatedReplicas", "availableReplicas")]
    return counts == [replicas] * 3 and status.get("observedGeneration") == found["metadata"]["generation"]


def job(*, code: int, backoff: int) -> JSON:
    metadata = {"annotations": {"berth.dev/sandbox-exit": str(code)}}
    spec = {"restartPolicy": "Never", "containers": [{"name": "c", "image": "busybox"}]}
    body = {"backoffLimit": backoff, "template": {"metadata": metadata, "spec": spec}}
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "j"}, "spec": body}


async def test_a_deployment_runs_as_many_pods_as_it_wants(client: KubeClient) -> None:
    """Pods belong to a ReplicaSet and that to the Deployment, as everybody who looks for owners expects."""
    await client.create(DEPLOYMENTS, deployment(), namespace=HERE)
    await eventually(get(client, DEPLOYMENTS, "d"), lambda found: complete(found, 2))
    (owner,) = await listed(client, REPLICA_SETS)()
    pods = await listed(client, PODS)()
    assert {one["metadata"]["ownerReferences"][0]["uid"] for one in pods} == {owner["metadata"]["uid"]}
    assert owner["metadata"]["ownerReferences"][0]["name"] == "d"
    assert all("pod-template-hash" in one["metadata"]["labels"] for one in pods)


async def test_a_pod_that_goes_is_made_anew_and_one_too_many_goes(client: KubeClient) -> None:
    await client.create(DEPLOYMENTS, deployment(), namespace=HERE)
    await eventually(get(client, DEPLOYMENTS, "d"), lambda found: complete(found, 2))
    first = (await listed(client, PODS)())[0]["metadata"]
    await client.delete(PODS, first["name"], namespace=HERE)
    await eventually(
        listed(client, PODS),
        lambda pods: len(pods) == 2 and first["uid"] not in {one["metadata"]["uid"] for one in pods},
    )
    await client.patch(DEPLOYMENTS, "d", {"spec": {"replicas": 1}}, patch_type="merge", namespace=HERE)
    await eventually(listed(client, PODS), lambda pods: len(pods) == 1)
    await eventually(get(client, DEPLOYMENTS, "d"), lambda found: complete(found, 1))


async def test_another_template_rolls(client: KubeClient) -> None:
    """The new Pods are ready before the old ones go."""
    await client.create(DEPLOYMENTS, deployment(), namespace=HERE)
    await eventually(get(client, DEPLOYMENTS, "d"), lambda found: complete(found, 2))
    await client.apply(DEPLOYMENTS, "d", deployment(image="busybox:2"), namespace=HERE, field_manager="test")
    await eventually(
        listed(client, PODS),
        lambda pods: len(pods) == 2 and {one["spec"]["containers"][0]["image"] for one in pods} == {"busybox:2"},
    )
    await eventually(get(client, DEPLOYMENTS, "d"), lambda found: complete(found, 2))
    assert len(await listed(client, REPLICA_SETS)()) == 1


async def test_a_deployment_takes_its_pods_along(client: KubeClient) -> None:
    await client.create(DEPLOYMENTS, deployment(), namespace=HERE)
    await eventually(get(client, DEPLOYMENTS, "d"), lambda found: complete(found, 2))
    await client.delete(DEPLOYMENTS, "d", namespace=HERE)
    await eventually(listed(client, PODS), lambda pods: not pods)


async def test_pods_that_are_refused_are_tried_again(client: KubeClient) -> None:
    """A Pod without its ServiceAccount's quota, webhook or class comes when the obstacle goes."""
    body = deployment(1)
    body["spec"]["template"]["spec"]["priorityClassName"] = "not-there-yet"
    await client.create(DEPLOYMENTS, body, namespace=HERE)
    await eventually(listed(client, REPLICA_SETS), lambda sets: sets and sets[0]["status"].get("replicas") == 0)
    resource = Resource("scheduling.k8s.io", "v1", "priorityclasses", "PriorityClass", namespaced=False)
    metadata = {"name": "not-there-yet"}
    await client.create(
        resource, {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": metadata, "value": 1}
    )
    await eventually(get(client, DEPLOYMENTS, "d"), lambda found: complete(found, 1))


async def test_a_job_that_succeeds_is_complete(client: KubeClient) -> None:
    await client.create(JOBS, job(code=0, backoff=0), namespace=HERE)
    found = await eventually(get(client, JOBS, "j"), lambda one: (one.get("status") or {}).get("conditions"))
    assert [one["type"] for one in found["status"]["conditions"]] == ["SuccessCriteriaMet", "Complete"]
    assert found["status"]["succeeded"] == 1


async def test_a_job_that_fails_is_tried_as_often_as_it_says(client: KubeClient) -> None:
    await client.create(JOBS, job(code=3, backoff=2), namespace=HERE)
    found = await eventually(get(client, JOBS, "j"), lambda one: (one.get("status") or {}).get("conditions"))
    assert [one["type"] for one in found["status"]["conditions"]] == ["FailureTarget", "Failed"]
    assert found["status"]["failed"] == 3


def finished(kind: str) -> Callable[[JSON], bool]:
    return lambda one: any(c["type"] == kind for c in (one.get("status") or {}).get("conditions") or [])


def sleeping(command: list[str], **spec: Any) -> JSON:
    container = {"name": "c", "image": "busybox", "command": command}
    template = {"spec": {"restartPolicy": "Never", "containers": [container]}}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "j"},
        "spec": {**spec, "template": template},
    }


async def test_an_indexed_job_runs_every_index(client: KubeClient) -> None:
    """Pods say their index, by label, annotation, host name and variable, and belong to their Job."""
    body = sleeping(["true"], completionMode="Indexed", completions=3, parallelism=2)
    await client.create(JOBS, body, namespace=HERE)
    found = await eventually(get(client, JOBS, "j"), finished("Complete"))
    status = found["status"]
    assert (status["succeeded"], status["completedIndexes"], "active" in status) == (3, "0-2", False)
    uid = found["metadata"]["uid"]
    assert found["spec"]["selector"] == {"matchLabels": {"batch.kubernetes.io/controller-uid": uid}}
    pods = {one["spec"]["hostname"]: one for one in await listed(client, PODS)()}
    assert sorted(pods) == ["j-0", "j-1", "j-2"]
    metadata = pods["j-1"]["metadata"]
    assert metadata["name"].startswith("j-1-")
    assert metadata["annotations"]["batch.kubernetes.io/job-completion-index"] == "1"
    assert metadata["labels"] == {
        "batch.kubernetes.io/controller-uid": uid,
        "batch.kubernetes.io/job-name": "j",
        "batch.kubernetes.io/job-completion-index": "1",
        "controller-uid": uid,
        "job-name": "j",
    }
    assert metadata["ownerReferences"][0]["uid"] == uid
    assert pods["j-1"]["spec"]["containers"][0]["env"][0]["name"] == "JOB_COMPLETION_INDEX"


async def test_a_job_is_suspended_and_resumed(client: KubeClient) -> None:
    """The Pods that go with the suspension are no failures."""
    await client.create(JOBS, sleeping(["sleep", "inf"], backoffLimit=0, parallelism=2, suspend=True), namespace=HERE)
    await eventually(get(client, JOBS, "j"), finished("Suspended"))
    assert not await listed(client, PODS)()
    await client.patch(JOBS, "j", {"spec": {"suspend": False}}, patch_type="merge", namespace=HERE)
    await eventually(get(client, JOBS, "j"), lambda one: (one.get("status") or {}).get("ready") == 2)
    await client.patch(JOBS, "j", {"spec": {"suspend": True}}, patch_type="merge", namespace=HERE)
    await eventually(listed(client, PODS), lambda pods: not pods)
    await client.patch(JOBS, "j", {"spec": {"suspend": False}}, patch_type="merge", namespace=HERE)
    found = await eventually(get(client, JOBS, "j"), lambda one: (one.get("status") or {}).get("ready") == 2)
    assert "failed" not in found["status"]


async def test_a_pod_that_somebody_deletes_is_a_failure_of_its_job(client: KubeClient) -> None:
    await client.create(JOBS, sleeping(["sleep", "inf"], backoffLimit=0), namespace=HERE)
    (pod,) = await eventually(listed(client, PODS), lambda pods: len(pods) == 1)
    await client.delete(PODS, pod["metadata"]["name"], namespace=HERE, grace_period_seconds=0)
    found = await eventually(get(client, JOBS, "j"), finished("Failed"))
    assert found["status"]["failed"] == 1
    assert {c["type"]: c["reason"] for c in found["status"]["conditions"]}["Failed"] == "BackoffLimitExceeded"


async def test_a_pod_that_no_watch_has_told_of_counts_once(tmp_path: Path) -> None:
    """The watch of Pods is as late as it can be: it does not run. Nothing is made in place of the Pod."""
    path = tmp_path / "kubeconfig"
    async with Cluster() as cluster:
        path.write_text(cluster.kubeconfig())
        async with await connect(kubeconfig=str(path), deadline=PATIENCE) as client:
            watched = Watched(client)
            runner = JobRunner(client, watched)
            async with (
                running(Reflector(client, Scope(JOBS), watched.store(JOBS)).run()),
                running(runner.controller.run()),
            ):
                await client.create(JOBS, sleeping(["sleep", "inf"], backoffLimit=0), namespace=HERE)
                (pod,) = await eventually(listed(client, PODS), lambda pods: len(pods) == 1)
                await client.delete(PODS, pod["metadata"]["name"], namespace=HERE, grace_period_seconds=0)
                body = {"metadata": {"labels": {"look": "again"}}}
                await client.patch(JOBS, "j", body, patch_type="merge", namespace=HERE)
                found = await eventually(get(client, JOBS, "j"), finished("Failed"))
                assert found["status"]["failed"] == 1
                assert not await listed(client, PODS)()


async def test_a_job_goes_with_its_pods_after_its_time(client: KubeClient) -> None:
    body = sleeping(["sleep", "inf"], activeDeadlineSeconds=1, ttlSecondsAfterFinished=0)
    made = await client.create(JOBS, body, namespace=HERE)
    await eventually(listed(client, JOBS), lambda jobs: not jobs)
    await eventually(listed(client, PODS), lambda pods: not pods)
    assert made["spec"]["backoffLimit"] == 6


async def test_a_stateful_set_keeps_its_pods_by_name(client: KubeClient) -> None:
    """Scaled by the subresource; rolled from the last; its Pods go along with it."""
    body = {**deployment(2), "kind": "StatefulSet", "metadata": {"name": "s"}}
    await client.create(STATEFUL_SETS, body, namespace=HERE)
    await eventually(get(client, STATEFUL_SETS, "s"), lambda one: one["status"].get("readyReplicas") == 2)
    pods = await listed(client, PODS)()
    assert [one["metadata"]["name"] for one in pods] == ["s-0", "s-1"]
    assert {one["metadata"]["ownerReferences"][0]["kind"] for one in pods} == {"StatefulSet"}
    scale = {"spec": {"replicas": 3}}
    await client.patch(STATEFUL_SETS, "s", scale, patch_type="merge", namespace=HERE, subresource="scale")
    await eventually(get(client, STATEFUL_SETS, "s"), lambda one: one["status"].get("readyReplicas") == 3)
    body = {**deployment(1, image="busybox:2"), "kind": "StatefulSet", "metadata": {"name": "s"}}
    await client.apply(STATEFUL_SETS, "s", body, namespace=HERE, field_manager="test")
    found = await eventually(
        get(client, STATEFUL_SETS, "s"),
        lambda one: (
            one["status"]["currentRevision"] == one["status"]["updateRevision"]
            and one["status"]["replicas"] == one["status"].get("updatedReplicas") == 1
            and one["status"]["observedGeneration"] == one["metadata"]["generation"]
        ),
    )
    assert found["status"]["currentRevision"].startswith("s-")
    (pod,) = await listed(client, PODS)()
    assert (pod["metadata"]["name"], pod["spec"]["containers"][0]["image"]) == ("s-0", "busybox:2")
    await client.delete(STATEFUL_SETS, "s", namespace=HERE)
    await eventually(listed(client, PODS), lambda pods: not pods)


async def test_an_owner_that_is_gone_is_no_fault(client: KubeClient) -> None:
    """Deleted between the look and the write: nothing is left behind and nothing stops."""
    for _ in range(3):
        await client.create(DEPLOYMENTS, deployment(3), namespace=HERE)
        await client.delete(DEPLOYMENTS, "d", namespace=HERE)
    with pytest.raises(ApiError, match="not found"):
        await client.get(DEPLOYMENTS, "d", namespace=HERE)
    await eventually(listed(client, PODS), lambda pods: not pods)
    await eventually(listed(client, REPLICA_SETS), lambda sets: not sets)
