"""The Workload API over the clusters of the sandbox: authority, gateway, controller, tenants and their agents.

What it writes into the sandbox's directory: `gateway/` and `admin/` (certificates), `tenants/<name>/` (the bundles of
the agents) and `gateway.addr` (`host:port`).
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path

from app.devtools.clusters.kubeconfigs import write_private
from app.devtools.clusters.plans import CLUSTERS, INFRA
from app.devtools.clusters.registering import until_ready
from app.errors import ApiError
from app.kube.client import KubeClient
from app.kube.resources import NAMESPACES
from app.registry import CONTROLLER, settings_of
from app.runtime.composing import compose
from app.serving.listener import free_port
from app.settings.reconciling import Runnable
from app.tenancy.agent.settings import AgentSettings
from app.tenancy.authority.ensuring import ensure_authority
from app.tenancy.gateway.settings import GatewaySettings
from app.tenancy.model import ADMIN_NAME, GATEWAY_NAME
from app.tenancy.tenants.bundles import Issuing
from app.tenancy.tenants.changes import Adding
from app.tenancy.tenants.enrolling import add
from app.tenancy.wing import AGENT, GATEWAY
from app.workloads.model import SYSTEM_NAMESPACE

_DAYS = 30
_HOST = "127.0.0.1"


class WorkloadApi:
    """Starts everything in the order in which it depends on each other; `clients` are those of the clusters by name."""

    def __init__(self, directory: Path, *, clients: Mapping[str, KubeClient], log_level: str) -> None:
        self._directory = directory
        self._clients = clients
        self._common: dict[str, object] = {"log_level": log_level}

    async def start(self, run: Callable[[Runnable], None]) -> str:
        """Returns the gateway's address when all are ready."""
        for client in self._clients.values():
            await _ensure_namespace(client, SYSTEM_NAMESPACE)
        await self._issue()
        address = await self._serve(run)
        agents = [await self._tenant(plan.name, plan.hosts, address) for plan in CLUSTERS if plan.name != INFRA]
        for part in agents:
            run(part)
        for part in agents:
            await until_ready(part.waiting, "an agent")
        return address

    async def _issue(self) -> None:
        certificates = await ensure_authority(self._clients[INFRA], now=datetime.now(UTC))
        for folder, files in (("gateway", certificates.serving), ("admin", certificates.admin)):
            (self._directory / folder).mkdir(mode=0o700, exist_ok=True)
            for name, content in files.items():
                write_private(self._directory / folder / name, content)

    async def _serve(self, run: Callable[[Runnable], None]) -> str:
        """The gateway and the controller of the infra cluster."""
        folder, port = self._directory / "gateway", free_port(_HOST)
        serving = compose(
            GATEWAY,
            GatewaySettings.load(
                self._cluster(INFRA)
                | {
                    "bind_address": _HOST,
                    "port": port,
                    "tls_cert_file": str(folder / "tls.crt"),
                    "tls_private_key_file": str(folder / "tls.key"),
                    "client_ca": str(folder / "ca.crt"),
                    "drain_seconds": 0.0,
                },
                environment=False,
            ),
        )
        reconciling = compose(
            CONTROLLER,
            settings_of("controller").load(self._cluster(INFRA) | {"leader_elect": False}, environment=False),
        )
        for part, what in ((serving, "the gateway"), (reconciling, "the controller")):
            run(part)
            await until_ready(part.waiting, what)
        address = f"{_HOST}:{port}"
        (self._directory / "gateway.addr").write_text(address + "\n")
        return address

    async def _tenant(self, name: str, hosts: tuple[str, ...], address: str) -> Runnable:
        """The tenant in the infra cluster, and its agent with the bundle that it got."""
        bundle = self._directory / "tenants" / name
        # What an earlier sandbox left is of no use: its certificates may have been revoked.
        shutil.rmtree(bundle, ignore_errors=True)
        adding = Adding(name=name, hosts=hosts, names=(), force=True, admin_names=(ADMIN_NAME,))
        issuing = Issuing(
            bundle, days=_DAYS, gateway=GATEWAY_NAME, authority_files=None, agent_namespace=SYSTEM_NAMESPACE
        )
        await add(self._clients[INFRA], adding, issuing, now=datetime.now(UTC))
        return compose(
            AGENT,
            AgentSettings.load(
                self._cluster(name)
                | {
                    "gateway": address,
                    "gateway_ca": str(bundle / "ca.crt"),
                    "tls_cert_file": str(bundle / "tls.crt"),
                    "tls_private_key_file": str(bundle / "tls.key"),
                    "tenant": name,
                    "leader_elect": False,
                },
                environment=False,
            ),
        )

    def _cluster(self, name: str) -> dict[str, object]:
        return self._common | {"kubeconfig": str(self._directory / f"{name}.kubeconfig")}


async def _ensure_namespace(client: KubeClient, name: str) -> None:
    body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
    try:
        await client.create(NAMESPACES, body)
    except ApiError as error:
        if not error.conflict:
            raise
