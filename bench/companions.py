"""How long the controller takes to write all companions and all statuses, against a bare client.

Both have an API server of their own with the same content, the same writes to make and as many requests at a time. The
time of the controller ends when exactly the companions that should exist exist, and when every status says so. A run in
which they are others than the bare client's is an error.
"""

from __future__ import annotations

import asyncio
import json
import statistics
import sys
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from app.kube.client import KubeClient
from app.kube.transport import connect
from app.wire import JSON
from bench import companions_objects as objects
from bench import companions_seeding as seeding
from bench.companions_checks import Writes
from bench.companions_processes import Api, Running, api_servers, controller
from bench.rounds import MeasureError, Progress
from bench.servers import ROOT

_PATIENCE = 900.0
_SHORTEST_LOOK, _LONGEST_LOOK = 0.02, 0.5


@dataclass(frozen=True, slots=True)
class Size:
    """How much one run has in it; `workers` is the controller's default of reconciles at a time."""

    workloads: int = 5000
    rules: int = 200
    workers: int = 16
    rounds: int = 3

    @property
    def companions(self) -> int:
        return self.workloads * objects.MATCHES


@dataclass(frozen=True, slots=True)
class Converged:
    """One round. Seconds of the clock: from full caches on, but for `launch`, the time from the start until then.

    `companions`: until all of these exist; `whole`: with the statuses. CPU seconds are those of the client and its API
    server together, the launch included. `writes` is how many changes the controller made for each of the bare client.
    """

    launch: float
    companions: float
    whole: float
    cpu: float
    bare_companions: float
    bare_whole: float
    bare_cpu: float
    writes: float
    resident_mib: float

    @property
    def ratio(self) -> float:
        return self.bare_whole / self.whole

    @property
    def from_start(self) -> float:
        return self.bare_whole / (self.launch + self.whole)

    @property
    def economy(self) -> float:
        return self.bare_cpu / self.cpu if self.cpu else 0.0

    @property
    def favor(self) -> float:
        """How much more CPU a second the controller's side got than the bare client's; 1 on a machine of its own."""
        return (self.cpu / (self.launch + self.whole)) / (self.bare_cpu / self.bare_whole) if self.bare_cpu else 1.0


@dataclass(frozen=True, slots=True)
class Convergence:
    """All rounds; `empty_mib` is what a controller has resident that knows the same rules and no workload."""

    size: Size
    rounds: tuple[Converged, ...]
    empty_mib: float

    @property
    def resident_bytes(self) -> float:
        """Resident memory for each workload, its companions and the heap's gaps included."""
        most = statistics.median(one.resident_mib for one in self.rounds)
        return (most - self.empty_mib) * 1024 * 1024 / self.size.workloads


async def measure(directory: Path, size: Size, progress: Progress, *, assets: Path | None = None) -> Convergence:
    """Every round on fresh API servers, and the other one first each time."""
    rules = [objects.rule(number, rules=size.rules) for number in range(size.rules)]
    workloads = [objects.workload(number, rules=size.rules) for number in range(size.workloads)]
    pods = objects.companions(workloads, rules)
    if len(pods) != size.companions:
        raise MeasureError(f"{len(pods)} companions are wanted, not {size.companions}")
    writes = Writes(pods, objects.statuses(workloads, rules, pods))
    empty = await _empty(directory / "empty", rules, size, assets)
    rounds = []
    for number in range(size.rounds):
        place = directory / f"round-{number}"
        with api_servers(place, ["ours", "bare"], assets=assets) as (ours, bare):
            progress(f"companions: {size.workloads} workloads and {size.rules} rules into two API servers")
            for api in (ours, bare):
                async with await connect(kubeconfig=str(api.kubeconfig)) as client:
                    await seeding.seed(client, workloads=workloads, rules=rules)
            rounds.append(await _round(ours, bare, place, writes, size, progress, bare_first=bool(number % 2)))
    return Convergence(size, tuple(rounds), empty)


async def _round(
    ours: Api, bare: Api, place: Path, writes: Writes, size: Size, progress: Progress, *, bare_first: bool
) -> Converged:
    plain = await _bare(bare, place, writes, size, progress) if bare_first else None
    progress(f"companions: the controller makes {len(writes.pods)}")
    async with await connect(kubeconfig=str(ours.kubeconfig)) as client:
        used, before = ours.cpu, await seeding.version(client)
        with controller(ours, place, workers=size.workers) as process:
            made = await _complete(client, before + len(writes.pods), process, writes.created)
            end = await _complete(client, before + len(writes), process, writes.told)
            cpu = process.cpu + ours.cpu - used
            begin = process.said(msg="controller starts", controller="companions")
            await writes.check(client)
            memory, changes = process.resident_mib, await seeding.version(client) - before
    if plain is None:
        plain = await _bare(bare, place, writes, size, progress)
    return Converged(
        launch=begin - process.started,
        companions=made - begin,
        whole=end - begin,
        cpu=cpu,
        bare_companions=plain["companions"],
        bare_whole=plain["whole"],
        bare_cpu=plain["cpu"],
        writes=changes / len(writes),
        resident_mib=memory,
    )


async def _bare(api: Api, place: Path, writes: Writes, size: Size, progress: Progress) -> dict[str, float]:
    progress(f"companions: the bare client makes {len(writes.pods)}")
    path = place / "writes.json"
    path.write_text(json.dumps({"pods": writes.pods, "statuses": writes.statuses}))
    command = ["-m", "bench.companions_bare", "--kubeconfig", str(api.kubeconfig), "--writes", str(path)]
    used = api.cpu
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        *command,
        "--workers",
        str(size.workers),
        cwd=ROOT,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    output, errors = await process.communicate()
    if process.returncode != 0:
        raise MeasureError(f"the bare client failed: {errors.decode()[-2000:]}")
    found: dict[str, float] = json.loads(output)
    used = api.cpu - used
    async with await connect(kubeconfig=str(api.kubeconfig)) as client:
        await writes.check(client)
    return {**found, "cpu": found["cpu"] + used}


async def _empty(directory: Path, rules: Sequence[JSON], size: Size, assets: Path | None) -> float:
    with api_servers(directory, ["empty"], assets=assets) as (api,):
        async with await connect(kubeconfig=str(api.kubeconfig)) as client:
            await seeding.seed(client, workloads=[], rules=rules)
        with controller(api, directory, workers=size.workers) as process:
            await asyncio.sleep(2.0)  # the statuses of the rules are written by then
            return process.resident_mib


async def _complete(
    client: KubeClient, version: int, process: Running, complete: Callable[[KubeClient], Awaitable[bool]]
) -> float:
    """When (Unix seconds) it was complete, which is not looked at before the API server has this version.

    A look at the version costs the API server nearly nothing. Looks are more frequent toward the end.
    """
    begin, first = time.monotonic(), await seeding.version(client)
    while True:
        present, looked = await seeding.version(client), time.time()
        if present >= version and await complete(client):
            return looked
        passed = time.monotonic() - begin
        if process.process.poll() is not None or passed > _PATIENCE:
            raise MeasureError(f"{version - present} writes are missing after {passed:.0f} s:\n{process.tail()}")
        rate = (present - first) / passed if passed > 1 else 0
        remaining = (version - present) / rate if rate else 1.0
        await asyncio.sleep(min(_LONGEST_LOOK, max(_SHORTEST_LOOK, remaining / 8)))
