"""The client of daemons over sockets: TLS both ways, answers that are none, texts of errors."""

from __future__ import annotations

import asyncio
import base64
import ssl
from collections.abc import AsyncIterator, Mapping
from typing import Any

import pytest

from app.devtools.rmd.faults import Faults, Trouble
from app.devtools.rmd.machine import Machine
from app.devtools.rmd.server import StandInDaemon, serving
from app.devtools.sandbox.pki import Authority, Pair, server_context
from app.kube.resources import SECRETS
from app.rmd.daemon.certificates import Certificates, NoCertificate, stored_files
from app.rmd.daemon.client import MOST_BYTES, Daemon, DaemonClient, Refused, Unanswered
from app.rmd.daemon.wire import body_of
from app.rmd.model import SERVER_NAME
from app.rmd.requests import Settings
from tests.support.rmd_cluster import CERTIFICATE, SYSTEM, RmdCluster, held, sent
from tests.support.waiting import eventually

pytestmark = pytest.mark.asyncio
BODY = body_of("ns/a", frozenset({0, 1}), Settings(cache=(2, 2)))


@pytest.fixture
async def client() -> AsyncIterator[DaemonClient]:
    async with DaemonClient(timeout=5.0) as opened:
        yield opened


def files(authority: Authority, pair: Pair) -> Mapping[str, bytes]:
    return {"tls.crt": pair.certificate, "tls.key": pair.key, "ca.crt": authority.pem}


def certificates(found: Mapping[str, bytes] | None) -> Certificates:
    return Certificates(lambda: found, place="Secret berth-system/berth-rmd-client")


def daemon_tls(authority: Authority) -> ssl.SSLContext:
    """As a daemon has it: TLS 1.2 at most, a client certificate of its authority."""
    context = server_context(authority.serving([SERVER_NAME]), authority.pem)
    context.maximum_version = ssl.TLSVersion.TLSv1_2
    context.verify_mode = ssl.CERT_REQUIRED
    return context


async def test_the_verbs(client: DaemonClient) -> None:
    stand_in = StandInDaemon()
    async with serving(stand_in) as port:
        daemon = client.at(f"http://127.0.0.1:{port}")
        assert await daemon.reservations() == ()
        made = await daemon.reserve(BODY)
        assert (made.id, made.uuid, made.cores, made.cos) == ("1", "ns/a", {0, 1}, "COS2")
        assert await daemon.reservations() == (made,)
        assert await daemon.cores() == frozenset(range(32))
        with pytest.raises(Refused, match="UUID ns/a already exists in workload 1"):
            await daemon.reserve(BODY)
        await daemon.release(made)
        await daemon.release(made)
        assert held(stand_in) == {}


async def test_a_deletion_that_is_answered_with_200_and_not_done(client: DaemonClient) -> None:
    stand_in = StandInDaemon()
    async with serving(stand_in) as port:
        daemon = client.at(f"http://127.0.0.1:{port}")
        made = await daemon.reserve(BODY)
        stand_in.workloads.records["1"]["origin"] = "OPENSTACK"
        with pytest.raises(Refused, match="You only have permission to delete REST origin workloads"):
            await daemon.release(made)


@pytest.mark.parametrize("kind", ["garbage", "html", "empty", "endless", "cut", "hang"])
async def test_what_is_no_answer(kind: Any) -> None:
    stand_in = StandInDaemon()
    stand_in.troubles.append(Trouble(kind))
    async with serving(stand_in) as port, DaemonClient(timeout=1.0) as client:
        with pytest.raises(Unanswered) as caught:
            await client.at(f"http://127.0.0.1:{port}").reservations()
        assert f"http://127.0.0.1:{port}/v1/workloads" in str(caught.value)
        if kind == "endless":
            assert str(MOST_BYTES) in str(caught.value)


async def test_nothing_listens(client: DaemonClient) -> None:
    async with serving(StandInDaemon()) as port:
        pass
    with pytest.raises(Unanswered, match=r"GET http://127\.0\.0\.1"):
        await client.at(f"http://127.0.0.1:{port}").reservations()


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


async def asked(client: DaemonClient, stand_in: StandInDaemon, authority: Authority, mine: Certificates) -> object:
    async with serving(stand_in, tls=daemon_tls(authority)) as port:
        daemon: Daemon = client.at(f"https://127.0.0.1:{port}", mine.context(), server_name=SERVER_NAME)
        return await daemon.reservations()


async def test_tls_with_a_certificate_of_each_side(client: DaemonClient) -> None:
    authority = Authority("rmd-ca")
    mine = certificates(files(authority, authority.client("berth", [])))
    assert await asked(client, StandInDaemon(clients=["berth"]), authority, mine) == ()


async def test_a_daemon_of_another_authority_is_not_asked(client: DaemonClient) -> None:
    authority, other = Authority("rmd-ca"), Authority("other-ca")
    stand_in = StandInDaemon()
    with pytest.raises(Unanswered, match="certificate"):
        await asked(client, stand_in, other, certificates(files(authority, authority.client("berth", []))))
    assert not stand_in.asked


async def test_a_client_that_the_daemon_does_not_know(client: DaemonClient) -> None:
    authority = Authority("rmd-ca")
    mine = certificates(files(authority, authority.client("berth", [])))
    with pytest.raises(Refused, match="berth is not authorized"):
        await asked(client, StandInDaemon(clients=["somewhere-else"]), authority, mine)


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


async def test_https_never_goes_without_certificates(client: DaemonClient) -> None:
    with pytest.raises(ValueError, match="https wants certificates"):
        client.at("https://127.0.0.1:1")


def secret(found: Mapping[str, bytes]) -> dict[str, Any]:
    data = {name: base64.b64encode(content).decode() for name, content in found.items()}
    return {**SECRETS.body({"name": CERTIFICATE, "namespace": SYSTEM}), "data": data}


async def test_what_is_kept_of_a_secret() -> None:
    assert stored_files({"data": {"tls.crt": "eA==", "tls.key": "%", "other": "eA=="}}) == {"tls.crt": b"x"}


@pytest.mark.simulated
async def test_the_certificate_of_the_controller_is_followed(cluster: RmdCluster) -> None:
    authority, later = Authority("rmd-ca"), Authority("later-ca")
    stand_in = StandInDaemon(clients=["berth"])
    async with cluster.node("n1", stand_in, tls=daemon_tls(authority)), cluster.controller():
        await cluster.reserve("a", "n1")
        await eventually(lambda: f"Secret {SYSTEM}/{CERTIFICATE}" in cluster.ready("a").get("message", ""))
        wrong = secret(files(later, later.client("berth", [])))
        await cluster.admin.create(SECRETS, wrong, namespace=SYSTEM)
        await eventually(lambda: "certificate" in cluster.states("a")["n1"]["response"])
        assert not sent(stand_in, "GET", "POST")
        right = secret(files(authority, authority.client("berth", [])))
        await cluster.admin.patch(SECRETS, CERTIFICATE, {"data": right["data"]}, patch_type="merge", namespace=SYSTEM)
        await cluster.says("a", "Reserved")
        assert held(stand_in) == {"default/a": ("0-1",)}


async def test_faults_can_be_turned_off(client: DaemonClient) -> None:
    stand_in = StandInDaemon(Machine(), faults=Faults(other_origin_is_200=False))
    async with serving(stand_in) as port:
        daemon = client.at(f"http://127.0.0.1:{port}")
        made = await daemon.reserve(BODY)
        stand_in.workloads.records["1"]["origin"] = "OPENSTACK"
        with pytest.raises(Refused, match="HTTP 403"):
            await daemon.release(made)
