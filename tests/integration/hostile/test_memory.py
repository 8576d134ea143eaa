"""The memory of each port has a bound: real processes under a real limit (RLIMIT_DATA), near that of the chart.

The limit counts more than a container's does: buffers that were never touched, and stacks of threads.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import resource
import socket
import ssl
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import grpc.aio
import pytest
import pytest_asyncio

from app.serving.memory import REFUSALS
from app.tenancy.model import GATEWAY_NAME
from app.tenancy.proto.universe.admin.workload.v1.admin_workload_rule_pb2 import ListRequest
from tests.integration.hostile.conftest import Connections, memory, settle, told
from tests.support.gateway_calls import admin_rules
from tests.support.staging import Stage, staged
from tests.support.waiting import PATIENCE
from tests.support.webhook_process import ATTACHMENTS, Pki, Webhook, flags_for, load_review

MIB = 1024 * 1024
REVIEWS_LIMIT, HEALTH_LIMIT, GATEWAY_LIMIT = 512 * MIB, 256 * MIB, 1024 * MIB
"""Those of `webhook` and of `certificates`, the smallest, and of `gateway` in charts/berth/values.yaml."""
POST = b"POST /mutate HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
LARGEST = 7 * MIB
FIELDS = b"a:\r\n" * 16_000


@pytest.fixture
def limited(tmp_path: Path) -> Iterator[Callable[[int], Webhook]]:
    """Starts a webhook that may have so many bytes of data. In the end it is well, and has logged no error."""
    started: list[Webhook] = []

    def start(limit: int) -> Webhook:
        (tmp_path / "manifests").mkdir()
        (tmp_path / "manifests" / "nads.yaml").write_text(ATTACHMENTS)
        pki = Pki(tmp_path / "pki")
        started.append(Webhook(pki, *flags_for(pki, tmp_path / "manifests"), "--insecure").until_ready())
        resource.prlimit(started[0].process.pid, resource.RLIMIT_DATA, (limit, limit))
        return started[0]

    yield start
    for webhook in started:
        well(webhook)
        told(f"{memory(webhook.process.pid):.0f} MiB")
        webhook.stop()
        assert [line for line in webhook.lines if '"level":"error"' in line] == []


def well(webhook: Webhook) -> None:
    assert webhook.process.poll() is None
    status, answer = webhook.post(load_review("webhook-demo"))
    assert (status, answer["response"]["allowed"]) == (200, True), answer
    assert webhook.get("/healthz") == (200, "ok")
    assert webhook.process.poll() is None


def send(connection: socket.socket, content: bytes) -> None:
    """As much as the server takes; it may close."""
    with contextlib.suppress(OSError):
        connection.sendall(content)


def plain(address: tuple[str, int], number: int, content: bytes, kept: Connections, *, receive: int = 0) -> None:
    """So many connections that send this and read nothing; `receive` is the size of what the kernel may keep for us."""
    for _ in range(number):
        connection = socket.socket()
        if receive:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive)
        connection.connect(address)
        kept.append(connection)
        connection.settimeout(PATIENCE)
        send(connection, content)


def secured(webhook: Webhook, number: int, content: bytes, kept: Connections) -> None:
    """The same, with a finished handshake."""
    context = webhook.pki.context()
    for _ in range(number):
        raw = socket.create_connection(webhook.address, timeout=PATIENCE)
        kept.append(context.wrap_socket(raw, server_hostname="localhost"))
        send(kept[-1], content)


def pod(containers: int) -> bytes:
    """A review of a Pod with so many containers that say nothing."""
    review = load_review("plain")
    review["request"]["object"]["spec"]["containers"] = "HERE"
    return json.dumps(review).encode().replace(b'"HERE"', b"[" + b",".join([b"{}"] * containers) + b"]")


REVIEWS: dict[str, Callable[[Webhook, Connections], None]] = {
    "bodies without an end": lambda webhook, kept: secured(
        webhook, 70, POST + b"Content-Length: %d\r\n\r\n" % LARGEST + b" " * (LARGEST - 1), kept
    ),
    "chunks without an end": lambda webhook, kept: secured(
        webhook,
        80,
        POST
        + b"Transfer-Encoding: chunked\r\n\r\n"
        + b"f4240\r\n"
        + b" " * 1_000_000
        + b"\r\n5f5e100\r\n"
        + b" " * 5_900_000,
        kept,
    ),
    "heads without an end": lambda webhook, kept: secured(webhook, 250, POST + FIELDS, kept),
    "handshakes without an end": lambda webhook, kept: plain(
        webhook.address, 1500, b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(32), kept
    ),
    "connections that were used": lambda webhook, kept: secured(
        webhook, 400, b"POST /none HTTP/1.1\r\nHost: a\r\nContent-Length: 400000\r\n\r\n" + b" " * 400_000, kept
    ),
    "requests before the answers": lambda webhook, kept: secured(
        webhook, 100, (b"GET /none HTTP/1.1\r\nHost: a\r\n" + b"a:\r\n" * 90 + b"\r\n") * 1000, kept
    ),
}


@pytest.mark.parametrize("attack", REVIEWS)
def test_reviews(limited: Callable[[int], Webhook], left: Connections, attack: str) -> None:
    webhook = limited(REVIEWS_LIMIT)
    REVIEWS[attack](webhook, left)
    well(webhook)


def test_a_large_review_finds_room_beside_bodies_without_an_end(
    limited: Callable[[int], Webhook], left: Connections
) -> None:
    """Also where they come from the same address. Until then it is asked to come again."""
    webhook = limited(REVIEWS_LIMIT)
    secured(webhook, 30, POST + b"Content-Length: %d\r\n\r\n" % LARGEST + b" " * MIB, left)
    review = load_review("webhook-demo")
    review["request"]["object"]["metadata"]["annotations"]["large"] = "x" * 3 * MIB
    body, statuses = json.dumps(review).encode(), set[int]()
    while 200 not in statuses:
        connection = webhook.connect()
        connection.request("POST", "/mutate", body, {"Content-Type": "application/json"})
        answer = connection.getresponse()
        statuses.add(answer.status)
        if answer.status == 429:
            assert answer.headers["Retry-After"] == "1"
            assert json.loads(answer.read())["response"]["uid"] == review["request"]["uid"]
        connection.close()
    assert statuses <= {200, 429}
    metrics = webhook.metrics()
    assert metrics['port_request_bytes_limit{port="reviews"}'] == 64 * MIB
    assert sum(metrics[f'port_requests_without_room_total{{port="reviews",reason="{why}"}}'] for why in REFUSALS) > 0


def test_reviews_that_are_far_larger_when_they_are_decoded(limited: Callable[[int], Webhook]) -> None:
    webhook = limited(REVIEWS_LIMIT)
    for path in ("/mutate", "/validate"):
        for containers, status in ((1_000_000, 413), (80_000, 200)):
            assert webhook.post(pod(containers), path)[0] == status
        well(webhook)


def test_what_was_taken_is_given_back(limited: Callable[[int], Webhook], left: Connections) -> None:
    webhook = limited(REVIEWS_LIMIT)
    before = memory(webhook.process.pid)
    for _ in range(2):
        REVIEWS["bodies without an end"](webhook, left)
        for connection in left:
            connection.close()
    settle(lambda: webhook.metrics()['port_request_bytes{port="reviews"}'] == 0, "nothing is held")
    well(webhook)
    assert memory(webhook.process.pid) - before < 80


HEALTH: dict[str, Callable[[tuple[str, int], Connections], None]] = {
    "bodies without an end": lambda port, kept: plain(
        port, 200, b"POST /none HTTP/1.1\r\nHost: a\r\nContent-Length: 9000000\r\n\r\n" + b" " * 1_000_000, kept
    ),
    "heads without an end": lambda port, kept: plain(port, 400, b"GET / HTTP/1.1\r\nHost: a\r\n" + FIELDS, kept),
    "connections": lambda port, kept: plain(port, 3000, b"GET / HTTP/1.1\r\n", kept),
    "answers that are not read": lambda port, kept: plain(
        port, 100, b"GET /metrics HTTP/1.1\r\nHost: a\r\n\r\n" * 30, kept, receive=4096
    ),
}


@pytest.mark.parametrize("attack", HEALTH)
def test_health_and_metrics(limited: Callable[[int], Webhook], left: Connections, attack: str) -> None:
    """The port of every role."""
    webhook = limited(HEALTH_LIMIT)
    HEALTH[attack](webhook.health_address, left)
    well(webhook)


class Gateway:
    """A gateway that may have `GATEWAY_LIMIT` bytes of data, and raw connections to it of tenant1."""

    def __init__(self, stage: Stage, process: Any, address: str) -> None:
        self.stage, self.process, self.address = stage, process, address
        host, port = address.split(":")
        self.endpoint = (host, int(port))
        folder = stage.folder / "tenant1"
        self._context = ssl.create_default_context(cafile=str(folder / "ca.crt"))
        self._context.load_cert_chain(folder / "tls.crt", folder / "tls.key")
        self._context.check_hostname = False
        self._context.set_alpn_protocols(["h2"])
        pid = process.process.pid
        resource.prlimit(pid, resource.RLIMIT_DATA, (GATEWAY_LIMIT, GATEWAY_LIMIT))

    def secured(self, number: int, content: bytes, kept: Connections) -> None:
        """Connections of tenant1 that speak HTTP/2 and read nothing."""
        for _ in range(number):
            connection = self._context.wrap_socket(socket.create_connection(self.endpoint, timeout=PATIENCE))
            kept.append(connection)
            connection.settimeout(0.05)  # a sender that is over its rate waits
            send(connection, b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + frame(4, 0, 0, b"") + content)

    async def is_well(self) -> None:
        """Another caller gets an answer."""
        files = [(self.stage.folder / "admin" / name).read_bytes() for name in ("ca.crt", "admin.key", "admin.crt")]
        options = [("grpc.ssl_target_name_override", GATEWAY_NAME), ("grpc.use_local_subchannel_pool", 1)]
        async with grpc.aio.secure_channel(self.address, grpc.ssl_channel_credentials(*files), options) as channel:
            request = ListRequest()
            await admin_rules(channel).List(request, timeout=PATIENCE, wait_for_ready=True)
        assert self.process.returncode is None


def frame(kind: int, flags: int, stream: int, content: bytes) -> bytes:
    """RFC 9113, 4.1."""
    return len(content).to_bytes(3, "big") + bytes((kind, flags)) + stream.to_bytes(4, "big") + content


def literal(name: bytes, value: bytes) -> bytes:
    """A header that no table keeps: RFC 7541, 6.2.2. Lengths below 127."""
    return b"\0" + bytes((len(name),)) + name + bytes((len(value),)) + value


def call(stream: int, method: bytes, more: bytes = b"") -> bytes:
    """The HEADERS of a call: POST, https, path."""
    path = b"/universe.workload.v1.WorkloadRuleService/" + method
    block = b"\x83\x87" + literal(b":path", path) + literal(b":authority", b"a") + literal(b"te", b"trailers")
    return frame(1, 4, stream, block + literal(b"content-type", b"application/grpc") + more)


@pytest_asyncio.fixture
async def gateway(tmp_path: Path) -> AsyncIterator[Gateway]:
    """In the end it is well, and has logged no error."""
    async with staged(tmp_path) as stage:
        process, address = await stage.gateway()
        found = Gateway(stage, process, address)
        yield found
        await found.is_well()
        told(f"{memory(process.process.pid):.0f} MiB")
        assert [line for line in process.lines if '"level":"error"' in line] == []


STREAMS = range(1, 2001, 2)
GRPC: dict[str, bytes] = {
    "messages without an end": b"".join(
        call(stream, b"Create") + frame(0, 0, stream, b"\0" + (4 * MIB - 8).to_bytes(4, "big") + bytes(16_000)) * 4
        for stream in range(1, 100, 2)
    ),
    "streams": b"".join(call(stream, b"Watch") + frame(0, 1, stream, bytes(5)) for stream in STREAMS),
    "metadata": b"".join(call(stream, b"List", literal(b"k", b"v" * 120) * 100) for stream in STREAMS),
    "headers without an end": frame(1, 0, 1, literal(b"k", b"v" * 120) * 100)
    + frame(9, 0, 1, literal(b"k", b"v" * 120) * 100) * 100,
    "pings": frame(6, 0, 0, bytes(8)) * 20_000,
    "settings": frame(4, 0, 0, b"\0\1\0\0\x10\0" * 100) * 2_000,
    "resets": b"".join(call(stream, b"Watch") + frame(3, 0, stream, bytes(4)) for stream in STREAMS),
}


@pytest.mark.parametrize("attack", GRPC)
async def test_grpc(gateway: Gateway, left: Connections, attack: str) -> None:
    """By a tenant, who has the certificate for it."""
    await asyncio.to_thread(gateway.secured, 40, GRPC[attack], left)
    await gateway.is_well()


async def test_grpc_without_a_certificate(gateway: Gateway, left: Connections) -> None:
    await asyncio.to_thread(plain, gateway.endpoint, 3000, b"\x16\x03\x01\x02\0\1\0", left)
    await gateway.is_well()
