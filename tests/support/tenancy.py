"""An infra cluster with its definitions, a CA with the certificates of tenants and of the admin, a running gateway."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import grpc
import pytest
import pytest_asyncio
from cryptography import x509

from app.certs.issuing import Issued, issue_authority, issue_client, issue_serving, serving_names
from app.definitions import INFRA, TENANT, read_definitions
from app.devtools.sandbox.server import Cluster
from app.kube.client import KubeClient
from app.kube.events import EventRecorder
from app.kube.kit import Kit
from app.kube.resources import CUSTOM_RESOURCE_DEFINITIONS, NAMESPACES
from app.kube.transport import connect
from app.tenancy.agent.agent import connect as connect_agent
from app.tenancy.agent.settings import AgentOptions, AgentSettings
from app.tenancy.gateway.backend import Backend
from app.tenancy.gateway.caches import Sources
from app.tenancy.gateway.metrics import GatewayMetrics
from app.tenancy.gateway.server import Gateway
from app.tenancy.gateway.settings import GatewaySettings, Limits
from app.tenancy.model import ADMIN_NAME, GATEWAY_NAME, tenant_certificate_name
from app.workloads.model import SYSTEM_NAMESPACE, TENANTS, tenant_namespace
from tests.support.tenants import tenant
from tests.support.waiting import eventually

JSON = dict[str, Any]
QUICK = Limits(tick=0.1)
"""The bounds of a gateway, with a short `tick` so that tests need not wait for it."""


@dataclass(frozen=True)
class TlsFiles:
    """The PEM files of a gateway."""

    certificate: Path
    key: Path
    client_ca: Path
    admin_ca: Path | None = None

    def settings(self, **given: Any) -> GatewaySettings:
        """The settings of a gateway with these files, on a free port of this machine."""
        return GatewaySettings(
            tls_cert_file=str(self.certificate),
            tls_private_key_file=str(self.key),
            client_ca=str(self.client_ca),
            admin_ca=str(self.admin_ca) if self.admin_ca else None,
            **{"bind_address": "127.0.0.1", "port": 0, **given},
        )


@dataclass(frozen=True)
class Pki:
    """One authority that issues for all; `folder` holds the gateway's files."""

    authority: Issued
    folder: Path

    @property
    def ca(self) -> bytes:
        return self.authority.certificate_pem

    @property
    def files(self) -> TlsFiles:
        return TlsFiles(self.folder / "tls.crt", self.folder / "tls.key", self.folder / "ca.crt")

    def client(self, common_name: str, *, authority: Issued | None = None, now: datetime | None = None) -> Issued:
        return issue_client(authority or self.authority, common_name=common_name, now=now or datetime.now(UTC), days=30)

    def tenant(self, name: str) -> Issued:
        return self.client(tenant_certificate_name(name))

    def admin(self) -> Issued:
        return self.client(ADMIN_NAME)

    def write_serving(self) -> x509.Certificate:
        """Serving files, anew each time."""
        names = serving_names(dns=[GATEWAY_NAME, "localhost"], addresses=["127.0.0.1"])
        issued = issue_serving(self.authority, names=names, now=datetime.now(UTC), days=30)
        self.files.key.write_bytes(issued.key_pem)
        self.files.certificate.write_bytes(issued.certificate_pem)
        self.files.client_ca.write_bytes(self.ca)
        return issued.certificate


@pytest.fixture
def pki(tmp_path: Path) -> Pki:
    folder = tmp_path / "pki"
    folder.mkdir()
    made = Pki(issue_authority(common_name="test", now=datetime.now(UTC), days=60), folder)
    made.write_serving()
    return made


class Infra:
    """The infra cluster: its API server, a client of it, and what tests put there."""

    def __init__(self, cluster: Cluster, client: KubeClient) -> None:
        self.cluster = cluster
        self.client = client

    async def restart(self, pause: float = 0.3) -> None:
        """The API server goes away and comes back on the same port with the same objects."""
        await self.cluster.stop()
        await asyncio.sleep(pause)
        self.cluster.storage.reopen()
        await self.cluster.start()

    async def add_tenant(self, name: str, *, namespace: bool = True, **spec: Any) -> JSON:
        """A Tenant whose certificates are of its usual name, and its namespace."""
        if namespace:
            await self.client.create(NAMESPACES, {"metadata": {"name": tenant_namespace(name)}})
        return await self.client.create(TENANTS, tenant(name, **spec))

    async def names(self, resource: Any, namespace: str) -> set[str]:
        page = await self.client.list_page(resource, namespace=namespace)
        return {item["metadata"]["name"] for item in page.items}


def definitions() -> list[JSON]:
    """Every CustomResourceDefinition of the Workload API."""
    return read_definitions((*INFRA, *TENANT))


@pytest_asyncio.fixture
async def infra(tmp_path: Path) -> AsyncIterator[Infra]:
    async with Cluster("infra", bookmark_interval=1.0) as cluster:
        kubeconfig = tmp_path / "infra.kubeconfig"
        kubeconfig.write_text(cluster.kubeconfig())
        async with await connect(kubeconfig=str(kubeconfig), deadline=30) as client:
            for definition in definitions():
                await client.create(CUSTOM_RESOURCE_DEFINITIONS, definition)
            await client.create(NAMESPACES, {"metadata": {"name": SYSTEM_NAMESPACE}})
            yield Infra(cluster, client)


class Seen(GatewayMetrics):
    """The metrics of a gateway, and the arguments of their calls, in order."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: list[tuple[str, str, str]] = []
        self.refusals: list[tuple[str, str]] = []
        self.throttles: list[tuple[str, str]] = []
        self.open: dict[str, int] = {}
        self.events: list[tuple[str, str]] = []
        self.dropped: list[tuple[str, str]] = []
        self.writes: list[tuple[str, str, str]] = []
        self.tenants: set[str] = set()

    def tenant_came(self, tenant: str) -> None:
        super().tenant_came(tenant)
        self.tenants.add(tenant)

    def tenant_gone(self, tenant: str) -> None:
        super().tenant_gone(tenant)
        self.tenants.remove(tenant)

    def called(self, service: str, method: str, code: str, seconds: float) -> None:
        super().called(service, method, code, seconds)
        self.calls.append((service, method, code))

    def refused(self, service: str, reason: str) -> None:
        super().refused(service, reason)
        self.refusals.append((service, reason))

    def throttled(self, tenant: str, what: str) -> None:
        super().throttled(tenant, what)
        self.throttles.append((tenant, what))

    def streams(self, tenant: str, count: int) -> None:
        super().streams(tenant, count)
        self.open[tenant] = count

    def event(self, tenant: str, kind: str) -> None:
        super().event(tenant, kind)
        self.events.append((tenant, kind))

    def event_dropped(self, tenant: str, reason: str) -> None:
        super().event_dropped(tenant, reason)
        self.dropped.append((tenant, reason))

    def written(self, tenant: str, verb: str, outcome: str) -> None:
        super().written(tenant, verb, outcome)
        self.writes.append((tenant, verb, outcome))


class Door:
    """A gateway and channels to it; `seen` is what it reported."""

    def __init__(
        self, client: Any, settings: GatewaySettings, pki: Pki, *, limits: Limits = QUICK, **given: Any
    ) -> None:
        self.pki = pki
        self.seen = Seen()
        self.sources = Sources(client)
        self.backend = Backend(self.sources, settings=settings, limits=limits, observer=self.seen)
        self.gateway = Gateway(self.backend, settings=settings, **given)
        self._channels: list[grpc.aio.Channel] = []

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.gateway.port}"

    def channel(self, identity: Issued | None, *, ca: bytes | None = None, **options: Any) -> grpc.aio.Channel:
        """A new connection as this identity, under the name api-gateway.local as in the walk-through."""
        credentials = grpc.ssl_channel_credentials(
            root_certificates=ca or self.pki.ca,
            private_key=identity.key_pem if identity else None,
            certificate_chain=identity.certificate_pem if identity else None,
        )
        arguments = {
            "grpc.ssl_target_name_override": GATEWAY_NAME,
            "grpc.use_local_subchannel_pool": 1,
            "grpc.enable_retries": 0,
            **options,
        }
        made = grpc.aio.secure_channel(self.address, credentials, options=list(arguments.items()))
        self._channels.append(made)
        return made

    def tenant(self, name: str, **options: Any) -> grpc.aio.Channel:
        return self.channel(self.pki.tenant(name), **options)

    async def connection(self, identity: Issued) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """A connection as this identity, on which nothing has been said."""
        context = ssl.create_default_context(cadata=self.pki.ca.decode())
        context.set_alpn_protocols(["h2"])
        with tempfile.NamedTemporaryFile() as file:
            file.write(identity.certificate_pem + identity.key_pem)
            file.flush()
            context.load_cert_chain(file.name)
        host, port = self.address.split(":")
        return await asyncio.open_connection(host, int(port), ssl=context, server_hostname="localhost")

    def admin(self, **options: Any) -> grpc.aio.Channel:
        return self.channel(self.pki.admin(), **options)

    async def close(self) -> None:
        for channel in self._channels:
            await channel.close()


Start = Callable[..., Awaitable[Door]]


@contextlib.asynccontextmanager
async def running(client: Any, settings: GatewaySettings, pki: Pki, *, limits: Limits = QUICK) -> AsyncIterator[Door]:
    """A gateway that is ready."""
    door, stop = Door(client, settings, pki, limits=limits), asyncio.Event()
    task = asyncio.create_task(door.gateway.run(stop))
    try:
        await eventually(lambda: task.done() or not door.gateway.waiting())
        if task.done():
            task.result()
        yield door
        await door.close()
    finally:
        stop.set()
        await task


@pytest_asyncio.fixture
async def start(infra: Infra, pki: Pki) -> AsyncIterator[Start]:
    """Starts a gateway at the infra cluster: `await start(limits=Limits(...))`; all are stopped in the end."""
    async with contextlib.AsyncExitStack() as stack:

        async def started(
            *,
            limits: Limits = QUICK,
            client: Any = None,
            files: TlsFiles | None = None,
            tick: float = 0.1,
            **given: Any,
        ) -> Door:
            settings = (files or pki.files).settings(drain_seconds=1.0, **given)
            bounds = replace(limits, tick=tick)
            return await stack.enter_async_context(running(client or infra.client, settings, pki, limits=bounds))

        yield started


@pytest_asyncio.fixture
async def door(infra: Infra, start: Start) -> Door:
    """A running gateway that knows tenant1 and tenant2."""
    await infra.add_tenant("tenant1")
    await infra.add_tenant("tenant2")
    return await start()


@pytest.fixture(autouse=True)
def _no_proxies(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY", "grpc_proxy", "KUBECONFIG"):
        monkeypatch.delenv(name, raising=False)


def agent_settings(address: str, folder: Path, **changes: Any) -> AgentSettings:
    """Those of an agent with a bundle in this folder; in `changes` a time may be shorter than a user may ask for."""
    ca, certificate, key = (str(folder / name) for name in ("ca.crt", "tls.crt", "tls.key"))
    given = {"gateway_ca": ca, "tls_cert_file": certificate, "tls_private_key_file": key}
    return AgentSettings.load({"gateway": address, **given}, environment=False).model_copy(update=changes)


def agent_kit(
    client: KubeClient, *, options: AgentOptions, events: EventRecorder | None = None, calls: Any = None
) -> Kit:
    """The agent of a tenant cluster, as its role makes it."""
    kit = Kit(client, events=events, workers=4, resync=None)
    connect_agent(kit, options=options, calls=calls)
    return kit
