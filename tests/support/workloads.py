"""An infra cluster (the sandbox's API server, over HTTP) with the definitions installed, and hands to work in it."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections import Counter
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest_asyncio

from app.definitions import TENANT, read_definitions
from app.devtools.sandbox.server import Cluster
from app.errors import ApiError
from app.kube.client import KubeClient
from app.kube.credentials import load_credentials
from app.kube.events import EventRecorder
from app.kube.kit import Kit
from app.kube.resources import CUSTOM_RESOURCE_DEFINITIONS, NAMESPACES, PODS, Resource
from app.kube.transport import Session, connect
from app.workloads.controller.controller import CompanionOptions, accompany
from app.workloads.model import ADMIN_RULES, COMPANION, RULE, TENANT_RULES, WORKLOAD, WORKLOADS
from tests.support.running import at_work
from tests.support.waiting import PATIENCE

JSON = dict[str, Any]
T1, T2, SYSTEM = "tenant-tenant1", "tenant-tenant2", "universe"
KIB = 1024
_BEGINNING = datetime(2026, 1, 1, tzinfo=UTC)


class CountingClient(KubeClient):
    """Counts what it sends, by verb and resource; `before` may delay a request or fail it."""

    before: Callable[[str, str], Any] | None = None

    def __init__(self, session: Session) -> None:
        super().__init__(session)
        self.session = session
        self.counts: Counter[str] = Counter()

    async def _count(self, verb: str, resource: Resource, name: str = "") -> None:
        self.counts[f"{verb} {resource.plural}"] += 1
        if self.before is not None:
            await self.before(verb, name)

    async def get(self, resource: Resource, name: str, **more: Any) -> JSON:
        await self._count("get", resource, name)
        return await super().get(resource, name, **more)

    async def create(self, resource: Resource, body: JSON, **more: Any) -> JSON:
        await self._count("create", resource, body["metadata"]["name"])
        return await super().create(resource, body, **more)

    async def patch(self, resource: Resource, name: str, body: Any, **more: Any) -> JSON:
        await self._count("patch" + more.get("subresource", "") if more.get("subresource") else "patch", resource, name)
        return await super().patch(resource, name, body, **more)

    async def delete(self, resource: Resource, name: str, **more: Any) -> JSON:
        await self._count("delete", resource, name)
        return await super().delete(resource, name, **more)


def behind(*resources: Resource) -> type[CountingClient]:
    """Clients to which watches of these kinds say nothing: a cache keeps what was listed."""

    async def silent() -> AsyncGenerator[bytes]:
        yield b""
        await asyncio.Event().wait()

    class Behind(CountingClient):
        def watch(self, resource: Resource, **options: Any) -> AsyncGenerator[bytes]:
            return silent() if resource in resources else super().watch(resource, **options)

    return Behind


class Infra:
    """The cluster and a client of ours; the controllers get clients of their own from `client`."""

    def __init__(self, cluster: Cluster, kubeconfig: Path, admin: KubeClient) -> None:
        self.cluster = cluster
        self.kubeconfig = kubeconfig
        self.admin = admin

    @staticmethod
    def now() -> datetime:
        """The time of the loop, so that a simulated one passes for timers and for conditions alike."""
        return _BEGINNING + timedelta(seconds=asyncio.get_running_loop().time())

    async def client(self, kind: type[CountingClient] = CountingClient) -> CountingClient:
        return kind(Session(await load_credentials(kubeconfig=str(self.kubeconfig))))

    @contextlib.asynccontextmanager
    async def connected(self, client: CountingClient | None) -> AsyncIterator[CountingClient]:
        """This client, or a new one that is closed at the end."""
        if client is not None:
            yield client
            return
        async with await self.client() as own:
            yield own

    @contextlib.asynccontextmanager
    async def controller(self, client: CountingClient | None = None, **options: Any) -> AsyncIterator[CountingClient]:
        """A controller at work, synced; the result is its client."""
        async with self.connected(client) as own, at_work(companions_kit(own, **options)):
            yield own

    def stored(self, resource: Resource, namespace: str | None = None) -> list[JSON]:
        """What the API server holds."""
        objects = self.cluster.storage.list((resource.group, resource.plural))
        return [obj for obj in objects if namespace is None or obj["metadata"].get("namespace") == namespace]

    def pods(self, namespace: str | None = None) -> dict[str, JSON]:
        return {pod["metadata"]["name"]: pod for pod in self.stored(PODS, namespace)}

    def uid(self, name: str) -> str:
        return str(self.pods()[name]["metadata"]["uid"])

    def status(self, resource: Resource, name: str) -> JSON:
        found = [obj for obj in self.stored(resource) if obj["metadata"]["name"] == name]
        return (found[0].get("status") or {}) if found else {}

    async def workload(self, id_: str, *, namespace: str = T1, node: str = "", **more: Any) -> None:
        """Create a Workload, or replace its spec."""
        await self.put(WORKLOADS, namespace, workload(id_, node=node, **more))

    async def rule(self, name: str, *, namespace: str = T1, **more: Any) -> None:
        await self.put(TENANT_RULES, namespace, rule(name, **more))

    async def admin_rule(self, name: str, *, tenants: list[str] | None = None, **more: Any) -> None:
        body = rule(name, **more)
        body["spec"]["tenantMatch"] = tenants or ["tenant1", "tenant2"]
        await self.put(ADMIN_RULES, SYSTEM, body)

    async def put(self, resource: Resource, namespace: str, body: JSON) -> None:
        name = body["metadata"]["name"]
        body = {"apiVersion": resource.api_version, "kind": resource.kind, **body}
        try:
            await self.admin.create(resource, body, namespace=namespace)
        except ApiError as error:
            if not error.conflict:
                raise
            change = [{"op": "replace", "path": "/spec", "value": body["spec"]}]
            await self.admin.patch(resource, name, change, patch_type="json", namespace=namespace)

    async def remove(self, resource: Resource, name: str, namespace: str = T1) -> None:
        await self.admin.delete(resource, name, namespace=namespace)

    async def unschedulable(self, name: str, namespace: str = T1) -> None:
        """The scheduler found no node."""
        condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}
        body = {"status": {"conditions": [condition]}}
        await self.admin.patch(PODS, name, body, patch_type="merge", namespace=namespace, subresource="status")

    async def bind(self, name: str, namespace: str = T1) -> None:
        """Give a Pod a node, so that its deletion takes until it is confirmed (`confirm`)."""
        target = {"apiVersion": "v1", "kind": "Node", "name": "dpu"}
        body = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": name}, "target": target}
        await self.admin.post(f"/api/v1/namespaces/{namespace}/pods/{name}/binding", body)

    async def confirm(self, name: str, namespace: str = T1) -> None:
        await self.admin.delete(PODS, name, namespace=namespace, grace_period_seconds=0)

    async def set_status(self, name: str, status: JSON, namespace: str = T1) -> None:
        await self.admin.patch(
            PODS, name, {"status": status}, patch_type="merge", namespace=namespace, subresource="status"
        )


def workload(id_: str, *, node: str = "", name: str = "", labels: JSON | None = None, **annotations: str) -> JSON:
    state: JSON = {"ready": True, "extra": {"labels": labels or {}, "annotations": annotations}}
    if node:
        state["nodeName"] = node
    metadata = {
        "id": id_,
        "orchestrator": "kubernetes",
        "resourceType": "v1/Pod",
        "resourceName": name or f"pod-{id_}",
        "resourceNamespace": "default",
    }
    return {"metadata": {"name": f"workload-{id_}"}, "spec": {"metadata": metadata, "state": state}}


def rule(
    name: str,
    *,
    policy: str = "Any",
    image: str = "nginx:1.14.2",
    match: tuple[str, list[str]] = ("metadata.resourceNamespace", ["default"]),
    inject: dict[str, str] | None = None,
    template: JSON | None = None,
    spec: JSON | None = None,
) -> JSON:
    """`inject` maps annotations to keys; `spec` adds to the template's."""
    made = template or {"apiVersion": "v1", "kind": "Pod", "spec": {"containers": [{"name": "c", "image": image}]}}
    made = json.loads(json.dumps(made))
    made["spec"] |= spec or {}
    expression = {"key": match[0], "operator": "In", "values": match[1]}
    body: JSON = {
        "resourceType": "v1/Pod",
        "workloadTerms": [{"matchExpressions": [expression]}],
        "dpuSelectionPolicy": policy,
        "template": made,
    }
    if inject:
        body["workloadInfoInject"] = [{"workloadKey": key, "asAnnotation": {"name": a}} for a, key in inject.items()]
    return {"metadata": {"name": name}, "spec": body}


def entries(infra: Infra, count: int, kind: str = "tenant") -> list[JSON]:
    """The status of each of the first workloads by the one rule of this kind."""
    found = [infra.status(WORKLOADS, f"workload-u{number}").get("rules") or {} for number in range(count)]
    return [rules[kind][0]["status"] for rules in found if rules.get(kind)]


def pod(name: str, size: int) -> JSON:
    """A companion of tenant1, as the watch shows it."""
    return {
        "metadata": {
            "name": name,
            "namespace": T1,
            "uid": name,
            "labels": {COMPANION: "tenant"},
            "annotations": {RULE: f"{T1}/r", WORKLOAD: f"{T1}/u", "large": "x" * size},
        }
    }


def companions_kit(
    client: KubeClient, *, events: EventRecorder | None = None, workers: int = 16, resync: float = 600.0, **options: Any
) -> Kit:
    """The controller of companions; more options are those of its `CompanionOptions`."""
    kit = Kit(client, events=events, workers=workers, resync=resync)
    accompany(kit, CompanionOptions(**options))
    return kit


async def install(client: KubeClient) -> None:
    """Namespaces and definitions of an infra cluster with two tenants."""
    for name in (T1, T2, SYSTEM):
        await client.create(NAMESPACES, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
    for definition in read_definitions((WORKLOADS, ADMIN_RULES, TENANT_RULES, *TENANT)):
        await client.create(CUSTOM_RESOURCE_DEFINITIONS, definition)


@pytest_asyncio.fixture
async def infra(tmp_path: Path) -> AsyncIterator[Infra]:
    async with Cluster("icp") as cluster:
        kubeconfig = tmp_path / "kubeconfig"
        kubeconfig.write_text(cluster.kubeconfig())
        async with await connect(kubeconfig=str(kubeconfig), deadline=PATIENCE) as admin:
            await install(admin)
            yield Infra(cluster, kubeconfig, admin)
