"""What one event costs the real controller where there are many rules, against where there are few.

Two controllers, each with an API server of its own, stand by; a label of a workload changes at one, then at the other,
and each change is timed until the annotations of all its companions show it. The same number of rules matches in both.
"""

from __future__ import annotations

import asyncio
import statistics
import time
from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from app.kube.client import KubeClient
from app.kube.resources import PODS
from app.kube.transport import connect
from app.wire import decode_json
from app.workloads.model import COMPANION, WORKLOADS
from bench import companions_objects as objects
from bench import companions_seeding as seeding
from bench import matching
from bench.companions_processes import Api, Running, api_servers, controller
from bench.rounds import MeasureError, Progress

FEW, MANY = matching.FEW, matching.MANY
_PATIENCE = 60.0
_WARM_UP = 10


@dataclass(frozen=True, slots=True)
class Events:
    """Seconds of each sample, in pairs, and the CPU seconds that the controllers took for all; `pure`: no server."""

    few: tuple[float, ...]
    many: tuple[float, ...]
    few_cpu: float
    many_cpu: float
    pure: matching.Costs

    @property
    def ratio(self) -> float:
        return statistics.median(self.many) / statistics.median(self.few)

    @property
    def economy(self) -> float:
        """The ratio of CPU seconds; 0 where they are too few to tell."""
        return self.many_cpu / self.few_cpu if self.few_cpu else 0.0


class _Stand:
    """One API server with its controller, and a watch that shows what the companions say."""

    def __init__(self, client: KubeClient, process: Running, rules: int) -> None:
        self._client = client
        self._rules = rules
        self.process = process
        self._shown: dict[str, str] = {}
        self._changed = asyncio.Event()
        self._version = 1

    async def watch(self, version: str) -> None:
        lines: Any = self._client.watch(PODS, resource_version=version, label_selector=COMPANION)
        async with aclosing(lines) as stream:
            async for line in stream:
                if line and (event := decode_json(line))["type"] in ("ADDED", "MODIFIED"):
                    metadata = event["object"]["metadata"]
                    self._shown[metadata["name"]] = metadata["annotations"].get(objects.INJECTED, "")
                    self._changed.set()

    async def sample(self, number: int) -> float:
        """Change one workload; seconds until its companions show it."""
        self._version += 1
        value, spec = str(self._version), objects.workload(number, rules=self._rules)["spec"]
        labels = {objects.VERSION_LABEL: value}
        names = {name for name in self._shown if name.endswith(spec["metadata"]["id"])}
        body = {"spec": {"state": {"extra": {"labels": labels}}}}
        name = objects.workload(number, rules=self._rules)["metadata"]["name"]
        begin = time.perf_counter()
        await self._client.patch(WORKLOADS, name, body, patch_type="merge", namespace=objects.NAMESPACE)
        await self._until(lambda: len(names) == objects.MATCHES and all(self._shown[one] == value for one in names))
        return time.perf_counter() - begin

    async def complete(self, companions: int) -> None:
        await self._until(lambda: len(self._shown) == companions)

    async def _until(self, condition: Any) -> None:
        try:
            async with asyncio.timeout(_PATIENCE):
                while not condition():
                    self._changed.clear()
                    await self._changed.wait()
        except TimeoutError:
            raise MeasureError(f"companions did not follow their workload:\n{self.process.tail()}") from None


async def measure(
    directory: Path,
    progress: Progress,
    *,
    workloads: int,
    samples: int,
    workers: int,
    crowd: int = matching.CROWD,
    assets: Path | None = None,
) -> Events:
    for name in ("few", "many"):
        await asyncio.to_thread((directory / name).mkdir, parents=True)
    progress(f"events: {workloads} workloads with {FEW} rules and with {MANY}, {samples} changes each")
    with api_servers(directory, ["few", "many"], assets=assets) as (first, second):
        async with (
            _standing(first, directory / "few", FEW, workloads, workers) as few,
            _standing(second, directory / "many", MANY, workloads, workers) as many,
        ):
            pairs = []
            used = 0.0, 0.0
            for number in range(-_WARM_UP, samples):
                if number == 0:
                    used = few.process.cpu, many.process.cpu
                at = number % workloads
                if number % 2:
                    pairs.append((await few.sample(at), await many.sample(at)))
                else:
                    later = await many.sample(at)
                    pairs.append((await few.sample(at), later))
            cpu = few.process.cpu - used[0], many.process.cpu - used[1]
    kept = pairs[_WARM_UP:]
    progress("events: the matcher alone")
    pure = matching.measure(workloads=max(200, workloads), crowd=crowd)
    return Events(tuple(one for one, _ in kept), tuple(other for _, other in kept), *cpu, pure=pure)


@asynccontextmanager
async def _standing(api: Api, directory: Path, rules: int, workloads: int, workers: int) -> AsyncIterator[_Stand]:
    async with await connect(kubeconfig=str(api.kubeconfig)) as client:
        await seeding.seed(
            client,
            workloads=[objects.workload(number, rules=rules) for number in range(workloads)],
            rules=[objects.rule(number, rules=rules) for number in range(rules)],
        )
        page = await client.list_page(PODS, limit=1)
        with controller(api, directory, workers=workers) as process:
            stand = _Stand(client, process, rules)
            watching = asyncio.create_task(stand.watch(page.resource_version))
            try:
                await stand.complete(workloads * objects.MATCHES)
                while not await seeding.all_statuses(client, workloads=workloads, rules=rules):  # noqa: ASYNC110 - asks a server
                    await asyncio.sleep(0.5)
                yield stand
            finally:
                watching.cancel()
                await asyncio.gather(watching, return_exceptions=True)
