"""Why a connection failed, in the words that kubectl has, of real connections over HTTP and over gRPC."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

import aiohttp
import grpc
import grpc.aio
import pytest

from app.certs import folder, issuing
from app.text import fault, rpc_fault

UNKNOWN = "x509: certificate signed by unknown authority"


def certificates(*, age: int = 0, address: str = "127.0.0.1") -> Mapping[str, bytes]:
    """The files of a certificate for a month that was issued `age` days ago."""
    names = issuing.serving_names(service="", namespace="x", dns=(), addresses=(address,))
    return folder.make(
        {},
        names=names,
        clients=[],
        now=datetime.now(UTC) - timedelta(days=age),
        days=30,
        authority_days=300,
        algorithm="ecdsa",
        new_authority=False,
    )


@asynccontextmanager
async def answering(tmp_path: Path, files: Mapping[str, bytes] | None) -> AsyncIterator[int]:
    """The port of a server with this certificate; of one without TLS that answers each request with HTTP 400."""
    context = None
    if files is not None:
        for name in ("tls.crt", "tls.key"):
            (tmp_path / name).write_bytes(files[name])
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(tmp_path / "tls.crt", tmp_path / "tls.key")
        context.set_alpn_protocols(["h2"])

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if await reader.read(1) and context is None:
            writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0, ssl=context)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()


async def over_http(tmp_path: Path, port: int, authority: bytes) -> str:
    (tmp_path / "ca.crt").write_bytes(authority)
    context = ssl.create_default_context(cafile=tmp_path / "ca.crt")
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=context)) as session:
        with pytest.raises(aiohttp.ClientError) as failed:
            await session.get(f"https://127.0.0.1:{port}/")
    return fault(failed.value)


async def over_grpc(port: int, authority: bytes) -> str:
    credentials = grpc.ssl_channel_credentials(authority)
    async with grpc.aio.secure_channel(f"127.0.0.1:{port}", credentials) as channel:
        with pytest.raises(grpc.aio.AioRpcError) as failed:
            await channel.unary_unary("/a.B/C")(b"", timeout=20)
    return rpc_fault(failed.value.details() or "")


async def test_an_unknown_authority(tmp_path: Path) -> None:
    other = certificates()["ca.crt"]
    async with answering(tmp_path, certificates()) as port:
        said = f"tls: failed to verify the certificate of 127.0.0.1:{port}: {UNKNOWN}"
        assert await over_http(tmp_path, port, other) == said
        assert await over_grpc(port, other) == said


async def test_a_certificate_that_has_expired(tmp_path: Path) -> None:
    files = certificates(age=100)
    async with answering(tmp_path, files) as port:
        for said in (await over_http(tmp_path, port, files["ca.crt"]), await over_grpc(port, files["ca.crt"])):
            assert said.endswith("x509: certificate has expired or is not yet valid (certificate has expired)")


async def test_a_certificate_for_another_address(tmp_path: Path) -> None:
    files = certificates(address="192.0.2.1")
    context_names = "x509: certificate is not valid for '127.0.0.1'"
    async with answering(tmp_path, files) as port:
        assert (await over_http(tmp_path, port, files["ca.crt"])).endswith(context_names)


async def test_a_server_without_tls(tmp_path: Path) -> None:
    authority = certificates()["ca.crt"]
    async with answering(tmp_path, None) as port:
        said = f"http: server gave HTTP response to HTTPS client at 127.0.0.1:{port}"
        assert await over_http(tmp_path, port, authority) == said
        assert await over_grpc(port, authority) == said


async def test_nothing_listens(tmp_path: Path) -> None:
    async with answering(tmp_path, None) as port:
        pass
    said = await over_grpc(port, certificates()["ca.crt"])
    assert said == f"dial tcp 127.0.0.1:{port}: connect: connection refused"


@pytest.mark.parametrize(
    ("details", "said"),
    [
        (
            "errors resolving no.such:1: [field:hostname lookup error:address lookup failed for no.such:1: not found]",
            "dial tcp: lookup no.such: no such host",
        ),
        ("DNS resolution failed for no.such:443: C-ares status", "dial tcp: lookup no.such: no such host"),
        (
            "failed to connect to all addresses; last error: UNAVAILABLE: ipv4:127.0.0.1:34973: Socket closed",
            "read tcp 127.0.0.1:34973: connection closed by the server",
        ),
        (
            "last error: UNKNOWN: ipv6:%5B::1%5D:9: Tls handshake failed (TSI_PROTOCOL_FAILURE): OPENSSL_internal:ALERT",
            "tls: handshake failed with [::1]:9: ALERT",
        ),
        ("tenant tenant1 is suspended", "tenant tenant1 is suspended"),
        ("", ""),
    ],
)
def test_what_grpc_says_of_connections(details: str, said: str) -> None:
    assert rpc_fault(details) == said
