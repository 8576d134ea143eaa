"""What a client has to live with, each by a switch, over HTTP and over TLS."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator
from typing import Any

import aiohttp
import pytest
import pytest_asyncio

from app.devtools.rmd.access import Tls
from app.devtools.rmd.faults import Kind, Trouble
from app.devtools.rmd.server import Served, serve
from app.devtools.rmd.workloads import Daemon
from app.devtools.sandbox.pki import Authority
from tests.support.rmd import asking, call
from tests.support.waiting import eventually

SERVER, CLIENTS = Authority("rmd"), Authority("clients")
ADMIN = CLIENTS.client("admin", ())
WORKLOAD = asking("1", ways=2)


class Peer:
    """The stand-in, and how its client calls it."""

    def __init__(self, served: Served, context: ssl.SSLContext | None) -> None:
        self.served, self.options = served, {"ssl": context} if context is not None else {}

    async def call(self, method: str = "GET", path: str = "workloads", body: Any = None) -> tuple[int, str, str]:
        return await call(self.served, method, path, body, **self.options)

    def stored(self) -> int:
        return len(self.served.daemon.workloads())


@pytest_asyncio.fixture(params=["http", "https"])
async def peer(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Peer]:
    tls = context = None
    if request.param == "https":
        tls = Tls(SERVER.serving(["127.0.0.1"]), CLIENTS.pem, (ADMIN.certificate,))
        path = tmp_path_factory.mktemp("client") / "both.pem"
        path.write_bytes(ADMIN.certificate + ADMIN.key)
        context = ssl.create_default_context(cadata=SERVER.pem.decode())
        context.load_cert_chain(path)
    async with serve(Daemon(), tls=tls) as served:
        yield Peer(served, context)


@pytest.mark.parametrize(
    ("trouble", "answer"),
    [
        (Trouble(Kind.NOT_JSON), (200, "application/json", "<this is not JSON")),
        (Trouble(Kind.WRONG_TYPE), (200, "text/html", "<html><body>It works!</body></html>")),
        (Trouble(Kind.ERROR, text="out of order"), (500, "text/plain; charset=utf-8", "out of order")),
    ],
)
async def test_wrong_answers(peer: Peer, trouble: Trouble, answer: tuple[int, str, str]) -> None:
    peer.served.troubles = [trouble]
    assert await peer.call("POST", "workloads", WORKLOAD) == answer
    assert peer.stored() == 0
    peer.served.troubles.clear()
    assert (await peer.call("POST", "workloads", WORKLOAD))[0] == 201


@pytest.mark.parametrize(
    ("kind", "stored"),
    [(Kind.REFUSED, 0), (Kind.LOST_ANSWER, 1), (Kind.TRUNCATED, 1)],
)
async def test_closed_connections(peer: Peer, kind: Kind, stored: int) -> None:
    peer.served.troubles = [Trouble(kind, method="POST", times=1)]
    with pytest.raises(aiohttp.ClientError):
        await peer.call("POST", "workloads", WORKLOAD)
    assert peer.stored() == stored
    assert (await peer.call("POST", "workloads", WORKLOAD))[0] == (400 if stored else 201), "once only"


@pytest.mark.parametrize(("kind", "stored"), [(Kind.HANG, 0), (Kind.HANG_AFTER, 1)])
async def test_no_answer_until_the_client_gives_up(peer: Peer, kind: Kind, stored: int) -> None:
    peer.served.troubles = [Trouble(kind, path="/v1/workloads")]
    waiting = asyncio.create_task(peer.call("POST", "workloads", WORKLOAD))
    await eventually(lambda: len(peer.served.requests) == 1)
    assert (await peer.call(path="mba"))[0] == 200, "others are answered meanwhile"
    assert not waiting.done()
    assert peer.stored() == stored
    waiting.cancel()
    await asyncio.gather(waiting, return_exceptions=True)


async def test_the_end_of_the_daemon_ends_what_hangs() -> None:
    async with serve(Daemon()) as served:
        served.troubles = [Trouble(Kind.HANG)]
        waiting = asyncio.create_task(call(served, "GET", "workloads"))
        await eventually(lambda: len(served.requests) == 1)
    with pytest.raises(aiohttp.ClientError):
        await waiting


async def test_a_slow_answer_comes_after_its_effect(peer: Peer) -> None:
    peer.served.troubles = [Trouble(Kind.SLOW, seconds=3600)]
    waiting = asyncio.create_task(peer.call("POST", "workloads", WORKLOAD))
    await eventually(lambda: peer.stored() == 1)
    assert not waiting.done()
    waiting.cancel()
    await asyncio.gather(waiting, return_exceptions=True)
    peer.served.troubles = [Trouble(Kind.SLOW)]
    assert (await peer.call())[0] == 200


async def test_an_answer_without_end(peer: Peer) -> None:
    peer.served.troubles = [Trouble(Kind.ENDLESS)]
    async with (
        aiohttp.ClientSession() as session,
        session.get(f"{peer.served.url}/v1/workloads", **peer.options) as answer,
    ):
        assert (answer.status, answer.headers["Content-Type"]) == (200, "application/json")
        assert len(await answer.content.readexactly(1_000_000)) == 1_000_000
        answer.close()
    peer.served.troubles.clear()
    assert (await peer.call())[0] == 200


async def test_the_first_trouble_that_fits_counts(peer: Peer) -> None:
    fits = Trouble(Kind.ERROR, method="GET", path="/v1/cache", times=2, text="first")
    peer.served.troubles = [fits, Trouble(Kind.ERROR, method="GET", text="second")]
    texts = [(await peer.call(path=path))[2] for path in ("cache/l3", "workloads", "cache", "cache")]
    assert texts == ["first", "second", "first", "second"]
    assert (await peer.call("POST", "workloads", WORKLOAD))[0] == 201
