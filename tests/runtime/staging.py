"""Roles as processes: what they need to run, and what is seen of them from outside."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import sys
import urllib.error
import urllib.request
from collections.abc import AsyncIterator, Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from prometheus_client.parser import text_string_to_metric_families

from app.devtools.sandbox.server import Cluster
from app.kube.resources import CUSTOM_RESOURCE_DEFINITIONS, NAMESPACES
from app.kube.transport import AioKubeClient, connect
from app.tenancy.authority.ensuring import ensure_authority
from app.tenancy.calling import Caller
from app.tenancy.tenants.bundles import issue_bundle
from app.tenancy.tenants.changes import create_tenant
from tests.patience import PATIENCE
from tests.tenancy.conftest import definitions


class Process:
    """One `berth` process, its log, and its health port."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self.process = process
        self.lines: list[str] = []
        self._reading = asyncio.create_task(self._read())

    async def _read(self) -> None:
        assert self.process.stderr is not None
        async for line in self.process.stderr:
            self.lines.append(line.decode())

    @property
    def events(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.lines if line.startswith("{")]

    def told(self, message: str) -> dict[str, Any] | None:
        return next((event for event in self.events if event["msg"] == message), None)

    async def get(self, path: str) -> tuple[int, str]:
        await until(lambda: self.process.returncode is not None or self.told("listening"))
        event = self.told("listening")
        assert event is not None, self.lines
        return await asyncio.to_thread(_get, event["health"] + path)

    async def until_ready(self) -> None:
        async def ready() -> bool:
            assert self.process.returncode is None, self.lines
            return (await self.get("/readyz"))[0] == 200

        await until(ready)

    async def series(self) -> set[tuple[str, tuple[tuple[str, str], ...]]]:
        """Names and labels of all that is counted, but what every Python process counts."""
        status, text = await self.get("/metrics")
        while status != 200:  # the health server is about to start
            await asyncio.sleep(0.02)
            status, text = await self.get("/metrics")
        families = text_string_to_metric_families(text)
        return {
            (sample.name, tuple(sorted(sample.labels.items())))
            for family in families
            for sample in family.samples
            if not sample.name.startswith(("python_", "process_"))
        }

    async def values(self) -> dict[tuple[str, str], float]:
        """Gauges by name and kind ("" where they have none)."""
        _, text = await self.get("/metrics")
        families = [family for family in text_string_to_metric_families(text) if family.type == "gauge"]
        return {
            (sample.name, sample.labels.get("kind", "")): sample.value
            for family in families
            for sample in family.samples
        }

    async def end(self, number: int = signal.SIGTERM) -> int:
        with contextlib.suppress(ProcessLookupError):
            self.process.send_signal(number)
        status = await asyncio.wait_for(self.process.wait(), PATIENCE)
        await self._reading
        return status


def _get(url: str) -> tuple[int, str]:
    try:
        with urllib.request.urlopen(url, timeout=PATIENCE) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read().decode()
    except OSError:
        return 0, ""


async def until(condition: Callable[[], Any]) -> None:
    async with asyncio.timeout(PATIENCE):
        while True:
            held = condition()
            if asyncio.iscoroutine(held):
                held = await held
            if held:
                return
            await asyncio.sleep(0.05)


class Stage:
    """One cluster that is both infra and tenant cluster, with tenant1 in it, and files for everybody."""

    def __init__(self, folder: Path, cluster: Cluster, client: AioKubeClient) -> None:
        self.folder, self.cluster, self.client = folder, cluster, client
        self.started: list[Process] = []

    async def berth(self, role: str, *flags: str) -> Process:
        common = ("--bind-address=127.0.0.1", "--health-check-port=0", f"--kubeconfig={self.folder / 'kubeconfig'}")
        environment = {k: v for k, v in os.environ.items() if not k.startswith("BERTH_") and k != "NAMESPACE"}
        made = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "app", *role.split(), *common, *flags),
            stderr=asyncio.subprocess.PIPE,
            env=environment,
        )
        self.started.append(Process(made))
        return self.started[-1]

    def tls(self, name: str, ca: str) -> tuple[str, ...]:
        folder = self.folder / name
        files = (("tls-cert-file", "tls.crt"), ("tls-private-key-file", "tls.key"), (ca, "ca.crt"))
        return tuple(f"--{flag}={folder / file}" for flag, file in files)

    async def gateway(self, *flags: str) -> tuple[Process, str]:
        """A gateway that is ready, and its address."""
        process = await self.berth("gateway", "--port=0", *self.tls("gateway", "client-ca"), *flags)
        await process.until_ready()
        event = process.told("gateway listens")
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
        async with await connect(kubeconfig=str(folder / "kubeconfig")) as client:
            for definition in definitions():
                await client.create(CUSTOM_RESOURCE_DEFINITIONS, definition)
            for name in ("universe", "tenant-tenant1"):
                await client.create(NAMESPACES, {"metadata": {"name": name, "labels": {"berth.dev/tenant": "tenant1"}}})
            now = datetime.now(UTC)
            made = await ensure_authority(client, now=now)
            bundle = issue_bundle(made.authority, "tenant1", now=now, days=30)
            await create_tenant(client, "tenant1", names=[bundle.name], bundle=bundle, hosts=None)
            for name, files in (("gateway", made.serving), ("admin", made.admin), ("tenant1", bundle.files)):
                (folder / name).mkdir()
                for file, content in files.items():
                    (folder / name / file).write_bytes(content)
            found = Stage(folder, cluster, client)
            try:
                yield found
            finally:
                for process in found.started:
                    await process.end(signal.SIGKILL)
