"""Roles as processes: what they need to run, and what is seen of them from outside."""

from __future__ import annotations

import contextlib
import signal
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from pathlib import Path

from app.definitions import ALL, read_definitions
from app.devtools.demo.calling import Caller
from app.devtools.sandbox.server import Cluster
from app.kube.client import KubeClient
from app.kube.resources import CUSTOM_RESOURCE_DEFINITIONS, NAMESPACES
from app.kube.transport import connect
from app.tenancy.authority import ensure_authority
from app.tenancy.tenants.bundles import Issuing, issue_bundle
from app.tenancy.tenants.changes import Adding, create_tenant
from tests.support.processes import Berth
from tests.support.waiting import PATIENCE


class Stage:
    """One cluster that is both infra and tenant cluster, with tenant1 in it, and files for everybody."""

    def __init__(self, folder: Path, cluster: Cluster, client: KubeClient) -> None:
        self.folder, self.cluster, self.client = folder, cluster, client
        self.started: list[Berth] = []

    async def berth(self, role: str, *flags: str) -> Berth:
        common = ("--bind-address=127.0.0.1", "--health-check-port=0", f"--kubeconfig={self.folder / 'kubeconfig'}")
        self.started.append(Berth(*role.split(), *common, *flags))
        return self.started[-1]

    def tls(self, name: str, ca: str) -> tuple[str, ...]:
        return tls_flags(self.folder / name, ca)

    async def gateway(self, *flags: str) -> tuple[Berth, str]:
        """A gateway that is ready, and its address."""
        process = await self.berth("gateway", "--port=0", *self.tls("gateway", "client-ca"), *flags)
        await process.until_ready()
        event = process.event("gateway listens")
        assert event is not None
        return process, f"127.0.0.1:{event['port']}"

    def caller(self, name: str, address: str) -> Caller:
        folder = self.folder / name
        stem = "admin" if name == "admin" else "tls"
        return Caller(address, folder / "ca.crt", folder / f"{stem}.crt", folder / f"{stem}.key")


@contextlib.asynccontextmanager
async def staged(folder: Path) -> AsyncIterator[Stage]:
    """Everything a role needs to run; kills what was started."""
    async with Cluster("both", bookmark_interval=1.0) as cluster:
        (folder / "kubeconfig").write_text(cluster.kubeconfig())
        async with await connect(kubeconfig=str(folder / "kubeconfig"), deadline=PATIENCE) as client:
            for definition in read_definitions(ALL):
                await client.create(CUSTOM_RESOURCE_DEFINITIONS, definition)
            await enrolled(client, folder)
            found = Stage(folder, cluster, client)
            try:
                yield found
            finally:
                for process in found.started:
                    await process.end(signal.SIGKILL)


async def enrolled(client: KubeClient, folder: Path, *, hosts: tuple[str, ...] | None = None) -> None:
    """The namespaces of tenant1, who has these hosts, and a folder each with the files of gateway, admin and tenant."""
    for name in ("universe", "tenant-tenant1"):
        await client.create(NAMESPACES, {"metadata": {"name": name, "labels": {"berth.dev/tenant": "tenant1"}}})
    now = datetime.now(UTC)
    made = await ensure_authority(client, now=now)
    bundle = issue_bundle(
        made.authority,
        "tenant1",
        Issuing(folder, days=30, gateway="g", authority_files=None, agent_namespace="universe"),
        now=now,
    )
    await create_tenant(client, Adding("tenant1", hosts, (), force=False, admin_names=()), bundle=bundle)
    for name, files in (("gateway", made.serving), ("admin", made.admin), ("tenant1", bundle.files)):
        (folder / name).mkdir()
        for file, content in files.items():
            (folder / name / file).write_bytes(content)


def tls_flags(folder: Path, ca: str) -> tuple[str, ...]:
    """The flags of a role for its files in this folder, `ca` that for the certificate of its authority."""
    files = (("tls-cert-file", "tls.crt"), ("tls-private-key-file", "tls.key"), (ca, "ca.crt"))
    return tuple(f"--{flag}={folder / file}" for flag, file in files)
