"""The bare client, a process of its own: creates the Pods of a file, so many at a time, and does nothing else.

It has the client and the event loop of Berth's controller, and no watch, no cache and no queue but a list. What it
prints is JSON: the seconds from its first request to its last answer, and the CPU seconds of that time.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import time
from pathlib import Path

import uvloop

from app.kube.client import KubeClient
from app.kube.resources import PODS
from app.kube.transport import connect
from app.wire import JSON, decode_json
from bench.processes import cpu_seconds


async def create(client: KubeClient, pods: list[JSON], *, workers: int) -> None:
    waiting = iter(pods)

    async def work() -> None:
        for pod in waiting:
            await client.create(PODS, pod, namespace=pod["metadata"]["namespace"])

    async with asyncio.TaskGroup() as tasks:
        for _ in range(workers):
            tasks.create_task(work())


async def run(kubeconfig: str, pods: list[JSON], *, workers: int) -> dict[str, float]:
    async with await connect(kubeconfig=kubeconfig) as client:
        await client.list_page(PODS, limit=1)  # the handshake of the first connection belongs to the start
        begin, used = time.monotonic(), cpu_seconds([os.getpid()])
        await create(client, pods, workers=workers)
        return {"seconds": time.monotonic() - begin, "cpu": cpu_seconds([os.getpid()]) - used}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kubeconfig", required=True)
    parser.add_argument("--pods", type=Path, required=True, help="a JSON list")
    parser.add_argument("--workers", type=int, required=True)
    given = parser.parse_args()
    pods = decode_json(given.pods.read_bytes())
    print(json.dumps(uvloop.run(run(given.kubeconfig, pods, workers=given.workers))))


if __name__ == "__main__":
    main()
