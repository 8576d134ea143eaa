"""docs/migrate-from-appwrapper.md as a user types it, and an AppWrapper that runs meanwhile."""

from __future__ import annotations

import asyncio
import os
from typing import Any

import pytest

from app.appwrappers.model import APP_WRAPPER_UID, APP_WRAPPERS, PODS_READY
from app.kube.resources import (
    CONFIG_MAPS,
    DEPLOYMENTS,
    MUTATING_WEBHOOKS,
    NAMESPACES,
    PODS,
    VALIDATING_WEBHOOKS,
    Resource,
)
from tests.e2e.pages import commands_of
from tests.support.appwrappers import CONFIG, NAMESPACE, SYSTEM, AppWrapperCluster, pod

JSON = dict[str, Any]
OPERATOR, NAME = "appwrapper-system", "appwrapper-controller-manager"
PAGE = "docs/migrate-from-appwrapper.md"
BLOCKS = [*commands_of(PAGE, "Stop the operator"), commands_of(PAGE, "Take over")[0]]
"""All before Berth is installed."""


async def the_operator(cluster: AppWrapperCluster) -> None:
    """What of AppWrapper v1.2 is in the cluster, as its manifests name it."""
    admin = cluster.admin
    await admin.create(NAMESPACES, NAMESPACES.body({"name": OPERATOR}))
    template = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "manager", "image": "manager"}]}}
    spec = {"replicas": 1, "selector": {"matchLabels": {"a": "b"}}, "template": template}
    await admin.create(DEPLOYMENTS, DEPLOYMENTS.body({"name": NAME}, spec=spec), namespace=OPERATOR)
    data = {"config.yaml": "appwrapper:\n  faultTolerance:\n    retryLimit: 0\n    failureGracePeriod: 1000000000\n"}
    await admin.create(CONFIG_MAPS, CONFIG_MAPS.body({"name": CONFIG}, data=data), namespace=OPERATOR)
    for resource, name in ((MUTATING_WEBHOOKS, "mutating"), (VALIDATING_WEBHOOKS, "validating")):
        called = {"service": {"namespace": OPERATOR, "name": "appwrapper-webhook-service", "path": "/x"}}
        hook: JSON = {"name": f"{name[0]}appwrapper.kb.io", "clientConfig": called, "failurePolicy": "Fail"}
        hook |= {"admissionReviewVersions": ["v1"], "sideEffects": "None"}
        rule = {"operations": ["CREATE"], "apiGroups": [APP_WRAPPERS.group], "apiVersions": ["v1beta2"]}
        hook["rules"] = [rule | {"resources": ["appwrappers"]}]
        await admin.create(
            resource, resource.body({"name": f"appwrapper-{name}-webhook-configuration"}, webhooks=[hook])
        )


async def what_it_runs(cluster: AppWrapperCluster) -> None:
    """A running AppWrapper as the operator leaves it, without any mark of Berth."""
    made = await cluster.wrap("taken", pod("p"))
    owner = {"apiVersion": APP_WRAPPERS.api_version, "kind": "AppWrapper", "name": "taken", "controller": True}
    owner |= {"uid": made["metadata"]["uid"], "blockOwnerDeletion": True}
    labels = {"workload.codeflare.dev/appwrapper": "taken"}
    await cluster.admin.create(PODS, pod("p", labels=labels, ownerReferences=[owner]), namespace=NAMESPACE)
    await cluster.running("p")
    await cluster.patched(APP_WRAPPERS, "taken", {"metadata": {"finalizers": ["workload.codeflare.dev/finalizer"]}})
    at = {"message": "", "lastTransitionTime": "2026-01-01T00:00:00Z"}
    said = {"QuotaReserved": "True", "ResourcesDeployed": "True", "PodsReady": "True", "Unhealthy": "False"}
    component: JSON = {"name": "p", "kind": "Pod", "apiVersion": "v1", "podSets": [{"path": "template", "replicas": 1}]}
    component["conditions"] = [
        at | {"type": "ResourcesDeployed", "status": "True", "reason": "ComponentCreatedSuccessfully"}
    ]
    conditions = [at | {"type": kind, "status": value, "reason": "Resuming"} for kind, value in said.items()]
    status = {"phase": "Running", "conditions": conditions, "componentStatus": [component]}
    await cluster.patched(APP_WRAPPERS, "taken", {"status": status}, subresource="status")


async def typed(cluster: AppWrapperCluster, command: str) -> None:
    environment = {**os.environ, "KUBECONFIG": str(cluster.kubeconfig)}
    shell = await asyncio.create_subprocess_shell(
        command, env=environment, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT
    )
    output, _ = await shell.communicate()
    assert shell.returncode == 0, output.decode()


async def test_taking_over_touches_nothing_that_runs(cluster: AppWrapperCluster) -> None:
    await what_it_runs(cluster)
    await the_operator(cluster)
    before, pod_before = cluster.object(APP_WRAPPERS, "taken"), cluster.uid("p")
    for block in BLOCKS:
        await typed(cluster, block)
    deployments: Resource = DEPLOYMENTS
    assert [one["spec"]["replicas"] for one in cluster.stored(deployments, OPERATOR)] == [0]
    assert cluster.stored(MUTATING_WEBHOOKS) == cluster.stored(VALIDATING_WEBHOOKS) == []
    assert [one["metadata"]["name"] for one in cluster.stored(CONFIG_MAPS, SYSTEM)].count(CONFIG) == 1
    async with cluster.controller():
        await cluster.says("taken", PODS_READY, "SufficientPodsReady")
        after = cluster.object(APP_WRAPPERS, "taken")
        assert before
        assert after
        assert after["spec"] == before["spec"]
        assert cluster.phase("taken") == "Running"
        assert cluster.uid("p") == pod_before
        assert APP_WRAPPER_UID not in cluster.pods()["p"]["metadata"]["labels"]
        # The operator's configuration is in force: no retry.
        await cluster.ended("p", 1)
        await cluster.reaches("taken", "Failed")


@pytest.mark.simulated
async def test_the_end_of_what_ran_before_is_seen(cluster: AppWrapperCluster) -> None:
    await what_it_runs(cluster)
    theirs = cluster.uid("p")
    async with cluster.controller():
        await cluster.says("taken", PODS_READY, "SufficientPodsReady")
        assert cluster.uid("p") == theirs
        assert APP_WRAPPER_UID not in cluster.pods()["p"]["metadata"]["labels"]
        await cluster.ended("p")
        await cluster.reaches("taken", "Succeeded")
