"""One loud tenant against a quiet one, through a real gateway: what the quiet one's latency is with it and without.

The quiet tenant lists its rules, writes one, and changes a workload until the infra cluster has stored it, over and
over, well below its limits. Three kinds of spells take turns: alone, beside the loud tenant, and with an equally loud
one at another gateway of the same machine, which shows what is the machine's share and not the gateway's.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from asyncio.subprocess import Process
from collections import Counter, defaultdict
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, aclosing, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from app.devtools.clusters import definitions
from app.kube.client import KubeClient
from app.kube.resources import NAMESPACES
from app.kube.transport import connect
from app.tenancy.model import tenant_certificate_name
from app.tenancy.proto.universe.workload.v1 import workload_pb2_grpc
from app.wire import decode_json
from app.workloads.model import SYSTEM_NAMESPACE, TENANTS, WORKLOADS, tenant_namespace
from bench import companions_objects as objects
from bench.companions_processes import Api, api_servers, running
from bench.fairness_calls import Calls, Pki, event
from bench.rounds import MeasureError, Progress
from bench.servers import ROOT, is_ready
from bench.surroundings import free_port

QUIET, LOUD = "quiet", "loud"
ASKED = ("List", "Update", "event stored")
_PATIENCE = 60.0
_PAUSE = 0.05
_SETTLE = 1.0
_Samples = dict[str, list[float]]


@dataclass(frozen=True, slots=True)
class Fairness:
    """Seconds of every sample by what was asked: alone, beside the loud tenant, and with it at another gateway.

    `loud` is what the loud tenant got beside the quiet one.
    """

    alone: _Samples
    beside: _Samples
    elsewhere: _Samples
    loud: Counter[str]

    def ratio(self, what: str, percent: int) -> float:
        """Beside the loud tenant against alone."""
        return percentile(self.beside[what], percent) / percentile(self.alone[what], percent)

    def share(self, what: str, percent: int) -> float:
        """Beside the loud tenant against the loud tenant at another gateway: the gateway's own share."""
        return percentile(self.beside[what], percent) / percentile(self.elsewhere[what], percent)


def percentile(samples: list[float], percent: int) -> float:
    return sorted(samples)[min(len(samples) - 1, len(samples) * percent // 100)]


class _Quiet:
    def __init__(self, calls: Calls, stream: Any, client: KubeClient) -> None:
        self._calls = calls
        self._stream = stream
        self._client = client
        self._version = 0
        self._stored: dict[str, str] = {}
        self._changed = asyncio.Event()

    async def watch(self, version: str) -> None:
        """Learns what the infra cluster has stored."""
        namespace = tenant_namespace(QUIET)
        lines: Any = self._client.watch(WORKLOADS, resource_version=version, namespace=namespace)
        async with aclosing(lines) as found:
            async for line in found:
                if line and (obj := decode_json(line)["object"]).get("spec"):
                    labels = obj["spec"]["state"]["extra"]["labels"]
                    self._stored[obj["metadata"]["name"]] = labels[objects.VERSION_LABEL]
                    self._changed.set()

    async def spell(self, seconds: float) -> _Samples:
        samples: _Samples = defaultdict(list)
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            self._version += 1
            for what in ASKED:
                begin = time.perf_counter()
                await self._ask(what)
                samples[what].append(time.perf_counter() - begin)
                await asyncio.sleep(_PAUSE)
        return samples

    async def _ask(self, what: str) -> None:
        if what == "List":
            await self._calls.list_rules()
        elif what == "Update":
            await self._calls.update_rule("quiet", self._version)
        else:
            await self._event()

    async def _event(self) -> None:
        number = self._version % 10
        name = objects.workload(number, rules=2)["metadata"]["name"]
        await self._stream.write(event(number, self._version))
        async with asyncio.timeout(_PATIENCE):
            while self._stored.get(name) != str(self._version):
                self._changed.clear()
                await self._changed.wait()


async def measure(directory: Path, progress: Progress, *, rounds: int = 4, seconds: float = 4.0) -> Fairness:
    pki = Pki.make(directory / "pki", (QUIET, LOUD))
    async with AsyncExitStack() as stack:
        here = await stack.enter_async_context(_gateway(directory / "here", pki))
        there = await stack.enter_async_context(_gateway(directory / "there", pki))
        beside = await stack.enter_async_context(_loud(pki, here.port, directory / "here"))
        elsewhere = await stack.enter_async_context(_loud(pki, there.port, directory / "there"))
        quiet = await stack.enter_async_context(_quiet(here.client, pki, here.port))
        await quiet.spell(_SETTLE)
        found = Fairness(defaultdict(list), defaultdict(list), defaultdict(list), Counter())
        for number in range(rounds):
            progress(f"fairness: round {number + 1} of {rounds}: alone, beside the loud tenant, with it elsewhere")
            _add(found.alone, await quiet.spell(seconds))
            found.loud.update(await _beside(beside, quiet, found.beside, seconds))
            await _beside(elsewhere, quiet, found.elsewhere, seconds)
        return found


async def _beside(loud: Process, quiet: _Quiet, samples: _Samples, seconds: float) -> dict[str, int]:
    """A spell while the loud tenant is at work; the result is what it got."""
    assert loud.stdin is not None, "it was started with a pipe"
    assert loud.stdout is not None, "it was started with a pipe"
    loud.stdin.write(b"go\n")
    await asyncio.sleep(_SETTLE)
    _add(samples, await quiet.spell(seconds))
    loud.stdin.write(b"stop\n")
    try:
        async with asyncio.timeout(_PATIENCE):
            got: dict[str, int] = json.loads(await loud.stdout.readline())
    except (TimeoutError, ValueError):
        raise MeasureError("the loud tenant has died") from None
    await asyncio.sleep(_SETTLE)
    return got


def _add(all_samples: _Samples, more: _Samples) -> None:
    for what, found in more.items():
        all_samples[what] += found


async def _prepare(client: KubeClient) -> None:
    await definitions.install(client, definitions.INFRA)
    for namespace in (SYSTEM_NAMESPACE, *map(tenant_namespace, (QUIET, LOUD))):
        await client.create(NAMESPACES, {"metadata": {"name": namespace}})
    for tenant in (QUIET, LOUD):
        body = {
            "apiVersion": TENANTS.api_version,
            "kind": TENANTS.kind,
            "metadata": {"name": tenant},
            "spec": {"identity": {"names": [tenant_certificate_name(tenant)]}},
        }
        await client.create(TENANTS, body)


@dataclass(frozen=True, slots=True)
class _Gateway:
    """A gateway with an API server of its own; `client` is one of that API server."""

    client: KubeClient
    port: int


@asynccontextmanager
async def _gateway(directory: Path, pki: Pki) -> AsyncIterator[_Gateway]:
    with api_servers(directory, ["gateway"]) as (api,):
        async with await connect(kubeconfig=str(api.kubeconfig)) as client:
            await _prepare(client)
            port, health = free_port(), free_port()
            with running("gateway", _command(api, pki, port, health), directory, ready=lambda: is_ready(health)):
                yield _Gateway(client, port)


def _command(api: Api, pki: Pki, port: int, health: int) -> list[str]:
    files = pki.directory
    command = [sys.executable, "-m", "app", "gateway", "--kubeconfig", str(api.kubeconfig)]
    command += ["--bind-address", "127.0.0.1", "--port", str(port), "--health-check-port", str(health)]
    command += ["--tls-cert-file", str(files / "tls.crt"), "--tls-private-key-file", str(files / "tls.key")]
    return [*command, "--client-ca", str(files / "ca.crt"), "--drain-seconds", "0"]


@asynccontextmanager
async def _quiet(client: KubeClient, pki: Pki, port: int) -> AsyncIterator[_Quiet]:
    page = await client.list_page(WORKLOADS, limit=1)
    async with pki.channel(port, QUIET) as channel:
        stub: Any = workload_pb2_grpc.WorkloadServiceStub(channel)
        stream = stub.WorkloadStream()
        quiet = _Quiet(Calls(channel), stream, client)
        watching = asyncio.create_task(quiet.watch(page.resource_version))
        try:
            yield quiet
        finally:
            stream.cancel()
            watching.cancel()
            await asyncio.gather(watching, return_exceptions=True)


@asynccontextmanager
async def _loud(pki: Pki, port: int, directory: Path) -> AsyncIterator[Process]:
    command = ["-m", "bench.fairness_loud", "--pki", str(pki.directory), "--tenant", LOUD, "--port", str(port)]
    with (directory / "loud.log").open("wb") as log:
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            *command,
            cwd=ROOT,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=log,
        )
        try:
            assert process.stdout is not None, "it was started with a pipe"
            await process.stdout.readline()
            yield process
        finally:
            if process.returncode is None:
                process.terminate()
            await process.wait()
