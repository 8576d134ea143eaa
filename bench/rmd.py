"""`python -m bench.rmd`: how long the controller takes for reservations at daemons of RMD, against a bare client.

Each node has a stand-in daemon; each RmdWorkload asks for one core of one node, as those of the node agent do. The time
of the controller begins when its caches are full. It ends when the daemons hold everything, and again when every
RmdWorkload is Ready. The bare client sends the same POSTs to daemons that hold nothing: one after the other to each, to
all at once, without a look at what they hold and without an API server.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import uvloop
from prometheus_client.parser import text_string_to_metric_families

from app.kube.client import KubeClient
from app.kube.conditions import condition
from app.kube.retry import every_item
from app.kube.transport import connect
from app.rmd.model import READY, RMD_WORKLOADS
from app.wire import JSON
from bench.companions_processes import Running, api_servers, controllers, running
from bench.rmd_load import Size, replay, seed
from bench.rounds import MeasureError
from bench.servers import metrics

_PATIENCE = 900.0


@dataclass(frozen=True, slots=True)
class Measured:
    """Seconds of the clock. `requests` are those of the controller to daemons, by method."""

    held: float
    ready: float
    bare: float
    requests: dict[str, int]


@dataclass(frozen=True, slots=True)
class Daemons:
    place: Path
    urls: list[str]

    @property
    def counts(self) -> dict[str, int]:
        """Of all requests, once they have ended."""
        found: dict[str, int] = json.loads((self.place / "counts.json").read_text())
        return found


@contextmanager
def daemons(place: Path, size: Size) -> Iterator[Daemons]:
    place.mkdir(parents=True)
    command = [sys.executable, "-m", "bench.rmd_daemons", "--place", str(place)]
    command += ["--count", str(size.nodes), "--cores", str(size.each)]
    urls = place / "urls.json"
    with running("daemons", command, place, ready=urls.exists):
        yield Daemons(place, json.loads(urls.read_text()))


async def all_held(size: Size, process: Running, health: int) -> float:
    """When (Unix seconds) the daemons held everything, as the controller's metrics show it."""
    begin = time.monotonic()
    while _held(await asyncio.to_thread(metrics, health)) < size.reservations:
        await _again(begin, process)
    return time.time()


async def all_ready(client: KubeClient, process: Running) -> float:
    """When (Unix seconds) every RmdWorkload was Ready."""
    begin = time.monotonic()
    while True:
        pages = every_item(lambda token: client.list_page(RMD_WORKLOADS, namespace="default", continue_token=token))
        states = [condition(one.get("status") or {}, READY).get("status") async for one in pages]
        if set(states) == {"True"}:
            return time.time()
        await _again(begin, process)


async def _again(begin: float, process: Running) -> None:
    if process.process.poll() is not None or time.monotonic() - begin > _PATIENCE:
        raise MeasureError(f"not all are reserved:\n{process.tail()}")
    await asyncio.sleep(0.1)


def _held(text: str) -> float:
    families = text_string_to_metric_families(text)
    samples = [one for family in families if family.name == "rmd_reservations" for one in family.samples]
    return sum(one.value for one in samples if one.labels["state"] == "held")


async def one_round(place: Path, size: Size) -> Measured:
    with daemons(place / "bare", size) as other:
        bare = await replay(other.urls, size)
    with api_servers(place, ["ours"]) as (api,), daemons(place / "daemons", size) as found:
        async with await connect(kubeconfig=str(api.kubeconfig)) as client:
            await seed(client, found.urls, size)
            with controllers(api, place, "rmd", workers=size.workers) as (process, health):
                held = await all_held(size, process, health)
                ready = await all_ready(client, process)
                begin = process.said(msg="controller starts", controller="rmd-nodes")
    return Measured(held - begin, ready - begin, bare, found.counts)


async def measure(place: Path, size: Size) -> list[Measured]:
    return [await one_round(place / f"round-{number}", size) for number in range(size.rounds)]


def summary(rounds: list[Measured], size: Size) -> JSON:
    asked = sum(sum(one.requests.values()) for one in rounds)
    return {
        "nodes": size.nodes,
        "reservations": size.reservations,
        "reservations a second, held / bare client": round(statistics.median(one.bare / one.held for one in rounds), 3),
        "reservations a second, Ready / bare client": round(
            statistics.median(one.bare / one.ready for one in rounds), 3
        ),
        "requests to daemons for each reservation": round(asked / len(rounds) / size.reservations, 3),
        "requests by method": [one.requests for one in rounds],
        "seconds until held": [round(one.held, 2) for one in rounds],
        "seconds until Ready": [round(one.ready, 2) for one in rounds],
        "seconds of the bare client": [round(one.bare, 2) for one in rounds],
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    default = Size()
    parser.add_argument("--nodes", type=int, default=default.nodes)
    parser.add_argument("--each", type=int, default=default.each, help="RmdWorkloads for each node")
    parser.add_argument("--rounds", type=int, default=default.rounds)
    given = parser.parse_args()
    size = Size(nodes=given.nodes, each=given.each, rounds=given.rounds)
    with tempfile.TemporaryDirectory() as place:
        rounds = uvloop.run(measure(Path(place), size))
    print(json.dumps(summary(rounds, size), indent=1))


if __name__ == "__main__":
    main()
