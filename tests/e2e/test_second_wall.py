"""What holds in a tenant's namespace while no webhook is registered: on the sandbox, and on a real API server."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, ExitStack
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
    CUSTOM_RESOURCE_DEFINITIONS,
    NAMESPACES,
    PODS,
    RESOURCE_QUOTAS,
    SECRETS,
    SERVICE_ACCOUNTS,
    Resource,
)
from app.kube.transport import connect
from app.tenancy.namespace import ISOLATION, OBJECTS, bounds_of
from app.tenancy.settings import TenantsOptions
from app.workloads.model import TENANTS, WORKLOADS
from app.workloads.settings import parse_quota
from tests.integration.tenancy.tenants.test_bounds import EVIL
from tests.support.real_apiserver import real_api_servers
from tests.support.tenancy import definitions
from tests.support.tenants import tenant, tenants_kit
from tests.support.waiting import eventually

ASSETS = os.environ.get("KUBEBUILDER_ASSETS", "")
NAMESPACE = "tenant-tenant1"
QUOTA = parse_quota(["secrets=2", "count/workloads.workload.infra.universe.nvidia.com=1"])
SERVERS = ["sandbox", *(["real"] if ASSETS else [])]


@pytest_asyncio.fixture(params=SERVERS)
async def client(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[KubeClient]:
    """An infra cluster with stand-ins for its controllers, and the tenants' controller; a tenant is ready there."""
    async with AsyncExitStack() as stack:
        if request.param == "real":
            servers = stack.enter_context(ExitStack()).enter_context(
                real_api_servers(Path(ASSETS), tmp_path, ["infra"])
            )
            kubeconfig = servers["infra"]
        else:
            cluster = await stack.enter_async_context(Cluster("infra"))
            kubeconfig = tmp_path / "infra.kubeconfig"
            kubeconfig.write_text(cluster.kubeconfig())
        made = await stack.enter_async_context(await connect(kubeconfig=str(kubeconfig), deadline=5))
        for definition in definitions():
            await made.create(CUSTOM_RESOURCE_DEFINITIONS, definition)
        parts = [
            StandIns(made, [NodeSpec("host-a")]),
            tenants_kit(made, options=TenantsOptions(quota=QUOTA), resync=0.5),
        ]
        running = [asyncio.create_task(part.run()) for part in parts]
        await eventually(lambda: created(made))
        await eventually(lambda: ready(made), seconds=60)
        yield made
        for task in running:
            assert not task.done(), "a part has ended by itself"
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)


async def created(client: KubeClient) -> bool:
    """Definitions are served a moment after they are stored."""
    try:
        await client.create(TENANTS, tenant("tenant1"))
    except ApiError as error:
        return error.conflict
    return True


async def ready(client: KubeClient) -> bool:
    conditions = (await client.get(TENANTS, "tenant1")).get("status", {}).get("conditions") or []
    return any(item["type"] == "Ready" and item["status"] == "True" for item in conditions)


async def refusal(client: KubeClient, resource: Resource, body: Any) -> str:
    with pytest.raises(ApiError) as refused:
        await client.create(resource, body, namespace=NAMESPACE)
    assert (refused.value.status, refused.value.reason) == (403, "Forbidden")
    return str(refused.value).partition("HTTP 403: ")[2]


async def find(client: KubeClient, resource: Resource, name: str, namespace: str | None = NAMESPACE) -> Any:
    try:
        return await client.get(resource, name, namespace=namespace)
    except ApiError as error:
        if not error.not_found:
            raise
        return None


def body(name: str, **more: Any) -> Any:
    return {"metadata": {"name": name}, **more}


def pod(name: str) -> Any:
    return {"metadata": {"name": name}, "spec": {"containers": [{"name": "main", "image": "x"}]}}


def workload(name: str) -> Any:
    kind = {"apiVersion": WORKLOADS.api_version, "kind": WORKLOADS.kind}
    return {**kind, "metadata": {"name": f"workload-{name}"}, "spec": {"metadata": {"id": name}}}


async def test_the_pod_that_stops_the_scheduler_is_refused(client: KubeClient) -> None:
    assert await refusal(client, PODS, EVIL) == (
        'pods "evil" is forbidden: exceeded quota: berth-isolation, requested: pods=1, used: pods=0, limited: pods=0'
    )
    await client.create(PODS, pod("good"), namespace=NAMESPACE)


async def test_objects_are_bounded(client: KubeClient) -> None:
    for name in ("a", "b"):
        await client.create(SECRETS, body(name), namespace=NAMESPACE)
    text = "exceeded quota: berth-objects, requested: secrets=1, used: secrets=2, limited: secrets=2"
    assert await refusal(client, SECRETS, body("c")) == f'secrets "c" is forbidden: {text}'
    await client.create(WORKLOADS, workload("w1"), namespace=NAMESPACE)
    kind = "workloads.workload.infra.universe.nvidia.com"
    text = f"exceeded quota: berth-objects, requested: count/{kind}=1, used: count/{kind}=1, limited: count/{kind}=1"
    assert await refusal(client, WORKLOADS, workload("w2")) == f'{kind} "workload-w2" is forbidden: {text}'


async def test_what_is_removed_comes_back_and_holds(client: KubeClient) -> None:
    before = {name: await client.get(RESOURCE_QUOTAS, name, namespace=NAMESPACE) for name in (ISOLATION, OBJECTS)}
    for name in before:
        await client.delete(RESOURCE_QUOTAS, name, namespace=NAMESPACE)
    await client.delete(SERVICE_ACCOUNTS, "default", namespace=NAMESPACE)

    async def back() -> bool:
        for bound in bounds_of(QUOTA):
            present = await find(client, bound.resource, bound.name)
            if present is None or not bound.is_met_by(present):
                return False
            if bound.name in before:
                if present["metadata"]["uid"] == before[bound.name]["metadata"]["uid"]:
                    return False
                if (present.get("status") or {}).get("hard") != present["spec"]["hard"]:
                    return False
        return True

    await eventually(back, seconds=60)
    assert "exceeded quota: berth-isolation" in await refusal(client, PODS, EVIL)


async def test_a_namespace_that_is_deleted_in_use_is_made_anew_with_its_walls(client: KubeClient) -> None:
    await client.create(PODS, pod("good"), namespace=NAMESPACE)
    await client.create(SECRETS, body("a"), namespace=NAMESPACE)
    old = await client.get(NAMESPACES, NAMESPACE)
    await client.delete(NAMESPACES, NAMESPACE)

    async def anew() -> bool:
        present = await find(client, NAMESPACES, NAMESPACE, namespace=None)
        return present is not None and present["metadata"]["uid"] != old["metadata"]["uid"] and await ready(client)

    await eventually(anew, seconds=60)
    assert await find(client, PODS, "good") is None
    assert "exceeded quota: berth-isolation" in await refusal(client, PODS, EVIL)
    account = await client.get(SERVICE_ACCOUNTS, "default", namespace=NAMESPACE)
    assert account["automountServiceAccountToken"] is False
    for name in ("a", "b"):
        await client.create(SECRETS, body(name), namespace=NAMESPACE)
