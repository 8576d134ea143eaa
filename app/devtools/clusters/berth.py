"""Berth in the clusters of the sandbox: a webhook in each, and the Workload API over all of them.

Files in the sandbox's directory: `webhook/`, `gateway/`, `admin/` and `tenants/<name>/` (certificates), and
`gateway.addr` (`host:port`).
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence
from pathlib import Path

from app.devtools.clusters.certificates import write_gateway_certificates, write_webhook_certificate
from app.devtools.clusters.enrolling import enroll
from app.devtools.clusters.parts import Parts
from app.devtools.clusters.plans import CLUSTERS, INFRA
from app.devtools.clusters.registering import register
from app.devtools.clusters.webhooks import start_webhook
from app.kube.client import KubeClient
from app.registry import WINGS
from app.serving.listener import free_port

_HOST = "127.0.0.1"


class Berth:
    """The kubeconfigs of the clusters are in `directory`. All webhooks share one certificate, which is made here."""

    def __init__(self, directory: Path, parts: Parts, *, log_level: str) -> None:
        self._directory = directory
        self._parts = parts
        self._log_level = log_level
        self._bundle = write_webhook_certificate(directory / "webhook")
        self._token = secrets.token_hex(32)
        (directory / "webhook" / "caller-token").write_text(self._token)

    async def start_webhook(self, client: KubeClient, cluster: str, *, every: bool = False) -> tuple[int, int]:
        """Start the webhook of a cluster, and have its API server call it; returns its port and its health port.

        With `every` for AppWrappers, RMD and claims as well.
        """
        folder, infra = self._directory / "webhook", cluster == INFRA
        settings: dict[str, object] = {
            "insecure": True,
            "tls_cert_file": str(folder / "tls.crt"),
            "tls_private_key_file": str(folder / "tls.key"),
            "caller_token_file": str(folder / "caller-token"),
            "drain_seconds": 0.0,
            "confine_tenants": infra,
            "appwrappers": every,
            "claims": every,
            "rmd_backend": "daemon" if every else "off",
        }
        ports = await start_webhook(self._parts, self._common(cluster) | settings, host=_HOST, where=cluster)
        await register(client, port=ports[0], bundle=self._bundle, infra=infra, every=every, token=self._token)
        return ports

    async def start_further_controllers(self, cluster: str, *, without: Sequence[str] = ()) -> None:
        """Start all controllers that run only where they are asked for, but those of wings `without`."""
        wings = [wing for wing in WINGS if wing.name not in without]
        names = tuple(controller.name for wing in wings for controller in wing.controllers if not controller.usual)
        await self._start("controller", cluster, {"leader_elect": False, "controllers": names})

    async def start_node_agents(self, cluster: str, folders: Mapping[str, Path]) -> None:
        """One for each node, with the folder of its kubelet."""
        for node, folder in folders.items():
            await self._start("rmd-node", cluster, {"node_name": node, "kubelet_folder": str(folder)})

    async def start_workload_api(self, clients: Mapping[str, KubeClient]) -> str:
        """Start everything in the order in which it depends on each other; returns the gateway's address."""
        await write_gateway_certificates(clients[INFRA], self._directory)
        address = await self._start_gateway()
        await self._start("controller", INFRA, {"leader_elect": False})
        (self._directory / "gateway.addr").write_text(address + "\n")
        for plan in CLUSTERS:
            if plan.name != INFRA:
                bundle = self._directory / "tenants" / plan.name
                await enroll(clients[INFRA], plan, bundle)
                await self._start_agent(plan.name, bundle, address)
        return address

    async def _start_gateway(self) -> str:
        folder, port = self._directory / "gateway", free_port(_HOST)
        settings: dict[str, object] = {
            "bind_address": _HOST,
            "port": port,
            "tls_cert_file": str(folder / "tls.crt"),
            "tls_private_key_file": str(folder / "tls.key"),
            "client_ca": str(folder / "ca.crt"),
            "drain_seconds": 0.0,
        }
        await self._start("gateway", INFRA, settings)
        return f"{_HOST}:{port}"

    async def _start_agent(self, tenant: str, bundle: Path, gateway: str) -> None:
        settings: dict[str, object] = {
            "gateway": gateway,
            "gateway_ca": str(bundle / "ca.crt"),
            "tls_cert_file": str(bundle / "tls.crt"),
            "tls_private_key_file": str(bundle / "tls.key"),
            "tenant": tenant,
            "leader_elect": False,
        }
        await self._start("agent", tenant, settings)

    async def _start(self, role: str, cluster: str, settings: dict[str, object]) -> None:
        await self._parts.start(role, self._common(cluster) | settings, where=cluster)

    def _common(self, cluster: str) -> dict[str, object]:
        return {"kubeconfig": str(self._directory / f"{cluster}.kubeconfig"), "log_level": self._log_level}
