"""What stands before the replicas in a cluster: connections go to those that were ready a moment ago.

Readiness is read from /readyz and counts late, as a probe and the endpoints do. A connection stays where it is, whatever
becomes of the readiness.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
from typing import Any, Self

import aiohttp

PROBE = 0.15
DELAY = 0.5
"""Seconds between a change of readiness and the first connection that goes elsewhere, on top of the probe."""


class Balancer:
    """TCP from `port` to the replicas; `counts` tells the connections that each has got."""

    def __init__(self) -> None:
        self.port = 0
        self.counts: dict[Any, int] = {}
        self._ready: set[Any] = set()
        self._members: dict[Any, asyncio.Task[None]] = {}
        self._turns = itertools.count()
        self._server: asyncio.Server | None = None
        self._relays: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0, backlog=512)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._server is not None
        self._server.close()
        tasks = {*self._members.values(), *self._relays}
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def add(self, replica: Any) -> None:
        """A Pod that begins: it gets connections some time after it says that it is ready."""
        self.counts[replica] = 0
        self._members[replica] = asyncio.create_task(self._follow(replica))

    def leave(self, replica: Any) -> None:
        """A Pod that is being deleted: taken out whatever it says, as late as any other change."""
        self._members.pop(replica).cancel()
        asyncio.get_running_loop().call_later(DELAY, self._ready.discard, replica)

    def serves(self, *replicas: Any) -> bool:
        """Whether connections go to all of these."""
        return self._ready >= set(replicas)

    async def _follow(self, replica: Any) -> None:
        loop = asyncio.get_running_loop()
        url = "http://{}:{}/readyz".format(*replica.health_address)
        async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=20)) as session:
            while True:
                try:
                    async with session.get(url) as answer:
                        ready = answer.status == 200
                except (aiohttp.ClientError, TimeoutError):
                    ready = False
                loop.call_later(DELAY, self._ready.add if ready else self._ready.discard, replica)
                await asyncio.sleep(PROBE)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._relays.add(task)
        try:
            await self._relay(reader, writer)
        except asyncio.CancelledError:
            writer.transport.abort()
        finally:
            self._relays.discard(task)

    async def _relay(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        ready = [replica for replica in self.counts if replica in self._ready]
        if not ready:
            writer.transport.abort()
            return
        replica = ready[next(self._turns) % len(ready)]
        self.counts[replica] += 1
        try:
            back_reader, back_writer = await asyncio.open_connection(*replica.address)
        except OSError:
            writer.transport.abort()
            return
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(_copy(reader, back_writer))
            tasks.create_task(_copy(back_reader, writer))


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Until one end closes; a reset is passed on as one."""
    try:
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()
    except (OSError, asyncio.CancelledError):
        writer.transport.abort()
    finally:
        with contextlib.suppress(OSError, RuntimeError):
            writer.close()
