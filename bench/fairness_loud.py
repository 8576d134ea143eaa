"""The loud tenant, a process of its own: as many calls, streams and workload events as it can, while it is told to.

A line "go" on its standard input begins a spell, "stop" ends it. It prints what it has got so far as a line of JSON,
once when the first call of the spell is answered and once when the spell has ended.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import itertools
import json
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import grpc.aio

from app.tenancy.proto.universe.workload.v1 import workload_pb2_grpc, workload_rule_pb2
from app.tenancy.proto.universe.workload.v1 import workload_rule_pb2_grpc as rule_grpc
from bench.fairness_calls import Calls, Pki, event

_WORKLOADS = 500
_WATCHES = 7


class Loud:
    def __init__(self, pki: Pki, port: int, tenant: str, *, connections: int, calls: int) -> None:
        self._channels = [pki.channel(port, tenant) for _ in range(connections)]
        self._calls = calls
        self.got: Counter[str] = Counter()
        self.answered = asyncio.Event()

    async def spell(self) -> None:
        """Until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            for number in range(self._calls):
                tasks.create_task(self._ask(Calls(self._channels[number % len(self._channels)]), number))
            tasks.create_task(self._stream())
            for number in range(_WATCHES):
                tasks.create_task(self._watch(self._channels[number % len(self._channels)]))

    async def close(self) -> None:
        for channel in self._channels:
            await channel.close()

    async def _ask(self, calls: Calls, number: int) -> None:
        for version in itertools.count():
            try:
                await (calls.update_rule(f"loud-{number}", version) if version % 2 else calls.list_rules())
                self.got["answered"] += 1
                self.answered.set()
            except grpc.aio.AioRpcError as error:
                self.got[error.code().name] += 1

    async def _stream(self) -> None:
        events = itertools.cycle(event(number, version) for version in range(4) for number in range(_WORKLOADS))
        while True:
            stub: Any = workload_pb2_grpc.WorkloadServiceStub(self._channels[0])
            stream = stub.WorkloadStream()
            try:
                for request in events:
                    await stream.write(request)
                    self.got["events"] += 1
            except (grpc.aio.AioRpcError, asyncio.InvalidStateError):
                self.got["streams ended"] += 1
            finally:
                stream.cancel()

    async def _watch(self, channel: grpc.aio.Channel) -> None:
        stub: Any = rule_grpc.WorkloadRuleServiceStub(channel)
        while True:
            watch = stub.Watch(workload_rule_pb2.WatchWorkloadRulesRequest())
            try:
                while await watch.read() != grpc.aio.EOF:
                    self.got["watched"] += 1
            except grpc.aio.AioRpcError as error:
                self.got[error.code().name] += 1
            finally:
                watch.cancel()


async def run(loud: Loud) -> None:
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    spell: asyncio.Task[None] | None = None
    print("ready", flush=True)
    while line := (await reader.readline()).strip():
        if line == b"go":
            loud.got.clear()
            loud.answered.clear()
            spell = asyncio.create_task(loud.spell())
            await loud.answered.wait()
            print(json.dumps(loud.got), flush=True)
        elif spell is not None:
            spell.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await spell
            spell = None
            print(json.dumps(loud.got), flush=True)
    await loud.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pki", type=Path, required=True, help="directory with the tenant's files")
    parser.add_argument("--tenant", required=True)
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--connections", type=int, default=4)
    parser.add_argument("--calls", type=int, default=32, help="under way at a time")
    given = parser.parse_args()
    asyncio.run(_main(given))


async def _main(given: argparse.Namespace) -> None:
    loud = Loud(Pki(given.pki), given.port, given.tenant, connections=given.connections, calls=given.calls)
    await run(loud)


if __name__ == "__main__":
    main()
