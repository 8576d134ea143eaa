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
from app.devtools.clusters.release import Release, name_of
from app.kube.client import KubeClient
from app.registry import WINGS, settings_of
from app.serving.listener import free_port
from app.tenancy.model import tenants_role
from app.wiring import RELEASE_NAMESPACE, SYSTEM_NAMESPACE

_HOST = "127.0.0.1"
_UNSERVED = frozenset({"policies"})
"""Controllers of what the stand-in for an API server does not have: it evaluates no admission policies."""


class Berth:
    """The kubeconfigs of the clusters are in `directory`. All webhooks share one certificate, which is made here."""

    def __init__(self, directory: Path, parts: Parts, *, log_level: str) -> None:
        self._directory = directory
        self._parts = parts
        self._log_level = log_level
        self._bundle = write_webhook_certificate(directory / "webhook")
        self._releases: dict[str, Release] = {}
        self._token = secrets.token_hex(32)
        (directory / "webhook" / "caller-token").write_text(self._token)

    async def install(self, cluster: str, release: Release) -> None:
        """Have the roles of a cluster be Pods of this release; else they are parts of the sandbox."""
        await release.prepare()
        self._releases[cluster] = release

    async def start_webhook(self, client: KubeClient, cluster: str, *, every: bool = False) -> str:
        """Start the webhook of a cluster, and have its API server call it; returns its `host:port`.

        With `every` for AppWrappers, RMD and claims as well.
        """
        folder, infra = self._directory / "webhook", cluster == INFRA
        settings: dict[str, object] = {
            "namespace": RELEASE_NAMESPACE,
            "insecure": True,
            "tls_cert_file": str(folder / "tls.crt"),
            "tls_private_key_file": str(folder / "tls.key"),
            "caller_token_file": str(folder / "caller-token"),
            "drain_seconds": 0.0,
            "confine_tenants": infra,
            "appwrappers": every,
            "appwrapper_controller": f"{RELEASE_NAMESPACE}/{name_of('controller')}" if every else "",
            "claims": every,
            "rmd_backend": "daemon" if every else "off",
        }
        address = await self._serve("webhook", cluster, settings, replicas=2)
        await self._until_ready(cluster)
        await register(client, address=address, bundle=self._bundle, settings=settings, token=self._token)
        return address

    async def start_further_controllers(self, cluster: str, *, without: Sequence[str] = ()) -> None:
        """Start all controllers that run only where they are asked for, but those of wings `without`."""
        wings = [wing for wing in WINGS if wing.name not in without]
        names = tuple(
            controller.name
            for wing in wings
            for controller in wing.controllers
            if not controller.usual and controller.name not in _UNSERVED
        )
        await self._start("controller", cluster, {"namespace": self._home(cluster), "controllers": names})

    async def start_node_agents(self, cluster: str, folders: Mapping[str, Path]) -> None:
        """One for each node, with the folder of its kubelet."""
        for node, folder in folders.items():
            settings = {"node_name": node, "kubelet_folder": str(folder)}
            await self._parts.start("rmd-node", self._as_part(cluster, settings), where=cluster)

    async def start_workload_api(self, clients: Mapping[str, KubeClient]) -> str:
        """Start everything in the order in which it depends on each other; returns the gateway's address."""
        await write_gateway_certificates(clients[INFRA], self._directory)
        accounts = {tenants_role(role): name_of(role) for role in ("controller", "gateway")}
        grants = tuple(f"{role}={RELEASE_NAMESPACE}/{account}" for role, account in accounts.items())
        address = await self._start_gateway()
        granting = {"namespace_grant": grants} if INFRA in self._releases else {}
        await self._start("controller", INFRA, {"namespace": self._home(INFRA), **granting})
        await self._until_ready(INFRA)
        (self._directory / "gateway.addr").write_text(address + "\n")
        for plan in CLUSTERS:
            if plan.name != INFRA:
                bundle = self._directory / "tenants" / plan.name
                await enroll(clients[INFRA], plan, bundle)
                await self._start_agent(plan.name, bundle, address)
        for cluster in clients:
            await self._until_ready(cluster)
        return address

    async def _start_gateway(self) -> str:
        folder = self._directory / "gateway"
        settings: dict[str, object] = {
            "tls_cert_file": str(folder / "tls.crt"),
            "tls_private_key_file": str(folder / "tls.key"),
            "client_ca": str(folder / "ca.crt"),
            "drain_seconds": 0.0,
        }
        return await self._serve("gateway", INFRA, settings)

    async def _start_agent(self, tenant: str, bundle: Path, gateway: str) -> None:
        settings: dict[str, object] = {
            "gateway": gateway,
            "gateway_ca": str(bundle / "ca.crt"),
            "tls_cert_file": str(bundle / "tls.crt"),
            "tls_private_key_file": str(bundle / "tls.key"),
            "tenant": tenant,
        }
        await self._start("agent", tenant, settings)

    async def _serve(self, role: str, cluster: str, settings: dict[str, object], *, replicas: int = 1) -> str:
        """Start a role that listens; returns its `host:port`."""
        release = self._releases.get(cluster)
        if release is None:
            port = free_port(_HOST)
            await self._start(role, cluster, {**settings, "port": port})
            return f"{_HOST}:{port}"
        await self._start(role, cluster, settings, replicas=replicas)
        return await release.expose(role, settings_of(role).model_fields["port"].default)

    async def _start(self, role: str, cluster: str, settings: dict[str, object], *, replicas: int = 1) -> None:
        release = self._releases.get(cluster)
        if release is None:
            await self._parts.start(role, self._as_part(cluster, settings), where=cluster)
        else:
            await release.deploy(role, {**settings, "log_level": self._log_level}, replicas=replicas)

    def _home(self, cluster: str) -> str:
        """The namespace of a Lease: without a release Berth has none of its own."""
        return RELEASE_NAMESPACE if cluster in self._releases else SYSTEM_NAMESPACE

    async def _until_ready(self, cluster: str) -> None:
        if release := self._releases.get(cluster):
            await release.until_ready(cluster)

    def _as_part(self, cluster: str, settings: Mapping[str, object]) -> dict[str, object]:
        own = {"bind_address": _HOST, "log_level": self._log_level}
        return {**settings, **own, "kubeconfig": str(self._directory / f"{cluster}.kubeconfig")}
