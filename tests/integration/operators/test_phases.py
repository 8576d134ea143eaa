"""AppWrappers whose children belong to operators of their own: how they end, stop and begin again.

RayJobs are not here: their operator asks Ray's dashboard in the Pods of the cluster, and these Pods are stand-ins.
"""

from __future__ import annotations

from typing import Any

import pytest

from app.kube.conditions import condition
from app.kube.resources import Resource
from app.kube.retry import get_or_none
from tests.integration.operators.conftest import Wrappers
from tests.support.appwrappers import SHORT
from tests.support.control_plane import NAMESPACE
from tests.support.kueue_cases import job_set, py_torch_job, ray_cluster
from tests.support.real_parts import needs
from tests.support.waiting import eventually

JSON = dict[str, Any]
pytestmark = needs(
    "jobset", "training-operator", "kuberay", "kube-apiserver", "kube-controller-manager", "kube-scheduler"
)
KINDS = {
    "JobSet": Resource("jobset.x-k8s.io", "v1alpha2", "jobsets", "JobSet"),
    "PyTorchJob": Resource("kubeflow.org", "v1", "pytorchjobs", "PyTorchJob"),
    "RayCluster": Resource("ray.io", "v1", "rayclusters", "RayCluster"),
}
ENDING = ("JobSet", "PyTorchJob")


def wrapped(kind: str, name: str, command: str) -> JSON:
    """An object of the kind, with two Pods that run this command."""
    container = {"name": "pytorch", "image": "busybox", "command": ["sh", "-c", command]}
    template = {"spec": {"restartPolicy": "Never", "containers": [container]}}
    objects = {
        "JobSet": lambda: job_set({"replicas": 2, "template": {"spec": {"backoffLimit": 0, "template": template}}}),
        "PyTorchJob": lambda: py_torch_job(
            {part: {"replicas": 1, "restartPolicy": "Never", "template": template} for part in ("Master", "Worker")}
        ),
        "RayCluster": lambda: ray_cluster({"replicas": 1, "template": template}, head=template),
    }
    return objects[kind]() | {"metadata": {"name": name}}


async def child(wrappers: Wrappers, kind: str, name: str) -> JSON | None:
    return await get_or_none(wrappers.client, KINDS[kind], name, namespace=NAMESPACE)


@pytest.mark.parametrize("kind", ENDING)
async def test_it_succeeds_with_its_object_and_keeps_it(wrappers: Wrappers, kind: str) -> None:
    name = f"succeeds-{kind.lower()}"
    await wrappers.create(name, wrapped(kind, name, "sleep 2"))
    await wrappers.reaches(name, "Succeeded")
    assert await child(wrappers, kind, name) is not None
    await wrappers.gone(name)
    assert await child(wrappers, kind, name) is None


@pytest.mark.parametrize("kind", ENDING)
async def test_it_fails_when_its_object_has_failed_and_is_not_tried_again(wrappers: Wrappers, kind: str) -> None:
    """The condition names what failed."""
    name = f"fails-{kind.lower()}"
    await wrappers.create(name, wrapped(kind, name, "sleep 1; exit 3"), **SHORT, retryLimit="0")
    status = await wrappers.reaches(name, "Failed")
    assert "3" in condition(status, "Unhealthy")["message"]
    await wrappers.gone(name)


@pytest.mark.parametrize("kind", KINDS)
async def test_a_suspended_one_has_no_object_and_no_pods_and_a_resumed_one_has_both(
    wrappers: Wrappers, kind: str
) -> None:
    name = f"stops-{kind.lower()}"
    await wrappers.create(name, wrapped(kind, name, "sleep infinity"))
    await wrappers.has_pods(name)
    pods = {pod["metadata"]["uid"] for pod in await wrappers.pods(name)}
    assert len(pods) == 2
    await wrappers.change(name, {"suspend": True})
    await wrappers.reaches(name, "Suspended")
    assert await child(wrappers, kind, name) is None
    await eventually(lambda: wrappers.pods(name), lambda left: not left)
    await wrappers.change(name, {"suspend": False})
    await wrappers.has_pods(name)
    assert pods.isdisjoint(pod["metadata"]["uid"] for pod in await wrappers.pods(name))
    await wrappers.gone(name)


@pytest.mark.parametrize("kind", KINDS)
async def test_a_deleted_object_is_made_again(wrappers: Wrappers, kind: str) -> None:
    name = f"again-{kind.lower()}"
    await wrappers.create(name, wrapped(kind, name, "sleep infinity"), **SHORT)
    await wrappers.has_pods(name)
    first = await child(wrappers, kind, name)
    assert first is not None
    await wrappers.client.delete(KINDS[kind], name, namespace=NAMESPACE)
    await eventually(
        lambda: child(wrappers, kind, name),
        lambda found: found and found["metadata"]["uid"] != first["metadata"]["uid"],
    )
    await wrappers.reaches(name, "Running")
    await wrappers.has_pods(name)
    await wrappers.gone(name)
