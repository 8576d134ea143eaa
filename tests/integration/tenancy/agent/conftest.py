"""A tenant cluster with its definitions, a gateway in memory, and agents between them."""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from prometheus_client import REGISTRY

from app.definitions import read_definitions
from app.devtools.sandbox.server import Cluster
from app.errors import ApiError
from app.kube.client import KubeClient, Page
from app.kube.kit import Kit
from app.kube.resources import CONFIG_MAPS, CUSTOM_RESOURCE_DEFINITIONS, NAMESPACES, PODS, Resource
from app.kube.transport import connect
from app.tenancy.agent.settings import AgentOptions, AgentSettings
from app.workloads.model import UVS_RESOURCES, WORKLOAD_RULES
from tests.integration.tenancy.agent.fakegateway import Certificates, FakeGateway
from tests.support.tenancy import agent_kit, agent_settings
from tests.support.waiting import eventually

JSON = dict[str, Any]


_COUNTED = {"agent_streams_ended": "ended", "agent_workload_events": "sent", "agent_workloads_skipped": "skipped"}


class Seen:
    """What the metrics of the agent have counted since this was made."""

    def __init__(self) -> None:
        self._before = _counted()

    @property
    def counts(self) -> Counter[tuple[str, ...]]:
        """By a word for the metric and the values of its labels; zeros are left out."""
        return _counted() - self._before


def _counted() -> Counter[tuple[str, ...]]:
    return Counter(
        {
            (_COUNTED[family.name], *sample.labels.values()): int(sample.value)
            for family in REGISTRY.restricted_registry([f"{name}_total" for name in _COUNTED]).collect()
            for sample in family.samples
        }
    )


class Tenant:
    """The tenant cluster and what tests do there."""

    def __init__(self, cluster: Cluster, client: KubeClient) -> None:
        self.cluster = cluster
        self.client = client

    async def install(self, *resources: Resource) -> None:
        for definition in read_definitions(resources):
            await self.client.create(CUSTOM_RESOURCE_DEFINITIONS, definition)

    async def pod(self, name: str, *, namespace: str = "default", node: str = "", **metadata: Any) -> JSON:
        spec = {"containers": [{"name": "c", "image": "nginx"}], **({"nodeName": node} if node else {})}
        body = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, **metadata}, "spec": spec}
        return await self.client.create(PODS, body, namespace=namespace)

    async def label(self, name: str, *, namespace: str = "default", **labels: str | None) -> JSON:
        return await self.client.patch(
            PODS, name, {"metadata": {"labels": labels}}, patch_type="merge", namespace=namespace
        )

    async def pod_status(self, name: str, **status: Any) -> JSON:
        return await self.client.patch(
            PODS, name, {"status": status}, patch_type="merge", namespace="default", subresource="status"
        )

    async def remove(self, resource: Resource, name: str, *, namespace: str = "universe") -> None:
        await self.client.delete(resource, name, namespace=namespace, grace_period_seconds=0)

    async def rule(self, name: str, *, values: tuple[str, ...] = ("default",)) -> JSON:
        expression = {"key": "metadata.resourceNamespace", "operator": "In", "values": list(values)}
        spec = {
            "resourceType": "v1/Pod",
            "workloadTerms": [{"matchExpressions": [expression]}],
            "dpuSelectionPolicy": "Any",
            "template": {
                "apiVersion": "v1",
                "kind": "Pod",
                "spec": {"containers": [{"name": "c", "image": "nginx"}]},
            },
        }
        body = _object(WORKLOAD_RULES, name, spec)
        return await self.client.create(WORKLOAD_RULES, body, namespace="universe")

    async def uvs(self, resource: Resource, name: str, *, inner: str | None = None, **metadata: Any) -> JSON:
        body = _object(resource, name, {"object": manifest(resource, inner or name)})
        body["metadata"].update(metadata)
        return await self.client.create(resource, body, namespace="universe")

    async def patch(self, resource: Resource, name: str, body: JSON, *, subresource: str | None = None) -> JSON:
        return await self.client.patch(
            resource, name, body, patch_type="merge", namespace="universe", subresource=subresource
        )

    async def get(self, resource: Resource, name: str) -> JSON | None:
        try:
            return await self.client.get(resource, name, namespace="universe")
        except ApiError as error:
            if error.not_found:
                return None
            raise

    async def status(self, resource: Resource, name: str) -> JSON:
        found = await self.get(resource, name)
        return (found or {}).get("status") or {}

    async def result(self, resource: Resource, name: str) -> str:
        return (await self.status(resource, name)).get("result", "")

    async def names(self, resource: Resource) -> set[str]:
        page = await self.client.list_page(resource, namespace="universe")
        return {item["metadata"]["name"] for item in page.items}

    async def config(self, text: str) -> None:
        body = {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": "workload-plugin-config"},
            "data": {"config": text},
        }
        await self.client.apply(CONFIG_MAPS, "workload-plugin-config", body, namespace="universe")


class Refusing:
    """A client whose lists of some resources are refused for as long as they stand in `resources`."""

    def __init__(self, client: KubeClient, *resources: Resource) -> None:
        self._client = client
        self.resources = set(resources)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._client, name)

    async def list_page(self, resource: Resource, **options: Any) -> Any:
        if resource in self.resources:
            raise ApiError("refused", status=403)
        return await self._client.list_page(resource, **options)


class Behind:
    """A client whose lists and watches show none of the objects: a cache that is behind. What is got is there."""

    def __init__(self, client: KubeClient) -> None:
        self._client = client

    def __getattr__(self, name: str) -> Any:
        return getattr(self._client, name)

    async def list_page(self, resource: Resource, **options: Any) -> Page:
        page = await self._client.list_page(resource, **options)
        return Page([], page.resource_version, "")

    async def watch(self, _resource: Resource, **_options: Any) -> AsyncIterator[bytes]:
        yield b""
        await asyncio.Event().wait()


def _object(resource: Resource, name: str, spec: JSON) -> JSON:
    return resource.body({"name": name, "namespace": "universe"}, spec=spec)


def manifest(resource: Resource, name: str) -> JSON:
    """What a UVS object of this kind may ask for."""
    kind = resource.kind.removeprefix("UVS")
    template = {"containers": [{"name": "c", "image": "nginx"}]}
    body: JSON = {"apiVersion": "apps/v1" if kind == "DaemonSet" else "v1", "kind": kind, "metadata": {"name": name}}
    match kind:
        case "Pod":
            body["spec"] = template
        case "DaemonSet":
            labels = {"app": name}
            body["spec"] = {
                "selector": {"matchLabels": labels},
                "template": {"metadata": {"labels": labels}, "spec": template},
            }
        case "Secret":
            body["stringData"] = {"key": "value"}
        case "ConfigMap":
            body["data"] = {"key": "value"}
    return body


@pytest_asyncio.fixture
async def bare_tenant(tmp_path: Path) -> AsyncIterator[Tenant]:
    """A tenant cluster without any definition of ours."""
    async with Cluster("tenant", bookmark_interval=1.0) as cluster:
        kubeconfig = tmp_path / "tenant.kubeconfig"
        kubeconfig.write_text(cluster.kubeconfig())
        async with await connect(kubeconfig=str(kubeconfig), deadline=5) as client:
            await client.create(NAMESPACES, {"metadata": {"name": "universe"}})
            yield Tenant(cluster, client)


@pytest_asyncio.fixture
async def tenant(bare_tenant: Tenant) -> Tenant:
    await bare_tenant.install(WORKLOAD_RULES, *UVS_RESOURCES)
    return bare_tenant


@pytest.fixture
def certificates(tmp_path: Path) -> Certificates:
    return Certificates(tmp_path / "client")


@pytest_asyncio.fixture
async def fake(certificates: Certificates) -> AsyncIterator[FakeGateway]:
    gateway = FakeGateway(certificates)
    await gateway.start()
    yield gateway
    await gateway.stop()


def options_for(address: str, folder: Path, **changes: Any) -> AgentOptions:
    """Everything quick, so that tests are."""
    options = AgentOptions(
        agent_settings(address, folder),
        backoff_base=0.05,
        backoff_cap=0.2,
        certificate_poll=0.05,
        patience=0.3,
        refusal_pause=0.05,
        linger=0.02,
    )
    return changed(options, **changes)


def changed(options: AgentOptions, **changes: Any) -> AgentOptions:
    """With other settings or options; a time may be shorter than a user may ask for."""
    given = {name: changes.pop(name) for name in changes.keys() & AgentSettings.model_fields.keys()}
    return replace(options, settings=options.settings.model_copy(update=given), **changes)


@contextlib.asynccontextmanager
async def running(tenant: Tenant, options: AgentOptions, *, client: Any = None) -> AsyncIterator[tuple[Kit, Seen]]:
    """An agent at work; it need not be ready."""
    seen = Seen()
    agent = agent_kit(client or tenant.client, options=options)
    task = asyncio.create_task(agent.run())
    try:
        yield agent, seen
        if task.done():
            task.result()
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task


class Runner:
    """Starts and stops agents for one gateway."""

    def __init__(self, tenant: Tenant, options: AgentOptions, stack: contextlib.AsyncExitStack) -> None:
        self.tenant = tenant
        self.options = options
        self._stack = stack

    async def start(self, *, ready: bool = True, client: Any = None, **changes: Any) -> tuple[Kit, Seen]:
        options = changed(self.options, **changes)
        agent, seen = await self._stack.enter_async_context(running(self.tenant, options, client=client))
        if ready:
            await eventually(lambda: not agent.waiting())
        return agent, seen

    @contextlib.asynccontextmanager
    async def while_running(self, **changes: Any) -> AsyncIterator[Kit]:
        """For as long as the block runs."""
        async with running(self.tenant, changed(self.options, **changes)) as (agent, _):
            await eventually(lambda: not agent.waiting())
            yield agent


@pytest_asyncio.fixture
async def agents(tenant: Tenant, fake: FakeGateway, certificates: Certificates) -> AsyncIterator[Runner]:
    async with contextlib.AsyncExitStack() as stack:
        yield Runner(tenant, options_for(f"127.0.0.1:{fake.port}", certificates.folder), stack)


@pytest.fixture
def agent_options(tmp_path: Path) -> AgentOptions:
    """For what needs no gateway."""
    return options_for("127.0.0.1:1", tmp_path)
