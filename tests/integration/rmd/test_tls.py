"""Who may call the daemon over TLS, over real sockets."""

from __future__ import annotations

import ssl
from collections.abc import AsyncIterator
from pathlib import Path

import aiohttp
import pytest
import pytest_asyncio

from app.devtools.rmd.access import Tls
from app.devtools.rmd.server import Served, serve
from app.devtools.rmd.workloads import Daemon
from app.devtools.sandbox.pki import Authority, Pair
from tests.support.rmd import asking, call

SERVER, CLIENTS = Authority("rmd"), Authority("clients")
ADMIN, USER, OTHER = (CLIENTS.client(name, ()) for name in ("admin", "user", "other"))
STRANGER = Authority("strangers").client("admin", ())


@pytest_asyncio.fixture
async def served() -> AsyncIterator[Served]:
    tls = Tls(SERVER.serving(["127.0.0.1"]), CLIENTS.pem, (ADMIN.certificate,), (USER.certificate,))
    async with serve(Daemon(), tls=tls) as made:
        yield made


def client(folder: Path, pair: Pair | None) -> ssl.SSLContext:
    context = ssl.create_default_context(cadata=SERVER.pem.decode())
    if pair is not None:
        (folder / "both.pem").write_bytes(pair.certificate + pair.key)
        context.load_cert_chain(folder / "both.pem")
    return context


async def test_an_admin_may_do_all(served: Served, tmp_path: Path) -> None:
    context = client(tmp_path, ADMIN)
    assert served.url.startswith("https://127.0.0.1:")
    assert (await call(served, "POST", "workloads", asking("1", ways=2), ssl=context))[0] == 201
    assert (await call(served, "DELETE", "workloads/1", ssl=context))[0] == 200


async def test_another_certificate_of_the_ca(served: Served, tmp_path: Path) -> None:
    for method, path in (("GET", "workloads"), ("PUT", "workloads"), ("GET", "cache/l4")):
        answer = await call(served, method, path, ssl=client(tmp_path, OTHER))
        assert answer == (401, "text/plain; charset=utf-8", "other is not authorized"), "before the router answers"
    assert (await call(served, "GET", "elsewhere", ssl=client(tmp_path, OTHER)))[0] == 404, "no service, no check"


async def test_a_user_may_read(served: Served, tmp_path: Path) -> None:
    context = client(tmp_path, USER)
    for path in ("workloads", "cache/l3", "policy"):
        assert (await call(served, "GET", path, ssl=context))[0] == 200
    refused = (
        403,
        "text/plain; charset=utf-8",
        'User "Cert Client User" is not authorized to access this resource\n',
    )
    assert await call(served, "POST", "workloads", asking("1", ways=2), ssl=context) == refused
    assert await call(served, "GET", "mba", ssl=context) == refused
    assert served.daemon.workloads() == []


@pytest.mark.parametrize("pair", [None, STRANGER])
async def test_no_certificate_of_the_ca(served: Served, tmp_path: Path, pair: Pair | None) -> None:
    with pytest.raises(aiohttp.ClientError):
        await call(served, "GET", "workloads", ssl=client(tmp_path, pair))
    assert list(served.requests) == []


async def test_tls_1_2_at_most(served: Served, tmp_path: Path) -> None:
    context = client(tmp_path, ADMIN)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    with pytest.raises(aiohttp.ClientConnectorError):
        await call(served, "GET", "workloads", ssl=context)


async def test_the_ciphers_of_the_daemon_alone(served: Served, tmp_path: Path) -> None:
    context = client(tmp_path, ADMIN)
    context.maximum_version = ssl.TLSVersion.TLSv1_2
    context.set_ciphers("ECDHE-ECDSA-AES128-GCM-SHA256")
    with pytest.raises(aiohttp.ClientConnectorError):
        await call(served, "GET", "workloads", ssl=context)
    context.set_ciphers("ECDHE-ECDSA-AES256-GCM-SHA384")
    assert (await call(served, "GET", "workloads", ssl=context))[0] == 200
