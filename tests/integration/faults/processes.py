"""A stage for processes with the flags that users give them, to be killed and frozen by signals."""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Self

from app.devtools.sandbox.server import Cluster
from app.kube.resources import CUSTOM_RESOURCE_DEFINITIONS, NAMESPACES
from app.kube.transport import connect
from app.tenancy.authority import ensure_authority
from app.workloads.model import SYSTEM_NAMESPACE, UVS_RESOURCES, WORKLOAD_RULES
from tests.integration.faults.driver import CHANGES
from tests.integration.faults.world import Side, Tuning, World, kubelet
from tests.support.ports import lasting_port
from tests.support.processes import Berth
from tests.support.tenancy import TlsFiles, definitions
from tests.support.waiting import PATIENCE, eventually

JSON = dict[str, Any]
TENANT = "tenant1"
QUICK = {name: weight for name, weight in CHANGES.items() if name != "companion_lost"}
"""What no role meets with a pause that no flag shortens."""


class Processes(World):
    """A world whose roles are processes."""

    async def launch(self, role: str, *, lead: bool = False) -> Berth:
        """With the flags that a user gives; `lead`: only while it holds the Lease."""
        common = ("--bind-address", "127.0.0.1", "--health-check-port", "0", "--log-level", "debug")
        elect = "--leader-elect" if lead else "--no-leader-elect"
        infra = ("--kubeconfig", str(self.folder / "infra.kubeconfig"))
        if role == "controller":
            return Berth(role, *infra, *common, elect)
        if role == "gateway":
            return Berth(role, *infra, *common, "--port", str(self.port), *self._tls("gateway", "client-ca"))
        folder = str(self.folder / f"{TENANT}.kubeconfig")
        address = f"127.0.0.1:{self.port}"
        flags = ("--gateway", address, "--kubeconfig", folder, *common, elect, "--tenant", TENANT)
        return Berth(role, *flags, *self._tls(TENANT, "gateway-ca"))

    def _tls(self, name: str, ca: str) -> tuple[str, ...]:
        folder = self.folder / name
        return (
            *("--tls-cert-file", str(folder / "tls.crt"), "--tls-private-key-file", str(folder / "tls.key")),
            *(f"--{ca}", str(folder / "ca.crt")),
        )

    port = 0

    def gateway_port(self) -> int:
        return self.port


@contextlib.asynccontextmanager
async def processes(tmp_path: Path) -> AsyncIterator[Processes]:
    """Two clusters, the tenant added as a user adds it, and no role at work yet."""
    async with contextlib.AsyncExitStack() as stack:
        sides = {}
        for name in ("infra", TENANT):
            cluster = await stack.enter_async_context(Cluster(name, bookmark_interval=0.3))
            (tmp_path / f"{name}.kubeconfig").write_text(cluster.kubeconfig())
            client = await stack.enter_async_context(
                await connect(kubeconfig=str(tmp_path / f"{name}.kubeconfig"), deadline=PATIENCE)
            )
            sides[name] = Side(cluster, client)
            await client.create(NAMESPACES, {"metadata": {"name": SYSTEM_NAMESPACE}})
        theirs = {resource.plural for resource in (WORKLOAD_RULES, *UVS_RESOURCES)}
        for definition in definitions():
            side = sides[TENANT] if definition["spec"]["names"]["plural"] in theirs else sides["infra"]
            await side.client.create(CUSTOM_RESOURCE_DEFINITIONS, definition)
        certificates = await ensure_authority(sides["infra"].client, now=datetime.now(UTC))
        for folder, files in (("gateway", certificates.serving), ("admin", certificates.admin)):
            (tmp_path / folder).mkdir()
            for name, content in files.items():
                (tmp_path / folder / name.replace("admin", "tls")).write_bytes(content)
        serving = TlsFiles(*(tmp_path / "gateway" / name for name in ("tls.crt", "tls.key", "ca.crt")))
        made = Processes(tmp_path, sides["infra"], {TENANT: sides[TENANT]}, random.Random(1), serving, Tuning())
        confirming = [asyncio.create_task(kubelet(side)) for side in sides.values()]
        stack.callback(lambda: [task.cancel() for task in confirming])
        made.port = lasting_port()
        adding = Berth(
            "tenant",
            "add",
            TENANT,
            "--out",
            str(tmp_path / TENANT),
            "--kubeconfig",
            str(tmp_path / "infra.kubeconfig"),
        )
        assert await adding.ended() == 0, adding.lines
        yield made
        await made.close()


class Crew:
    """One process of each role; whoever dies is replaced."""

    def __init__(self, stage: Processes) -> None:
        self.stage = stage
        self.members: dict[str, Berth] = {}

    async def __aenter__(self) -> Self:
        for role in ("gateway", "controller", "agent"):
            self.members[role] = await self.stage.launch(role)
        await self.ready()
        return self

    async def __aexit__(self, *_: object) -> None:
        for member in self.members.values():
            await member.kill()

    async def ready(self) -> None:
        for member in self.members.values():
            await eventually(member.ready)
