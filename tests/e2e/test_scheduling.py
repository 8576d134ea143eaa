"""What one Pod means for where others are scheduled: why tenants' Pods are refused some fields, and others are not.

No part of Berth runs here. The scheduler is the sandbox's, and a real kube-scheduler where `KUBEBUILDER_ASSETS` has one.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from app.devtools.sandbox.server import Cluster
from app.devtools.sandbox.standins.reconciling import Watched
from app.devtools.sandbox.standins.scheduler import Scheduler
from app.errors import ApiError
from app.kube.client import KubeClient
from app.kube.resources import NAMESPACES, NODES, PODS
from app.kube.transport import connect
from tests.support.processes import Background
from tests.support.real_apiserver import real_api_servers
from tests.support.waiting import PATIENCE

JSON = dict[str, Any]
ASSETS = Path(os.environ.get("KUBEBUILDER_ASSETS", "/nowhere"))
SCHEDULERS = ["sandbox", *(["kube-scheduler"] if (ASSETS / "kube-scheduler").exists() else [])]
T1, T2, DEFAULT = "tenant-t1", "tenant-t2", "default"
HOSTNAME, SYSTEM = "kubernetes.io/hostname", "kubernetes.io/os"
NOT_EVIL = {"matchExpressions": [{"key": "evil", "operator": "DoesNotExist"}]}
REQUIRED, PREFERRED = (
    "requiredDuringSchedulingIgnoredDuringExecution",
    "preferredDuringSchedulingIgnoredDuringExecution",
)
AMOUNTS = {"cpu": "8", "memory": "32Gi", "pods": "110"}


@contextlib.asynccontextmanager
async def sandbox(directory: Path) -> AsyncIterator[KubeClient]:
    async with Cluster() as cluster:
        path = directory / "kubeconfig"
        path.write_text(cluster.kubeconfig())
        async with await connect(kubeconfig=str(path), deadline=PATIENCE) as client:
            watched = Watched(client)
            scheduler = Scheduler(client, watched).controller
            running = [asyncio.create_task(part.run()) for part in (watched, scheduler)]
            yield client
            for task in running:
                task.cancel()
            await asyncio.gather(*running, return_exceptions=True)


@contextlib.asynccontextmanager
async def real(directory: Path) -> AsyncIterator[KubeClient]:
    with real_api_servers(ASSETS, directory, ["one"]) as kubeconfigs:
        path = str(kubeconfigs["one"])
        arguments = ["--kubeconfig", path, "--leader-elect=false", "--secure-port=0"]
        scheduler = Background([str(ASSETS / "kube-scheduler"), *arguments])
        try:
            async with await connect(kubeconfig=path, deadline=PATIENCE) as client:
                yield client
        finally:
            scheduler.stop()


@pytest_asyncio.fixture(params=SCHEDULERS)
async def cluster(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[KubeClient]:
    """An API server with a scheduler: a DPU of each of two tenants, and one of nobody; their namespaces."""
    async with (sandbox if request.param == "sandbox" else real)(tmp_path) as client:
        for name in ("dpu-1", "dpu-2", "dpu-3"):
            labels = {HOSTNAME: name, SYSTEM: "linux"}
            await client.create(
                NODES, {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": labels}}
            )
            ready = {"type": "Ready", "status": "True", "reason": "KubeletReady", "message": ""}
            status = {"capacity": AMOUNTS, "allocatable": AMOUNTS, "conditions": [ready]}
            await client.patch(NODES, name, {"status": status}, patch_type="merge", subresource="status")
            await client.patch(NODES, name, {"spec": {"taints": None}}, patch_type="merge")
        for name in (T1, T2):
            await client.create(NAMESPACES, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
        yield client


async def create(
    client: KubeClient, namespace: str, name: str, *, node: str = "", labels: Any = None, **spec: Any
) -> JSON:
    """The Pod when the scheduler has said something of it: a node, or why there is none."""
    selector = {"nodeSelector": {HOSTNAME: node}} if node else {}
    metadata = {"name": name, "namespace": namespace, "labels": labels or {}}
    body = {"containers": [{"name": "c", "image": "i"}], "terminationGracePeriodSeconds": 0, **selector, **spec}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": body}
    async with asyncio.timeout(PATIENCE):
        while True:
            # A real API server refuses Pods in the first moments of a namespace.
            with contextlib.suppress(ApiError):
                await client.create(PODS, pod, namespace=namespace)
                break
            await asyncio.sleep(0.1)
        while True:
            found = await client.get(PODS, name, namespace=namespace)
            if found["spec"].get("nodeName") or why_not(found):
                return found
            await asyncio.sleep(0.05)


def why_not(pod: JSON) -> str:
    conditions = (pod.get("status") or {}).get("conditions") or []
    return next(
        (c.get("message", "") for c in conditions if c["type"] == "PodScheduled" and c["status"] == "False"), ""
    )


def keeping_off(**term: Any) -> JSON:
    return {"podAntiAffinity": {REQUIRED: [{"topologyKey": HOSTNAME, "labelSelector": NOT_EVIL, **term}]}}


@pytest.mark.parametrize("among", [{"namespaceSelector": {}}, {"namespaces": [T1, DEFAULT]}], ids=["selector", "names"])
async def test_anti_affinity_over_namespaces_keeps_everybody_off_every_node(cluster: KubeClient, among: JSON) -> None:
    """This is why such terms are refused in tenants' namespaces: nothing else stops this Pod."""
    evil = keeping_off(topologyKey=SYSTEM, **among)
    assert (await create(cluster, T2, "evil", node="dpu-2", labels={"evil": "1"}, affinity=evil))["spec"]["nodeName"]
    for namespace in (DEFAULT, T1):
        victim = await create(cluster, namespace, "victim")
        assert "3 node(s) didn't satisfy existing pods anti-affinity rules" in why_not(victim)


@pytest.mark.parametrize("keys", [{}, {"matchLabelKeys": ["k"]}, {"mismatchLabelKeys": ["k"]}], ids=str)
async def test_anti_affinity_in_its_own_namespace_keeps_no_others_off(cluster: KubeClient, keys: JSON) -> None:
    labels = {"evil": "1", "k": "v"}
    await create(cluster, T2, "alone", node="dpu-2", labels=labels, affinity=keeping_off(**keys))
    for namespace in (DEFAULT, T1):
        assert (await create(cluster, namespace, "p", node="dpu-2", labels={"k": "v"}))["spec"]["nodeName"] == "dpu-2"
        assert (await create(cluster, namespace, "q", node="dpu-2", labels={"k": "w"}))["spec"]["nodeName"] == "dpu-2"
    own = await create(cluster, T2, "own", node="dpu-2", labels={"k": "w" if "mismatchLabelKeys" in keys else "v"})
    assert "existing pods anti-affinity rules" in why_not(own)


@pytest.mark.parametrize("policy", ["Honor", "Ignore"])
async def test_spreading_makes_only_the_pod_itself_wait(cluster: KubeClient, policy: str) -> None:
    """DoNotSchedule counts Pods of the Pod's own namespace, and says nothing of other Pods."""
    spread = {
        "maxSkew": 1,
        "topologyKey": HOSTNAME,
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"app": "x"}},
        "nodeAffinityPolicy": policy,
    }
    mine: JSON = {"node": "dpu-2", "labels": {"app": "x"}, "topologySpreadConstraints": [spread]}
    for number in range(3):
        assert (await create(cluster, T1, f"p{number}", node="dpu-1", labels={"app": "x"}))["spec"]["nodeName"]
    assert (await create(cluster, T2, "first", **mine))["spec"]["nodeName"] == "dpu-2"
    second = await create(cluster, T2, "second", **mine)
    if policy == "Ignore":
        assert "node(s) didn't match pod topology spread constraints" in why_not(second)
    else:
        assert second["spec"]["nodeName"] == "dpu-2"
    for namespace in (DEFAULT, T1):
        assert (await create(cluster, namespace, "free", node="dpu-2", labels={"app": "x"}))["spec"][
            "nodeName"
        ] == "dpu-2"


async def test_affinity_brings_pods_together_in_the_namespace_of_the_pod(cluster: KubeClient) -> None:
    together = {"podAffinity": {REQUIRED: [{"topologyKey": HOSTNAME, "labelSelector": {"matchLabels": {"app": "x"}}}]}}
    await create(cluster, T1, "elsewhere", node="dpu-1", labels={"app": "x"})
    waiting = await create(cluster, T2, "waiting", labels={"app": "y"}, affinity=together)
    assert "3 node(s) didn't match pod affinity rules" in why_not(waiting)
    first = await create(cluster, T2, "first", node="dpu-3", labels={"app": "x"}, affinity=together)
    assert first["spec"]["nodeName"] == "dpu-3"
    assert (await create(cluster, T2, "second", labels={"app": "x"}, affinity=together))["spec"]["nodeName"] == "dpu-3"
