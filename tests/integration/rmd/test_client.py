"""The client of daemons over sockets: TLS both ways, answers that are none, texts of errors."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from app.devtools.rmd.access import Tls
from app.devtools.rmd.faults import Kind, Trouble
from app.devtools.rmd.model import Workload
from app.devtools.rmd.server import serve
from app.devtools.rmd.workloads import Daemon as Rmd
from app.devtools.sandbox.pki import Authority, Pair
from app.kube.resources import SECRETS
from app.kube.secrets import stored_files
from app.rmd.daemon.client import (
    MOST_BYTES,
    Certificates,
    DaemonClient,
    NoCertificate,
    Refused,
    Unanswered,
)
from app.rmd.daemon.wire import body_of
from app.rmd.model import SERVER_NAME
from app.rmd.requests import Settings
from tests.support.rmd_cluster import CERTIFICATE, NAMESPACE, RmdCluster, StandIn, held, sent
from tests.support.waiting import eventually

pytestmark = pytest.mark.asyncio
BODY = body_of("ns/a", ["0-1"], Settings(cache=(2, 2)))


@pytest.fixture
async def client() -> AsyncIterator[DaemonClient]:
    async with DaemonClient(timeout=5.0) as opened:
        yield opened


def files(authority: Authority, pair: Pair) -> Mapping[str, bytes]:
    return {"tls.crt": pair.certificate, "tls.key": pair.key, "ca.crt": authority.pem}


def certificates(found: Mapping[str, bytes] | None) -> Certificates:
    return Certificates(lambda: found, place="Secret berth-system/berth-rmd-client")


def daemon_tls(authority: Authority, *clients: Pair) -> Tls:
    """Of a daemon that lets these clients in."""
    return Tls(authority.serving([SERVER_NAME]), authority.pem, admins=tuple(one.certificate for one in clients))


async def test_the_verbs(client: DaemonClient) -> None:
    async with serve(Rmd()) as served:
        daemon = client.at(served.url)
        assert await daemon.reservations() == ()
        made = await daemon.reserve(BODY)
        assert (made.id, made.uuid, made.cores, made.cos) == ("1", "ns/a", {0, 1}, "COS2")
        assert await daemon.reservations() == (made,)
        assert [(one.id, one.cores) for one in await daemon.caches()] == [("0", frozenset(range(8)))]
        with pytest.raises(Refused, match="UUID ns/a already exists in workload 1"):
            await daemon.reserve(BODY)
        await daemon.release(made)
        await daemon.release(made)
        assert served.daemon.workloads() == []


async def test_a_deletion_that_is_answered_with_200_and_not_done(client: DaemonClient) -> None:
    async with serve(Rmd()) as served:
        served.daemon.add(Workload(uuid="vm", core_ids=("1",), max=1, min=1, origin="OPENSTACK"))
        daemon = client.at(served.url)
        (found,) = await daemon.reservations()
        with pytest.raises(Refused, match="You only have permission to delete REST origin workloads"):
            await daemon.release(found)


@pytest.mark.parametrize("kind", sorted(set(Kind) - {Kind.SLOW, Kind.ERROR}))
async def test_what_is_no_answer(kind: Kind) -> None:
    async with serve(Rmd()) as served, DaemonClient(timeout=1.0) as client:
        served.troubles.append(Trouble(kind))
        with pytest.raises(Unanswered) as caught:
            await client.at(served.url).reservations()
        assert f"{served.url}/v1/workloads" in str(caught.value)
        if kind is Kind.ENDLESS:
            assert str(MOST_BYTES) in str(caught.value)


async def test_nothing_listens(client: DaemonClient) -> None:
    async with serve(Rmd()) as served:
        pass
    with pytest.raises(Unanswered, match=r"GET http://127\.0\.0\.1"):
        await client.at(served.url).reservations()


async def test_a_redirect_is_not_followed(client: DaemonClient) -> None:
    async def redirect(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1:1/\r\nContent-Length: 0\r\n\r\n")
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(redirect, "127.0.0.1", 0)
    async with server:
        port = server.sockets[0].getsockname()[1]
        with pytest.raises(Refused, match="HTTP 302"):
            await client.at(f"http://127.0.0.1:{port}").reservations()


async def asked(client: DaemonClient, tls: Tls, mine: Certificates) -> object:
    async with serve(Rmd(), tls=tls) as served:
        return await client.at(served.url, mine.context(), server_name=SERVER_NAME).reservations()


async def test_tls_with_a_certificate_of_each_side(client: DaemonClient) -> None:
    authority = Authority("rmd-ca")
    berth = authority.client("berth", [])
    assert await asked(client, daemon_tls(authority, berth), certificates(files(authority, berth))) == ()


async def test_a_daemon_of_another_authority_is_not_asked(client: DaemonClient) -> None:
    authority, other = Authority("rmd-ca"), Authority("other-ca")
    mine = certificates(files(authority, authority.client("berth", [])))
    with pytest.raises(Unanswered, match="certificate"):
        await asked(client, daemon_tls(other), mine)


async def test_a_client_that_the_daemon_does_not_know(client: DaemonClient) -> None:
    authority = Authority("rmd-ca")
    mine = certificates(files(authority, authority.client("berth", [])))
    with pytest.raises(Refused, match="berth is not authorized"):
        await asked(client, daemon_tls(authority), mine)


@pytest.mark.parametrize(
    ("found", "message"),
    [
        (None, "there is none"),
        ({}, r"tls.crt, tls.key, ca.crt missing"),
        ({"tls.crt": b"x", "tls.key": b"y", "ca.crt": b"z"}, "cannot be used for TLS"),
    ],
)
async def test_without_a_certificate_nothing_is_asked(found: Mapping[str, bytes] | None, message: str) -> None:
    with pytest.raises(NoCertificate, match=message):
        certificates(found).context()


async def test_a_certificate_that_cannot_be_read_is_none(tmp_path: Path) -> None:
    """kubelet replaces the files of a Secret while they are read."""
    with pytest.raises(NoCertificate, match="folder of the agent: cannot be read: "):
        Certificates(lambda: {"tls.crt": (tmp_path / "tls.crt").read_bytes()}, place="folder of the agent").context()


async def test_https_never_goes_without_certificates(client: DaemonClient) -> None:
    with pytest.raises(ValueError, match="https wants certificates"):
        client.at("https://127.0.0.1:1")


def secret(found: Mapping[str, bytes]) -> dict[str, Any]:
    data = {name: base64.b64encode(content).decode() for name, content in found.items()}
    return {**SECRETS.body({"name": CERTIFICATE, "namespace": NAMESPACE}), "data": data}


async def test_what_is_kept_of_a_secret() -> None:
    assert stored_files({"data": {"tls.crt": "eA==", "tls.key": "%", "other": "eA=="}}) == {"tls.crt": b"x"}


@pytest.mark.simulated
async def test_the_certificate_of_the_controller_is_followed(cluster: RmdCluster) -> None:
    authority, later = Authority("rmd-ca"), Authority("later-ca")
    berth = authority.client("berth", [])
    stand_in = StandIn()
    async with cluster.node("n1", stand_in, tls=daemon_tls(authority, berth)), cluster.controller():
        await cluster.reserve("a", "n1")
        await eventually(lambda: f"Secret {NAMESPACE}/{CERTIFICATE}" in cluster.ready("a").get("message", ""))
        wrong = secret(files(later, later.client("berth", [])))
        await cluster.admin.create(SECRETS, wrong, namespace=NAMESPACE)
        await eventually(lambda: "certificate" in cluster.states("a")["n1"]["response"])
        assert not sent(stand_in, "GET", "POST")
        right = secret(files(authority, berth))
        await cluster.admin.patch(
            SECRETS, CERTIFICATE, {"data": right["data"]}, patch_type="merge", namespace=NAMESPACE
        )
        await cluster.says("a", "Reserved")
        assert held(stand_in) == {"default/a": ("0-1",)}
