"""Who gives way when all places are taken, and how long the server waits for what does not come."""

from __future__ import annotations

import asyncio
import contextlib
import json
import resource
import socket
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from app.admission import connection, server
from app.admission.server import make_server
from app.serving.health import health_app
from app.serving.listener import ConnectionPool, Slot, allowed_connections, bind
from tests.integration.hostile.conftest import descriptors
from tests.support.waiting import PATIENCE
from tests.support.webhook_process import ATTACHMENTS, Pki, Webhook, flags_for, load_review

GET = b"GET /healthz HTTP/1.1\r\nHost: a\r\n"


def entered(pool: ConnectionPool, closed: list[str], name: str) -> Slot:
    slot = pool.acquire()
    assert slot is not None
    slot.close = lambda: closed.append(name)
    return slot


def test_the_oldest_that_brought_nothing_goes_first_then_the_one_idle_for_longest() -> None:
    pool, closed = ConnectionPool(4), list[str]()
    served, waiting = entered(pool, closed, "served"), entered(pool, closed, "waiting")
    for slot in (waiting, served):
        slot.busy()
        slot.idle()
    entered(pool, closed, "new 1")
    entered(pool, closed, "new 2")
    for number in range(3, 6):
        entered(pool, closed, f"new {number}").busy()
    assert closed == ["new 1", "new 2", "waiting"]
    entered(pool, closed, "last").busy()
    assert closed[3:] == ["served"]
    assert pool.acquire() is None
    assert len(pool.taken) == 4


def test_a_place_that_was_left_is_left_once() -> None:
    pool, closed = ConnectionPool(1), list[str]()
    slot = entered(pool, closed, "first")
    slot.release()
    slot.release()
    slot.idle()
    entered(pool, closed, "second").busy()
    assert pool.acquire() is None
    assert closed == []


def test_fewer_descriptors_are_fewer_places() -> None:
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (1024, before[1]))
    try:
        assert 300 < allowed_connections() < 512
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)


@pytest_asyncio.fixture
async def port(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[int]:
    """A server with short clocks, and answers of 8 MB under /metrics."""
    monkeypatch.setattr(connection, "BODY_SECONDS", 0.2)
    monkeypatch.setattr(connection, "ANSWER_SECONDS", 0.2)
    monkeypatch.setattr(server, "KEEP_ALIVE", 0.3)
    app = health_app(readiness=list, metrics=lambda: (b"x" * 8_000_000, "text/plain"))
    running, listener = make_server(app), bind("127.0.0.1", 0)
    listener.listen()
    task = asyncio.create_task(running.serve(sockets=[listener]))
    await asyncio.sleep(0)
    yield listener.getsockname()[1]
    running.should_exit = True
    await task


@pytest.mark.parametrize(
    ("head", "more"),
    [
        (GET + b"Content-Length: 100\r\n\r\n", b"x"),
        (GET + b"Transfer-Encoding: chunked\r\n\r\n", b"1\r\nx\r\n"),
        (GET + b"Content-Length: 1\r\n\r\n", b"x"),
        (GET + b"\r\n", b"\r\n"),
    ],
    ids=["a body that does not end", "chunks that do not end", "a body after its answer", "empty lines"],
)
async def test_bytes_that_nobody_waits_for_do_not_keep_a_connection(port: int, head: bytes, more: bytes) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(head)
    assert (await reader.readline()).startswith(b"HTTP/1.1 200")
    writer.write(more)
    async with asyncio.timeout(PATIENCE):
        await reader.read()
    writer.close()


@pytest.mark.parametrize("close", [b"Connection: close\r\n", b""])
async def test_an_answer_that_nobody_takes_is_thrown_away(port: int, close: bytes) -> None:
    taker = socket.socket()
    taker.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    taker.setblocking(False)
    loop = asyncio.get_running_loop()
    await loop.sock_connect(taker, ("127.0.0.1", port))
    await loop.sock_sendall(taker, b"GET /metrics HTTP/1.1\r\nHost: a\r\n" + close + b"\r\n")
    await asyncio.sleep(1.0)
    received = 0
    with contextlib.suppress(ConnectionResetError):
        async with asyncio.timeout(PATIENCE):
            while chunk := await loop.sock_recv(taker, 1 << 20):
                received += len(chunk)
    assert received < 8_000_000
    taker.close()


@pytest.fixture
def few(tmp_path: Path) -> Webhook:
    """Started with a soft limit of 512 descriptors."""
    (tmp_path / "manifests").mkdir()
    (tmp_path / "manifests" / "nads.yaml").write_text(ATTACHMENTS)
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (512, before[1]))
    try:
        pki = Pki(tmp_path / "pki")
        return Webhook(pki, *flags_for(pki, tmp_path / "manifests"), "--insecure")
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)


def test_a_process_takes_the_descriptors_it_may_have_and_goes_on_when_they_run_out(few: Webhook) -> None:
    try:
        few.until_ready()
        pid = few.process.pid
        soft, hard = resource.prlimit(pid, resource.RLIMIT_NOFILE)
        assert soft == min(hard, 65_536) or hard == resource.RLIM_INFINITY
        resource.prlimit(pid, resource.RLIMIT_NOFILE, (descriptors(pid) + 40, hard))
        opened = [socket.create_connection(few.address, timeout=PATIENCE) for _ in range(200)]
        for _ in range(3):
            assert few.post(load_review("webhook-demo"))[0] == 200
        assert descriptors(pid) < 100
        told = [json.loads(line)["msg"] for line in few.lines].count("cannot accept connections")
        assert told == 1
        for connection_ in opened:
            connection_.close()
    finally:
        few.stop()
