"""A stage for processes with the flags that users give them, to be killed and frozen by signals."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import random
import signal
import sys
import urllib.request
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Self

from app.devtools.sandbox.server import Cluster
from app.kube.resources import CUSTOM_RESOURCE_DEFINITIONS, NAMESPACES
from app.kube.transport import connect
from app.tenancy.authority.ensuring import ensure_authority
from app.tenancy.gateway.options import TlsFiles
from app.workloads.model import SYSTEM_NAMESPACE, UVS_RESOURCES, WORKLOAD_RULES
from tests.faults.driver import CHANGES
from tests.faults.world import Side, Tuning, World, eventually, kubelet
from tests.ports import lasting_port
from tests.tenancy.conftest import definitions

JSON = dict[str, Any]
TENANT = "tenant1"
QUICK = {name: weight for name, weight in CHANGES.items() if name != "companion_lost"}
"""What no role meets with a pause that no flag shortens."""


class Process:
    """One `berth` process; what it says is kept, as lines of JSON."""

    def __init__(self, role: str, process: asyncio.subprocess.Process) -> None:
        self.role = role
        self.process = process
        self.lines: list[str] = []
        self.health = ""
        self._reading = asyncio.create_task(self._read())

    async def _read(self) -> None:
        assert self.process.stderr is not None
        async for line in self.process.stderr:
            self.lines.append(line.decode())
            with contextlib.suppress(ValueError):
                event = json.loads(line)
                if event.get("health"):
                    self.health = event["health"]

    async def ready(self) -> bool:
        """What /readyz says."""
        assert self.process.returncode is None, "".join(self.lines)[-3000:]
        if not self.health:
            return False
        return await asyncio.to_thread(self._get, "/readyz") == 200

    def _get(self, path: str) -> int:
        try:
            with urllib.request.urlopen(self.health + path, timeout=10) as answer:
                return int(answer.status)
        except OSError:
            return 0

    def send(self, number: signal.Signals) -> None:
        self.process.send_signal(number)

    async def kill(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            self.process.kill()
        await self.process.wait()
        await self._reading


class Processes(World):
    """A world whose roles are processes."""

    async def berth(self, role: str, *flags: str) -> Process:
        command = [sys.executable, "-m", "app", *flags]
        environment = {k: v for k, v in os.environ.items() if not k.startswith("BERTH_")}
        process = await asyncio.create_subprocess_exec(
            *command, stderr=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.DEVNULL, env=environment
        )
        return Process(role, process)

    async def launch(self, role: str, *, lead: bool = False) -> Process:
        """With the flags that a user gives; `lead`: only while it holds the Lease."""
        common = ("--bind-address", "127.0.0.1", "--health-check-port", "0", "--log-level", "debug")
        elect = "--leader-elect" if lead else "--no-leader-elect"
        infra = ("--kubeconfig", str(self.folder / "infra.kubeconfig"))
        if role == "controller":
            return await self.berth(role, role, *infra, *common, elect)
        if role == "gateway":
            return await self.berth(
                role, role, *infra, *common, "--port", str(self.port), *self._tls("gateway", "client-ca")
            )
        folder = str(self.folder / f"{TENANT}.kubeconfig")
        address = f"127.0.0.1:{self.port}"
        flags = ("--gateway", address, "--kubeconfig", folder, *common, elect, "--tenant", TENANT)
        return await self.berth(role, role, *flags, *self._tls(TENANT, "gateway-ca"))

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
            client = await stack.enter_async_context(await connect(kubeconfig=str(tmp_path / f"{name}.kubeconfig")))
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
        adding = await made.berth(
            "tenant",
            "tenant",
            "add",
            TENANT,
            "--out",
            str(tmp_path / TENANT),
            "--kubeconfig",
            str(tmp_path / "infra.kubeconfig"),
        )
        assert await adding.process.wait() == 0, adding.lines
        yield made
        await made.close()


class Crew:
    """One process of each role; whoever dies is replaced."""

    def __init__(self, stage: Processes) -> None:
        self.stage = stage
        self.members: dict[str, Process] = {}

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
