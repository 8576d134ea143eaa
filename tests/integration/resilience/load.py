"""Callers as an API server is one: connections that are kept, a CA bundle that is learned late, and no second try."""

from __future__ import annotations

import asyncio
import json
import ssl
import time
from collections import Counter
from dataclasses import dataclass
from typing import Any, Self

from tests.support.waiting import PATIENCE

PAUSE = 0.01


@dataclass(frozen=True, slots=True)
class Failure:
    """A review that was not answered as it should be; the connection had been opened at `opened`."""

    began: float
    opened: float
    why: str


class Load:
    """`kept` callers keep their connections, `fresh` open one for each review. Leave the block to stop them."""

    def __init__(self, port: int, body: bytes, bundle: bytes, *, kept: int, fresh: int) -> None:
        head = (
            f"POST /mutate HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: {len(body)}"
        )
        self._request = head.encode() + b"\r\n\r\n" + body
        self._uid = json.loads(body)["request"]["uid"]
        self._port = port
        self._callers = [True] * kept + [False] * fresh
        self._tasks: list[asyncio.Task[None]] = []
        self._stopping = False
        self.answered = 0
        self.failures: list[Failure] = []
        self.serials: Counter[int] = Counter()
        """How many connections were made under which certificate."""
        self.trust(bundle)

    def trust(self, bundle: bytes) -> None:
        """What new connections trust from now on; those that are open stay."""
        self._context = ssl.create_default_context(cadata=bundle.decode())

    async def __aenter__(self) -> Self:
        self._tasks = [asyncio.create_task(self._call(keep=keep)) for keep in self._callers]
        return self

    async def __aexit__(self, *_: object) -> None:
        self._stopping = True
        await asyncio.gather(*self._tasks)

    async def more(self, number: int) -> None:
        """Until so many more were answered."""
        wanted = self.answered + number
        await self.until(lambda: self.answered >= wanted)

    async def until(self, true: Any) -> None:
        """Until it is true, or a review has failed."""
        async with asyncio.timeout(PATIENCE):
            while not true() and not self.failures:  # noqa: ASYNC110  answers come by themselves
                await asyncio.sleep(0.02)

    async def _call(self, *, keep: bool) -> None:
        while not self._stopping:
            opened = time.monotonic()
            try:
                connection = await self._connect()
            except (OSError, ssl.SSLError) as error:
                self.failures.append(Failure(opened, opened, repr(error)))
                await asyncio.sleep(PAUSE)
                continue
            try:
                while await self._review(*connection, opened) and keep and not self._stopping:  # noqa: ASYNC110  a pause
                    await asyncio.sleep(PAUSE)
            finally:
                connection[1].transport.abort()
            await asyncio.sleep(PAUSE)

    async def _connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        async with asyncio.timeout(PATIENCE):
            reader, writer = await asyncio.open_connection(
                "127.0.0.1", self._port, ssl=self._context, server_hostname="localhost"
            )
        self.serials[int(writer.get_extra_info("peercert")["serialNumber"], 16)] += 1
        return reader, writer

    async def _review(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, opened: float) -> bool:
        """Whether the connection may be used again."""
        if reader.at_eof():
            return False  # closed while nobody used it: a client sees that before it sends
        began = time.monotonic()
        try:
            async with asyncio.timeout(PATIENCE):
                writer.write(self._request)
                head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").lower().split("\r\n")
                fields = dict(line.split(": ", 1) for line in head[1:] if line)
                answer = await reader.readexactly(int(fields["content-length"]))
        except (OSError, EOFError, ssl.SSLError) as error:
            self.failures.append(Failure(began, opened, repr(error)))
            return False
        response = json.loads(answer).get("response") or {}
        if not head[0].startswith("http/1.1 200") or response.get("uid") != self._uid or not response.get("patch"):
            self.failures.append(Failure(began, opened, f"{head[0]} {answer[:300]!r}"))
            return False
        self.answered += 1
        return fields.get("connection") != "close"
