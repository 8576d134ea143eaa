"""`python -m bench.companions`: how long the controller takes to make all companions, against a bare client.

Both have an API server of their own with the same content, the same Pods to create and as many requests at a time. The
time of the controller begins when its caches are full (when it could create the first) and ends when exactly the
companions that should exist exist; a run in which they are others than the bare client's is an error.
"""

from __future__ import annotations

import asyncio
import json
import statistics
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from app.kube.client import KubeClient
from app.kube.resources import PODS
from app.kube.transport import connect
from app.wire import JSON
from bench import companions_objects as objects
from bench import companions_seeding as seeding
from bench.companions_processes import Api, Running, api_servers, controller
from bench.rounds import MeasureError, Progress
from bench.servers import ROOT

_PATIENCE = 900.0
_SHORTEST_LOOK, _LONGEST_LOOK = 0.02, 0.5
_STATUS_LOOK = 1.0


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
    """One round. Seconds of the clock but for `…_cpu`; `synced`: from full caches on, `started`: from its start on.

    CPU seconds are those of the client and its API server together.
    """

    synced: float
    started: float
    statuses: float
    cpu: float
    bare: float
    bare_cpu: float
    resident_mib: float

    @property
    def ratio(self) -> float:
        return self.bare / self.synced

    @property
    def economy(self) -> float:
        return self.bare_cpu / self.cpu if self.cpu else 0.0

    @property
    def favor(self) -> float:
        """How much more CPU a second the controller's side got than the bare client's; 1 on a machine of its own."""
        return (self.cpu / self.synced) / (self.bare_cpu / self.bare) if self.bare_cpu else 1.0


@dataclass(frozen=True, slots=True)
class Convergence:
    """All rounds; `empty_mib` is what a controller has resident that knows the same rules and no workload."""

    size: Size
    rounds: tuple[Converged, ...]
    empty_mib: float

    @property
    def ratio(self) -> float:
        return statistics.median(one.ratio for one in self.rounds)

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
    empty = await _empty(directory / "empty", rules, size, assets)
    rounds = []
    for number in range(size.rounds):
        place = directory / f"round-{number}"
        with api_servers(place, ["ours", "bare"], assets=assets) as (ours, bare):
            progress(f"companions: {size.workloads} workloads and {size.rules} rules into two API servers")
            for api in (ours, bare):
                async with await connect(kubeconfig=str(api.kubeconfig)) as client:
                    await seeding.seed(client, workloads=workloads, rules=rules)
            rounds.append(await _round(ours, bare, place, pods, size, progress, bare_first=bool(number % 2)))
    return Convergence(size, tuple(rounds), empty)


async def _round(
    ours: Api, bare: Api, place: Path, pods: Sequence[JSON], size: Size, progress: Progress, *, bare_first: bool
) -> Converged:
    plain = await _bare(bare, place, pods, size, progress) if bare_first else None
    progress(f"companions: the controller makes {len(pods)}")
    async with await connect(kubeconfig=str(ours.kubeconfig)) as client:
        used = ours.cpu
        with controller(ours, place, workers=size.workers) as process:
            own = process.cpu
            end = await _count_reached(client, len(pods), process)
            cpu = process.cpu - own + ours.cpu - used
            begin = process.said(msg="controller starts", controller="companions")
            await _check(client, pods)
            progress("companions: their statuses")
            told = await _statuses_written(client, size, process)
            memory = process.resident_mib
    if plain is None:
        plain = await _bare(bare, place, pods, size, progress)
    return Converged(
        synced=end - begin,
        started=end - process.started,
        statuses=told - begin,
        cpu=cpu,
        bare=plain["seconds"],
        bare_cpu=plain["cpu"],
        resident_mib=memory,
    )


async def _bare(api: Api, place: Path, pods: Sequence[JSON], size: Size, progress: Progress) -> dict[str, float]:
    progress(f"companions: the bare client makes {len(pods)}")
    path = place / "pods.json"
    path.write_text(json.dumps(pods))
    command = ["-m", "bench.companions_bare", "--kubeconfig", str(api.kubeconfig), "--pods", str(path)]
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
    async with await connect(kubeconfig=str(api.kubeconfig)) as client:
        await _check(client, pods)
    return {**found, "cpu": found["cpu"] + api.cpu - used}


async def _empty(directory: Path, rules: Sequence[JSON], size: Size, assets: Path | None) -> float:
    with api_servers(directory, ["empty"], assets=assets) as (api,):
        async with await connect(kubeconfig=str(api.kubeconfig)) as client:
            await seeding.seed(client, workloads=[], rules=rules)
        with controller(api, directory, workers=size.workers) as process:
            await asyncio.sleep(2.0)  # the statuses of the rules are written by then
            return process.resident_mib


async def _count_reached(client: KubeClient, wanted: int, process: Running) -> float:
    """When (Unix seconds) so many Pods existed; looks ever more often toward the end."""
    begin, first = time.monotonic(), await seeding.count(client)
    while (present := await seeding.count(client)) < wanted:
        passed = time.monotonic() - begin
        if process.process.poll() is not None or passed > _PATIENCE:
            raise MeasureError(f"{present} of {wanted} companions after {passed:.0f} s:\n{process.tail()}")
        rate = (present - first) / passed if passed > 1 else 0
        remaining = (wanted - present) / rate if rate else 1.0
        await asyncio.sleep(min(_LONGEST_LOOK, max(_SHORTEST_LOOK, remaining / 8)))
    return time.time()


async def _check(client: KubeClient, pods: Sequence[JSON]) -> None:
    """Exactly these Pods exist, with these annotations and this spec as far as it was given."""
    found = {pod["metadata"]["name"]: pod for pod in await seeding.everything(client, PODS)}
    wanted = {pod["metadata"]["name"]: pod for pod in pods}
    if found.keys() != wanted.keys():
        raise MeasureError(f"Pods are missing or too many: {sorted(found.keys() ^ wanted.keys())[:5]}")
    for name, pod in wanted.items():
        there = found[name]
        same = all(there["metadata"].get(part) == pod["metadata"][part] for part in ("labels", "annotations"))
        if not same or there["spec"].get("affinity") != pod["spec"].get("affinity"):
            raise MeasureError(f"Pod {name} is not what it should be")


async def _statuses_written(client: KubeClient, size: Size, process: Running) -> float:
    begin = time.monotonic()
    while not await seeding.all_statuses(client, workloads=size.workloads, rules=size.rules):
        if process.process.poll() is not None or time.monotonic() - begin > _PATIENCE:
            raise MeasureError(f"statuses are not written:\n{process.tail()}")
        await asyncio.sleep(_STATUS_LOOK)
    return time.time()
