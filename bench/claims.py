"""`python -m bench.claims`: how long the controller takes to publish network data, against a bare client.

Both have an API server of their own with the same Pods, ResourceClaims, ResourceSlices and attachments. The time of the
controller begins when its caches are full and ends when every claim has its network data. The bare client then sends
the same applies, so many at a time, without a watch, a cache, a queue or a plan.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import uvloop
from prometheus_client.parser import text_string_to_metric_families

from app.claims.model import FIELD_MANAGER
from app.kube.client import KubeClient
from app.kube.resources import RESOURCE_CLAIMS
from app.kube.retry import every_item
from app.kube.transport import connect
from app.wire import JSON
from bench.appwrappers import at_a_time
from bench.claims_load import Size, seed
from bench.companions_processes import Running, api_servers, controllers
from bench.rounds import MeasureError
from bench.servers import metrics

_PATIENCE = 900.0


@dataclass(frozen=True, slots=True)
class Measured:
    """Seconds of the clock, and the writes of the controller."""

    ours: float
    bare: float
    writes: int

    @property
    def ratio(self) -> float:
        return self.bare / self.ours


async def all_published(size: Size, process: Running, health: int) -> tuple[float, int]:
    """When (Unix seconds) as many writes had been taken, and how many there were."""
    begin = time.monotonic()
    while (found := _written(await asyncio.to_thread(metrics, health))) < size.claims:
        if process.process.poll() is not None or time.monotonic() - begin > _PATIENCE:
            raise MeasureError(f"not all are published:\n{process.tail()}")
        await asyncio.sleep(0.1)
    return time.time(), found


def _written(text: str) -> int:
    families = text_string_to_metric_families(text)
    samples = [one for family in families if family.name == "claims_writes" for one in family.samples]
    return int(sum(one.value for one in samples if one.labels.get("outcome") == "applied"))


async def published(client: KubeClient) -> dict[str, list[JSON]]:
    """The entries of every claim."""
    pages = every_item(lambda token: client.list_page(RESOURCE_CLAIMS, namespace="default", continue_token=token))
    return {one["metadata"]["name"]: one["status"].get("devices") or [] async for one in pages}


async def replay(client: KubeClient, entries: dict[str, list[JSON]], size: Size) -> float:
    """Seconds in which the bare client sends the same applies."""
    pages = every_item(lambda token: client.list_page(RESOURCE_CLAIMS, namespace="default", continue_token=token))
    uids = {one["metadata"]["name"]: one["metadata"]["uid"] async for one in pages}

    async def write(job: JSON) -> None:
        name = job["name"]
        metadata = {"name": name, "namespace": "default", "uid": uids[name]}
        body = RESOURCE_CLAIMS.body(metadata, status={"devices": job["entries"]})
        await client.apply(
            RESOURCE_CLAIMS,
            name,
            body,
            namespace="default",
            field_manager=FIELD_MANAGER,
            force=False,
            subresource="status",
        )

    jobs: list[JSON] = [{"name": name, "entries": found} for name, found in entries.items()]
    begin = time.monotonic()
    await at_a_time(jobs, write, workers=size.workers)
    return time.monotonic() - begin


async def one_round(place: Path, size: Size) -> Measured:
    with api_servers(place, ["ours", "bare"]) as (ours, other):
        for api in (ours, other):
            async with await connect(kubeconfig=str(api.kubeconfig)) as client:
                await seed(client, size)
        async with await connect(kubeconfig=str(ours.kubeconfig)) as client:
            with controllers(ours, place, "claims", workers=size.workers) as (process, health):
                end, writes = await all_published(size, process, health)
                seconds = end - process.said(msg="controller starts", controller="claims")
                entries = await published(client)
        if not all(entries.values()):
            raise MeasureError("a claim has no network data")
        async with await connect(kubeconfig=str(other.kubeconfig)) as client:
            bare = await replay(client, entries, size)
    return Measured(seconds, bare, writes)


async def measure(place: Path, size: Size) -> list[Measured]:
    return [await one_round(place / f"round-{number}", size) for number in range(size.rounds)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    default = Size()
    parser.add_argument("--nodes", type=int, default=default.nodes)
    parser.add_argument("--each", type=int, default=default.each, help="Pods with a claim on each node")
    parser.add_argument("--rounds", type=int, default=default.rounds)
    given = parser.parse_args()
    size = Size(nodes=given.nodes, each=given.each, rounds=given.rounds)
    with tempfile.TemporaryDirectory() as place:
        rounds = uvloop.run(measure(Path(place), size))
    found = {
        "claims": size.claims,
        "bare client / controller": round(statistics.median(one.ratio for one in rounds), 3),
        "writes for each claim": [one.writes / size.claims for one in rounds],
        "controller, seconds": [round(one.ours, 2) for one in rounds],
        "bare client, seconds": [round(one.bare, 2) for one in rounds],
    }
    print(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
