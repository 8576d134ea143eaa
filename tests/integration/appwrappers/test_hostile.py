"""AppWrappers and statuses that are odd, and that an API server can store: others go on, and nothing spins."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from app.appwrappers.model import APP_WRAPPERS
from app.kube.client import Request
from app.kube.resources import PODS
from tests.support.appwrappers import NAMESPACE, AppWrapperCluster, app_wrapper, pod
from tests.support.waiting import eventually

pytestmark = pytest.mark.simulated
AT = {"message": "", "lastTransitionTime": "2026-01-01T00:00:00Z"}
DEPLOYED = AT | {"type": "ResourcesDeployed", "status": "True", "reason": "ComponentCreatedSuccessfully"}
COMPONENT: dict[str, Any] = {"name": "p", "kind": "Pod", "apiVersion": "v1", "podSets": [{"path": "template"}]}
SPECS: list[Any] = [
    {"components": []},
    {"components": [{"template": {"apiVersion": "v1", "kind": "Pod", "metadata": {}}}]},
    {"components": [{"template": pod()}]},
    {"components": [{"template": pod(generateName="x" * 300)}]},
    {"components": [{"template": pod("Upper.Case")}]},
    {"components": [{"template": pod("p"), "podSets": [{"path": "template.spec.nowhere"}]}]},
    {"components": [{"template": pod("p"), "podSets": [{"path": "template", "replicas": -5}]}]},
    {"components": [{"template": pod("p"), "podSets": [{"path": "template", "replicas": 2**31 - 1}]}]},
    {"components": [{"template": pod("p", namespace="kube-system")}]},
    {"components": [{"template": pod("p", labels={"workload.codeflare.dev/appwrapper": "other"})}]},
    {"components": [{"template": {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "n"}}}]},
    {"components": [{"template": {"apiVersion": "a.b/v1", "kind": "X", "metadata": {"name": "n"}}}]},
    {"components": [{"template": pod("p"), "podSetInfos": [{}, {}, {"labels": {"a": "b"}}]}]},
    {"components": [{"template": pod("same")}, {"template": pod("same")}]},
]
STATUSES: list[Any] = [
    {"phase": "Foo"},
    {"phase": "Running"},
    {"phase": "Running", "componentStatus": []},
    {"phase": "Running", "componentStatus": [COMPONENT, COMPONENT | {"name": "q"}]},
    {"phase": "Running", "componentStatus": [COMPONENT | {"name": "", "podSets": []}]},
    {"phase": "Resuming", "componentStatus": [COMPONENT, COMPONENT]},
    {"phase": "Resuming", "componentStatus": [COMPONENT | {"kind": "Nothing", "apiVersion": "x/v1"}]},
    {"phase": "Resetting", "conditions": [DEPLOYED], "componentStatus": [COMPONENT | {"conditions": [DEPLOYED]}]},
    {"phase": "Suspending", "conditions": [DEPLOYED]},
    {"phase": "Failed", "conditions": [DEPLOYED], "componentStatus": [COMPONENT]},
    {"phase": "Succeeded", "conditions": [DEPLOYED], "resettingCount": -7},
    {"phase": "Terminating", "conditions": [DEPLOYED]},
    {"phase": "Suspended", "componentStatus": [COMPONENT | {"podSets": [{"path": "nonsense[[["}]}]},
]


class Counted:
    """A client's requests."""

    def __init__(self, client: Any) -> None:
        self.asked: list[str] = []
        session, send = client.session, client.session.json

        async def json(request: Request, **how: Any) -> Any:
            self.asked.append(request.what)
            return await send(request, **how)

        session.json = json


async def is_quiet(cluster: AppWrapperCluster, counted: Counted, minute: float = 20.0) -> None:
    """Others go on, and of what is wrong there is a request now and then at the most."""
    await cluster.wrap("well", pod("well"))
    await cluster.there(PODS, "well")
    await cluster.ended("well")
    await cluster.reaches("well", "Succeeded")
    await asyncio.sleep(5)
    counted.asked.clear()
    await asyncio.sleep(minute)
    assert len(counted.asked) <= 8, counted.asked


@pytest.mark.parametrize("number", range(len(SPECS)))
async def test_an_odd_spec(cluster: AppWrapperCluster, number: int) -> None:
    client = await cluster.client()
    counted = Counted(client)
    body = app_wrapper("odd", retryLimit="0", admissionGracePeriodDuration="2s") | {"spec": SPECS[number]}
    await cluster.admin.create(APP_WRAPPERS, body, namespace=NAMESPACE)
    async with cluster.controller(client):
        await eventually(lambda: cluster.phase("odd") in ("Running", "Failed"))
        await is_quiet(cluster, counted)
        await cluster.admin.delete(APP_WRAPPERS, "odd", namespace=NAMESPACE)
        await eventually(lambda: cluster.object(APP_WRAPPERS, "odd") is None)
    await client.close()


@pytest.mark.parametrize("number", range(len(STATUSES)))
async def test_an_odd_status(cluster: AppWrapperCluster, number: int) -> None:
    client = await cluster.client()
    counted = Counted(client)
    await cluster.admin.create(PODS, pod("foreign"), namespace=NAMESPACE)
    annotations = {"retryLimit": "0", "admissionGracePeriodDuration": "2s", "successTTLDuration": "1s"}
    await cluster.wrap("odd", pod("p"), **annotations)
    await cluster.patched(APP_WRAPPERS, "odd", {"metadata": {"finalizers": ["workload.codeflare.dev/finalizer"]}})
    await cluster.patched(APP_WRAPPERS, "odd", {"status": STATUSES[number]}, subresource="status")
    async with cluster.controller(client):
        await is_quiet(cluster, counted)
        assert "foreign" in cluster.pods()
        await cluster.admin.delete(APP_WRAPPERS, "odd", namespace=NAMESPACE)
        await eventually(lambda: cluster.object(APP_WRAPPERS, "odd") is None)
    await client.close()
