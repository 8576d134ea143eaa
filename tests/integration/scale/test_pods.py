"""Thousands of Pods on hundreds of nodes: each has what Berth injects, runs where rules say, and exists once, though every
process of Berth is killed meanwhile."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
import structlog

from app.kube.client import KubeClient
from app.kube.resources import DEPLOYMENTS, JOBS, NETWORK_ATTACHMENTS, PODS, Resource
from app.networks.model import NETWORKS
from app.placement.model import DPU_OF_HOST, TENANT_LABEL
from app.workloads.model import COMPANION, MIRROR, UVS_PODS, WORKLOAD, WORKLOAD_RULES, WORKLOADS
from bench.processes import resident_mib
from tests.integration.scale.stage import HOSTS, Clusters
from tests.support.many_nodes import all_of, phases
from tests.support.networked_pods import NETWORK, RESOURCE, attachment
from tests.support.real_parts import needs
from tests.support.waiting import eventually

JSON = dict[str, Any]
log = structlog.get_logger(__name__)
pytestmark = [
    *needs("kwok", "etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler"),
    pytest.mark.timeout(2400),
]
APPS, REPLICAS, BATCHES, COMPLETIONS, PLAIN = 10, 100, 2, 100, 100
"""Deployments of the tenant with so many Pods each, Jobs with so many, and the Pods of a Deployment on the DPUs."""
OWN = "tenant-tenant1"
SERVED = "role=served"
"""The Pods of the tenant that have companions."""
ALL = APPS * REPLICAS
_WORKING, _OF_A_POD = 20.0, 24 / 1024
"""MiB that a process may grow by for its work, and for each Pod of the tenant, with its Workload, companion and mirror."""


async def test_thousands_of_pods_are_where_they_belong(clusters: Clusters) -> None:
    before = {name: resident_mib(role.pid) for name, role in clusters.roles.items()}
    await _create(clusters)
    early = await _killed_one_after_the_other(clusters)
    await _all_run(clusters)
    await _tenants_pods(clusters.tenant)
    await _companions_and_mirrors(clusters, ALL)
    assert early <= await _uids(clusters)
    await _plain_pods(clusters.infra)
    grown = {name: resident_mib(role.pid) - before[name] for name, role in clusters.roles.items()}
    log.info("memory", before_mib=before, grown_mib=grown)
    assert max(grown.values()) < _WORKING + _OF_A_POD * (ALL + BATCHES * COMPLETIONS)
    await _half_goes(clusters)


async def _create(clusters: Clusters) -> None:
    """All that users write; of the rest, controllers make it."""
    await clusters.tenant.create(NETWORK_ATTACHMENTS, attachment(NETWORK), namespace="default")
    await clusters.tenant.create(WORKLOAD_RULES, _rule(), namespace="universe")
    for number in range(APPS):
        body = _deployment(f"app-{number}", REPLICAS, annotations={NETWORKS: NETWORK}, role="served")
        await clusters.tenant.create(DEPLOYMENTS, body, namespace="default")
    for number in range(BATCHES):
        template = {"metadata": {"annotations": {NETWORKS: NETWORK}}, "spec": _spec() | {"restartPolicy": "Never"}}
        spec = {"completions": COMPLETIONS, "parallelism": COMPLETIONS, "template": template}
        await clusters.tenant.create(JOBS, JOBS.body({"name": f"batch-{number}"}, spec=spec), namespace="default")
    await clusters.infra.create(DEPLOYMENTS, _deployment("plain", PLAIN), namespace=OWN)


async def _killed_one_after_the_other(clusters: Clusters) -> set[str]:
    """Each process at another share of the first half; the companions that there were then."""
    seen = set[str]()
    for number, (name, role) in enumerate(clusters.roles.items(), 1):
        share = ALL * number // (2 * len(clusters.roles))
        found = await eventually(lambda: _uids(clusters), lambda found, share=share: len(found) >= share, seconds=900)
        assert len(found) < ALL, f"nothing is left to do when {name} is killed"
        seen |= found
        await role.kill()
        await role.start()
        log.info("killed and started again", role=name, companions=len(seen))
    return seen


async def _all_run(clusters: Clusters) -> None:
    await eventually(
        lambda: phases(clusters.tenant, namespace="default"),
        lambda found: found == {"Running": ALL, "Succeeded": BATCHES * COMPLETIONS},
        seconds=900,
    )
    await eventually(
        lambda: phases(clusters.infra, namespace=OWN), lambda found: found == {"Running": ALL + PLAIN}, seconds=900
    )


async def _tenants_pods(tenant: KubeClient) -> None:
    """Each has a device of its network and what its containers read about it, and none is there twice."""
    pods = await all_of(tenant, PODS, namespace="default")
    made = Counter(pod["metadata"]["labels"].get("app") or pod["metadata"]["labels"]["job-name"] for pod in pods)
    assert made == Counter(
        {f"app-{n}": REPLICAS for n in range(APPS)} | {f"batch-{n}": COMPLETIONS for n in range(BATCHES)}
    )
    for pod in pods:
        (container,) = pod["spec"]["containers"]
        assert container["resources"]["requests"][RESOURCE] == container["resources"]["limits"][RESOURCE] == "1"
        assert "podnetinfo" in {mount["name"] for mount in container["volumeMounts"]}
        assert pod["spec"]["nodeName"] in HOSTS


async def _companions_and_mirrors(clusters: Clusters, count: int) -> None:
    """A companion for each Pod that the rule matches, on the DPU of its host, and a mirror for each companion."""
    served = await all_of(clusters.tenant, PODS, namespace="default", labels=SERVED)
    hosts = {pod["metadata"]["uid"]: pod["spec"]["nodeName"] for pod in served}
    assert len(hosts) == count
    companions = await _companions(clusters)
    places = {
        pod["metadata"]["annotations"][WORKLOAD].rpartition("/")[2]: pod["spec"]["nodeName"] for pod in companions
    }
    assert len(companions) == count
    assert places == {uid: f"dpu-of-{host}" for uid, host in hosts.items()}
    assert {pod["metadata"]["annotations"][DPU_OF_HOST] for pod in companions} == set(hosts.values())
    names = {pod["metadata"]["name"] for pod in companions}
    await eventually(
        lambda: _names(clusters.tenant, UVS_PODS, "universe", MIRROR), lambda found: found == names, seconds=900
    )


async def _plain_pods(infra: KubeClient) -> None:
    """They are confined to the DPUs of their tenant."""
    for pod in await all_of(infra, PODS, namespace=OWN, labels="app=plain"):
        affinity = pod["spec"]["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
        for term in affinity["nodeSelectorTerms"]:
            assert {"key": TENANT_LABEL, "operator": "In", "values": ["tenant1"]} in term["matchExpressions"]
        assert pod["spec"]["nodeName"].removeprefix("dpu-of-") in HOSTS


async def _half_goes(clusters: Clusters) -> None:
    """With Pods their Workloads, companions and mirrors go, and no others."""
    for number in range(APPS // 2):
        await clusters.tenant.delete(DEPLOYMENTS, f"app-{number}", namespace="default")
    for client, namespace, labels in ((clusters.tenant, "default", SERVED), (clusters.infra, OWN, COMPANION)):
        await eventually(
            lambda client=client, namespace=namespace, labels=labels: phases(
                client, namespace=namespace, labels=labels
            ),
            lambda found: found == {"Running": ALL // 2},
            seconds=900,
        )
    await _companions_and_mirrors(clusters, ALL // 2)
    served = await all_of(clusters.tenant, PODS, namespace="default", labels=SERVED)
    names = {f"workload-{pod['metadata']['uid']}" for pod in served}
    await eventually(lambda: _names(clusters.infra, WORKLOADS, OWN), lambda found: found == names)


async def _names(client: KubeClient, resource: Resource, namespace: str, labels: str = "") -> set[str]:
    return {obj["metadata"]["name"] for obj in await all_of(client, resource, namespace=namespace, labels=labels)}


async def _companions(clusters: Clusters) -> list[JSON]:
    return await all_of(clusters.infra, PODS, namespace=OWN, labels=COMPANION)


async def _uids(clusters: Clusters) -> set[str]:
    return {pod["metadata"]["uid"] for pod in await _companions(clusters)}


def _spec() -> JSON:
    return {"containers": [{"name": "c", "image": "busybox", "resources": {"requests": {"cpu": "100m"}}}]}


def _deployment(name: str, replicas: int, *, annotations: JSON | None = None, **labels: str) -> JSON:
    metadata = {"labels": {"app": name, **labels}, "annotations": annotations or {}}
    template = {"metadata": metadata, "spec": _spec()}
    spec = {"replicas": replicas, "selector": {"matchLabels": {"app": name}}, "template": template}
    return DEPLOYMENTS.body({"name": name}, spec=spec)


def _rule() -> JSON:
    served = {"key": "state.extra.labels.role", "operator": "In", "values": ["served"]}
    spec = {
        "resourceType": "v1/Pod",
        "workloadTerms": [{"matchExpressions": [served]}],
        "dpuSelectionPolicy": "SameNode",
        "template": {"apiVersion": "v1", "kind": "Pod", "spec": _spec()},
    }
    return WORKLOAD_RULES.body({"name": "served"}, spec=spec)
