"""The bare client, a process of its own: makes the writes of a file, so many at a time, and does nothing else.

It has the client and the event loop of Berth's controller, and no watch, no cache and no queue but a list. It creates
the Pods and then writes the statuses. What it prints is JSON: the seconds from its first request until all Pods exist
(`companions`) and until its last answer (`whole`), and the CPU seconds of its process.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

import uvloop

from app.kube.resources import PODS
from app.kube.transport import connect
from app.wire import JSON, decode_json
from bench.companions_objects import STATUS_KINDS
from bench.processes import cpu_seconds


async def run(kubeconfig: str, pods: list[JSON], statuses: list[JSON], *, workers: int) -> dict[str, float]:
    async with await connect(kubeconfig=kubeconfig) as client:

        async def create(pod: JSON) -> None:
            await client.create(PODS, pod, namespace=pod["metadata"]["namespace"])

        async def tell(obj: JSON) -> None:
            namespace, name = obj["metadata"]["namespace"], obj["metadata"]["name"]
            await client.patch(
                STATUS_KINDS[obj["kind"]],
                name,
                {"status": obj["status"]},
                patch_type="merge",
                namespace=namespace,
                subresource="status",
            )

        await client.list_page(PODS, limit=1)  # the handshake of the first connection belongs to the start
        begin = time.monotonic()
        await _each(create, pods, workers=workers)
        made = time.monotonic()
        await _each(tell, statuses, workers=workers)
        whole = time.monotonic() - begin
        return {"companions": made - begin, "whole": whole, "cpu": cpu_seconds([os.getpid()])}


async def _each(write: Callable[[JSON], Awaitable[None]], objects: list[JSON], *, workers: int) -> None:
    waiting = iter(objects)

    async def work() -> None:
        for obj in waiting:
            await write(obj)

    async with asyncio.TaskGroup() as tasks:
        for _ in range(workers):
            tasks.create_task(work())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kubeconfig", required=True)
    parser.add_argument("--writes", type=Path, required=True, help="JSON: `pods` and `statuses`, lists of objects")
    parser.add_argument("--workers", type=int, required=True)
    given = parser.parse_args()
    writes = decode_json(given.writes.read_bytes())
    print(json.dumps(uvloop.run(run(given.kubeconfig, **writes, workers=given.workers))))


if __name__ == "__main__":
    main()
