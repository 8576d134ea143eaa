"""Creates objects at an API server and times each creation: over N connections, or so many a second.

Arms take turns, so that all of them meet the same machine: one creation each over one connection, else a block of
creations each. The client speaks HTTP/1.1 over TLS with requests made in advance, and costs a tenth of what the API
server does for one of them.
"""

from __future__ import annotations

import asyncio
import json
import ssl
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import yaml

from bench.processes import machine_seconds

CREATED = 201


class CreationError(Exception):
    """An API server did not create an object; the message has its answer."""


@dataclass(frozen=True, slots=True)
class Arm:
    """What is compared: objects that are created in one namespace. `{n}` in the body is the number of the object."""

    name: str
    namespace: str
    body: str

    def request(self, host: str, number: int) -> bytes:
        body = self.body.replace("{n}", str(number)).encode()
        head = (
            f"POST /api/v1/namespaces/{self.namespace}/pods HTTP/1.1\r\nHost: {host}\r\n"
            f"Content-Type: application/json\r\nAccept: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
        )
        return head.encode() + body


@dataclass(frozen=True, slots=True)
class Server:
    """How an API server is reached."""

    host: str
    port: int
    tls: ssl.SSLContext | None
    """None for plain HTTP."""

    @classmethod
    def of(cls, kubeconfig: Path) -> Server:
        """That of a kubeconfig whose user has a client certificate in files."""
        config = yaml.safe_load(kubeconfig.read_text())
        cluster, user = config["clusters"][0]["cluster"], config["users"][0]["user"]
        tls = ssl.create_default_context(cafile=cluster["certificate-authority"])
        tls.load_cert_chain(user["client-certificate"], user["client-key"])
        url = urlsplit(cluster["server"])
        return cls(str(url.hostname), int(url.port or 443), tls)


class Connection(asyncio.Protocol):
    """One kept-alive connection with one request in flight. The answer is read whole before the next request."""

    def __init__(self) -> None:
        self._transport: asyncio.Transport | None = None
        self._answer: asyncio.Future[tuple[int, bytes]] | None = None
        self._received = bytearray()
        self._length = -1

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport  # type: ignore[assignment]  # a TCP connection is a Transport

    def connection_lost(self, exc: Exception | None) -> None:
        if self._answer is not None and not self._answer.done():
            self._answer.set_exception(CreationError(f"the API server closed the connection: {exc}"))

    def data_received(self, data: bytes) -> None:
        self._received += data
        end = self._received.find(b"\r\n\r\n")
        if end < 0 or self._answer is None:
            return
        if self._length < 0:
            self._length = _content_length(bytes(self._received[:end]))
        # An answer without a length comes in chunks; API servers send those for big objects alone.
        chunked = self._length < 0
        whole = self._received.endswith(b"0\r\n\r\n") if chunked else len(self._received) >= end + 4 + self._length
        if whole and not self._answer.done():
            status = int(self._received[9:12])
            self._answer.set_result((status, bytes(self._received[end + 4 :])))

    async def send(self, request: bytes) -> tuple[int, bytes]:
        """Status and body of the answer."""
        if self._transport is None or self._transport.is_closing():
            raise CreationError("the API server closed the connection")
        self._received.clear()
        self._length = -1
        self._answer = asyncio.get_running_loop().create_future()
        self._transport.write(request)
        return await self._answer

    def close(self) -> None:
        if self._transport is not None:
            self._transport.close()


def _content_length(head: bytes) -> int:
    for line in head.split(b"\r\n")[1:]:
        name, _, value = line.partition(b":")
        if name.lower() == b"content-length":
            return int(value)
    return -1


@dataclass(slots=True)
class Series:
    """The seconds of all creations of one arm, by block, and the CPU seconds that the client used for all arms."""

    blocks: list[list[float]] = field(default_factory=list)

    @property
    def times(self) -> list[float]:
        return [seconds for block in self.blocks for seconds in block]


@dataclass(frozen=True, slots=True)
class Outcome:
    """What one run measured. `busy` is the client's share of one core: near 1 it is the client that sets the pace.

    `rate` is in creations a second over all arms, `machine` the share of all cores that any program used.
    """

    series: dict[str, Series]
    busy: float
    rate: float
    machine: float = 0.0


@asynccontextmanager
async def connected(server: Server, count: int) -> AsyncIterator[list[Connection]]:
    loop = asyncio.get_running_loop()
    connections: list[Connection] = []
    try:
        for _ in range(count):
            _, connection = await loop.create_connection(Connection, server.host, server.port, ssl=server.tls)
            connections.append(connection)
        yield connections
    finally:
        for connection in connections:
            connection.close()


async def over_connections(
    server: Server, arms: Sequence[Arm], *, connections: int, creations: int, numbers: Callable[[], int]
) -> Outcome:
    """Create `creations` objects for each arm, one in flight on each connection.

    Arms take turns in blocks: one creation over one connection, else four for each connection.
    """
    block = 1 if connections == 1 else connections * 4
    series = {arm.name: Series() for arm in arms}
    async with connected(server, connections) as lines:
        cpu, whole, begin = time.process_time(), machine_seconds(), time.perf_counter()
        for turn in range(max(1, round(creations / block))):
            # The order changes with each turn: no arm is always behind the same other one.
            for arm in (*arms[turn % len(arms) :], *arms[: turn % len(arms)]):
                requests = iter([arm.request(server.host, numbers()) for _ in range(block)])
                times: list[float] = []
                await asyncio.gather(*(_drain(line, requests, times) for line in lines))
                series[arm.name].blocks.append(times)
        seconds = time.perf_counter() - begin
        busy = (time.process_time() - cpu) / seconds
        machine = _share(whole, machine_seconds())
    return Outcome(series, busy, sum(len(found.times) for found in series.values()) / seconds, machine)


def _share(before: tuple[float, float], after: tuple[float, float]) -> float:
    used, whole = after[0] - before[0], after[1] - before[1]
    return used / whole if whole else 0.0


async def _drain(line: Connection, requests: Any, times: list[float]) -> None:
    for request in requests:
        seconds = await _timed(line, request)
        times.append(seconds)


async def at_rate(
    server: Server, arms: Sequence[Arm], *, rate: float, creations: int, numbers: Callable[[], int], block: int = 50
) -> Outcome:
    """Create `rate` objects a second, whether or not those before have ended; arms take turns one by one.

    A time runs from the moment at which the creation was due, so a late start counts.
    """
    series = {arm.name: Series() for arm in arms}
    async with connected(server, 32) as lines:
        free: asyncio.Queue[Connection] = asyncio.Queue()
        for line in lines:
            free.put_nowait(line)
        cpu, whole, begin = time.process_time(), machine_seconds(), time.perf_counter()
        async with asyncio.TaskGroup() as group:
            for place in range(creations * len(arms)):
                # The order changes with each turn, as above.
                turn, position = divmod(place, len(arms))
                arm = arms[(position + turn) % len(arms)]
                due = begin + place / rate
                await asyncio.sleep(due - time.perf_counter())
                blocks = series[arm.name].blocks
                if not blocks or len(blocks[-1]) >= block:
                    blocks.append([])
                group.create_task(_due(free, arm.request(server.host, numbers()), blocks[-1], due))
        seconds = time.perf_counter() - begin
        busy = (time.process_time() - cpu) / seconds
        machine = _share(whole, machine_seconds())
    return Outcome(series, busy, creations * len(arms) / seconds, machine)


async def _due(free: asyncio.Queue[Connection], request: bytes, times: list[float], due: float) -> None:
    line = await free.get()
    try:
        await _timed(line, request)
        times.append(time.perf_counter() - due)
    finally:
        free.put_nowait(line)


async def _timed(line: Connection, request: bytes) -> float:
    begin = time.perf_counter()
    status, body = await line.send(request)
    seconds = time.perf_counter() - begin
    if status != CREATED:
        raise CreationError(f"HTTP {status}: {_message(body)}")
    return seconds


def _message(body: bytes) -> str:
    try:
        return str(json.loads(body)["message"])
    except (ValueError, KeyError, TypeError):
        return body[:500].decode(errors="replace")
