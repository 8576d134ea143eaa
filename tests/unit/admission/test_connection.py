"""The bounds of a connection, on a server in this process with short clocks."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from app.admission import connection, server
from app.admission.server import make_server
from app.serving.health import health_app
from app.serving.listener import bind

pytestmark = pytest.mark.simulated


@pytest.fixture
async def port(monkeypatch) -> AsyncIterator[int]:
    """The port of a running server; heads may take 0.1 s, idle connections live 0.4 s."""
    monkeypatch.setattr(connection, "HEAD_SECONDS", 0.1)
    monkeypatch.setattr(server, "KEEP_ALIVE", 0.4)
    app = health_app(readiness=list, metrics=lambda: (b"", "text/plain"))
    running, listener = make_server(app), bind("127.0.0.1", 0)
    listener.listen()  # connections wait until the server has started
    task = asyncio.create_task(running.serve(sockets=[listener]))
    await asyncio.sleep(0)
    yield listener.getsockname()[1]
    running.should_exit = True
    await task


@pytest.mark.parametrize(
    ("content", "answers"),
    [
        (b"", 0),
        (b"GET /healthz HT", 0),
        (b"GET /healthz HTTP/1.1\r\nHost: a\r\nX-Slow: ", 0),
        (b"GET /healthz HTTP/1.1\r\nHost: a\r\n\r\n", 1),
        (b"GET /healthz HTTP/1.1\r\nHost: a\r\n\r\nGET /heal", 1),
    ],
    ids=["silent", "half a line", "half a head", "idle after an answer", "half a second request"],
)
async def test_a_connection_that_waits_is_closed(port, content, answers) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(content)
    received = await reader.read()
    assert received.count(b"HTTP/1.1 200 OK") == answers
    writer.close()


async def test_a_head_in_pieces_is_put_together_where_they_come_in_time(port) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    for piece in (b"GET /heal", b"thz HTTP/1.1\r\nHo", b"st: a\r\n\r\n"):
        writer.write(piece)
        await writer.drain()
        await asyncio.sleep(0.01)
    assert (await reader.readline()).startswith(b"HTTP/1.1 200")
    await asyncio.sleep(0.2)  # longer than a head may take: its clock was stopped
    writer.write(b"GET /healthz HTTP/1.1\r\nHost: a\r\n\r\n")
    assert (await reader.read()).count(b"HTTP/1.1 200 OK") == 1
    writer.close()


async def test_a_head_may_be_large_but_not_without_end(port) -> None:
    for size, status in ((60_000, b"200"), (600_000, b"431")):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"GET /healthz HTTP/1.1\r\nHost: a\r\nX: ")
        for _ in range(0, size, 1000):
            writer.write(b"a" * 1000)
            await asyncio.sleep(0)
        writer.write(b"\r\n\r\n")
        assert (await reader.readline()).split()[1] == status
        writer.close()
