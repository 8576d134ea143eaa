"""`python -m bench.fairness`: one loud tenant against a quiet one, through a real gateway.

The quiet tenant lists its rules, writes one, and changes a workload until the infra cluster has stored it, over and
over, well below its limits. Spells alone and beside the loud tenant take turns. The gateway has a core of its own in
both; the callers, which would be on other machines, share the rest, where the loud one gives way to the quiet one.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import sys
import tempfile
import time
from asyncio.subprocess import Process
from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Iterable, Iterator
from contextlib import AsyncExitStack, aclosing, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console

from app.devtools.clusters import definitions
from app.kube.client import KubeClient
from app.kube.resources import NAMESPACES
from app.kube.transport import connect
from app.tenancy.model import tenant_certificate_name
from app.tenancy.proto.universe.workload.v1 import workload_pb2_grpc
from app.wire import decode_json
from app.workloads.model import SYSTEM_NAMESPACE, TENANTS, WORKLOADS, tenant_namespace
from bench import companions_objects as objects
from bench import figures
from bench.companions_processes import Api, api_servers, running
from bench.fairness_calls import Calls, Pki, event
from bench.figures import Figure
from bench.rounds import MeasureError, Progress
from bench.servers import ROOT, is_ready
from bench.surroundings import free_port

QUIET, LOUD = "quiet", "loud"
ASKED = ("List", "Update", "event stored")
_PATIENCE = 60.0
_PAUSE = 0.02
"""Thirty calls a second are less than a tenant may make for long."""
AIMS = {50: 1.5, 99: 3.0}
"""By percentile."""
_GIVES_WAY, _LAST = 5, 19
"""Niceness: the quiet tenant's process gets a core as soon as it wants one, as on a machine of its own."""
_SETTLE = 1.0
_WARM_UP = 10
_Samples = dict[str, list[float]]


@dataclass(frozen=True, slots=True)
class Fairness:
    """Seconds of every sample by what was asked: alone, and beside the loud tenant.

    `loud` is what the loud tenant got.
    """

    alone: _Samples
    beside: _Samples
    loud: Counter[str]

    def ratio(self, what: str, percent: int) -> float:
        """Beside the loud tenant against alone."""
        return percentile(self.beside[what], percent) / percentile(self.alone[what], percent)

    def figures(self) -> list[Figure]:
        return [
            Figure(
                f"quiet tenant, {what}: beside a loud one / alone, p{percent}", self.ratio(what, percent), aim, "less"
            )
            for what in ASKED
            for percent, aim in AIMS.items()
        ]


def loud_line(found: Fairness) -> str:
    """What the loud tenant got."""
    return f"The loud tenant: {', '.join(f'{count:,} {what}' for what, count in sorted(found.loud.items()))}."


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

    async def spell(self, turns: int) -> _Samples:
        """Ask for each thing so many times, one after the other."""
        samples: _Samples = defaultdict(list)
        for _ in range(turns):
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


async def measure(directory: Path, progress: Progress, *, rounds: int = 4, turns: int = 50) -> Fairness:
    pki = Pki.make(directory / "pki", (QUIET, LOUD))
    first, *others = sorted(os.sched_getaffinity(0))
    async with AsyncExitStack() as stack:
        stack.enter_context(_on(others or [first]))
        client, port = await stack.enter_async_context(_gateway(directory, pki, cores=[first]))
        loud = await stack.enter_async_context(_loud(pki, port, directory))
        quiet = await stack.enter_async_context(_quiet(client, pki, port))
        await quiet.spell(_WARM_UP)
        found = Fairness(defaultdict(list), defaultdict(list), Counter())
        for number in range(rounds):
            progress(f"fairness: round {number + 1} of {rounds}: alone, beside the loud tenant")
            _add(found.alone, await quiet.spell(turns))
            found.loud.update(await _beside(loud, quiet, found.beside, turns))
        return found


@contextlib.contextmanager
def _on(cores: Iterable[int]) -> Iterator[None]:
    """What is started meanwhile runs on these cores, and so does this thread."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, cores)
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


def _give_way(pid: int, niceness: int) -> None:
    """Let other processes of the same cores run first."""
    for thread in Path(f"/proc/{pid}/task").iterdir():
        os.setpriority(os.PRIO_PROCESS, int(thread.name), niceness)


async def _beside(loud: Process, quiet: _Quiet, samples: _Samples, turns: int) -> dict[str, int]:
    """A spell while the loud tenant is at work; the result is what it got."""
    assert loud.stdin is not None, "it was started with a pipe"
    assert loud.stdout is not None, "it was started with a pipe"
    try:
        loud.stdin.write(b"go\n")
        async with asyncio.timeout(_PATIENCE):
            json.loads(await loud.stdout.readline())
        await asyncio.sleep(_SETTLE)
        _add(samples, await quiet.spell(turns))
        loud.stdin.write(b"stop\n")
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


@asynccontextmanager
async def _gateway(directory: Path, pki: Pki, *, cores: list[int]) -> AsyncIterator[tuple[KubeClient, int]]:
    """A client of its API server, and its port."""
    with api_servers(directory, ["gateway"]) as (api,):
        for pid in api.pids:
            _give_way(pid, _GIVES_WAY)
        async with await connect(kubeconfig=str(api.kubeconfig)) as client:
            await _prepare(client)
            port, health = free_port(), free_port()
            with contextlib.ExitStack() as stack:
                with _on(cores):
                    command = _command(api, pki, port, health)
                    stack.enter_context(running("gateway", command, directory, ready=lambda: is_ready(health)))
                yield client, port


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
            _give_way(process.pid, _LAST)
            yield process
        finally:
            if process.returncode is None:
                process.terminate()
            await process.wait()


def main() -> int:
    console = Console()
    with tempfile.TemporaryDirectory(prefix="berth-bench-") as directory:
        found = asyncio.run(measure(Path(directory) / "fairness", console.print))
    figures.show("A loud tenant", found.figures(), console)
    console.print(loud_line(found))
    return 0


if __name__ == "__main__":
    sys.exit(main())
