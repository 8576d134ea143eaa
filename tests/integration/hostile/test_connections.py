"""Connections that are opened and left, dribble, lie or do not take their answers: on both ports of the webhook.

10,000 at a time are more than the server keeps: it closes the oldest that carry nothing, and a good request finds a place.
"""

from __future__ import annotations

import contextlib
import json
import resource
import socket
import ssl
import statistics
import time
from collections.abc import Iterator

import pytest

from app.serving.listener import CONNECTIONS
from tests.integration.hostile.conftest import Connections, descriptors, memory, settle, told
from tests.support.waiting import PATIENCE
from tests.support.webhook_process import Webhook, load_review

MANY = 10_000
GROWTH = 240
"""MiB, for 1,024 places; 10,000 handshakes that never begin would take 500, and those that fail as much again."""
HELLO = b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(32)
POST = b"POST /mutate HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
LIMIT = 7 * 1024 * 1024


@pytest.fixture(scope="module", autouse=True)
def many_descriptors() -> Iterator[None]:
    """For us and for the process that we start."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = MANY + 2_000
    if before[0] != resource.RLIM_INFINITY and before[0] < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, max(wanted, before[1])))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, before)


@pytest.fixture(autouse=True)
def goes_on(webhook: Webhook) -> Iterator[None]:
    """After each test the next reviews are answered, and all descriptors are given back."""
    good(webhook)
    before = descriptors(webhook.process.pid)
    yield
    good(webhook)
    settle(lambda: descriptors(webhook.process.pid) <= before + 4, "the descriptors are given back")


def good(webhook: Webhook, number: int = 5) -> float:
    """Milliseconds that a good review takes, its handshake with it; the median of some."""
    took = []
    for _ in range(number):
        began = time.perf_counter()
        status, answer = webhook.post(load_review("webhook-demo"))
        took.append((time.perf_counter() - began) * 1000)
        assert status == 200
        assert answer["response"]["patch"]
    assert webhook.get("/healthz") == (200, "ok")
    assert webhook.get("/readyz")[0] == 200
    return statistics.median(took)


def opened(address: tuple[str, int], number: int, content: bytes, kept: Connections) -> None:
    """So many connections that send this and no more; the server may close them."""
    for _ in range(number):
        connection = socket.create_connection(address, timeout=PATIENCE)
        kept.append(connection)
        with contextlib.suppress(OSError):
            connection.sendall(content)


def secured(webhook: Webhook, number: int, content: bytes, kept: Connections) -> None:
    """The same, with a finished handshake."""
    context = webhook.pki.context()
    for _ in range(number):
        connection = context.wrap_socket(
            socket.create_connection(webhook.address, timeout=PATIENCE), server_hostname="localhost"
        )
        connection.sendall(content)
        kept.append(connection)


def ended(connection: socket.socket) -> bytes:
    """Everything that comes until the server closes the connection."""
    received = b""
    with contextlib.suppress(ConnectionError, ssl.SSLError):
        while chunk := connection.recv(65536):
            received += chunk
    return received


@pytest.mark.parametrize(
    ("port", "content"),
    [("reviews", b""), ("reviews", HELLO), ("reviews", b"GET / HTTP/1.1\r\n"), ("health", b"GET / HTTP/1.1\r\nX: ")],
    ids=["silent", "half a handshake", "no handshake", "half a head"],
)
def test_ten_thousand_connections_opened_and_left(
    webhook: Webhook, left: Connections, port: str, content: bytes
) -> None:
    pid = webhook.process.pid
    before, took = memory(pid), good(webhook)
    opened(webhook.address if port == "reviews" else webhook.health_address, MANY, content, left)
    among = good(webhook)
    settle(lambda: descriptors(pid) < CONNECTIONS + 200, "no more are kept than there are places")
    during = memory(pid)
    assert during - before < GROWTH
    for connection in left:
        connection.close()
    after = good(webhook)
    told(f"MiB {before:.0f} {during:.0f} {memory(pid):.0f}, ms {took:.1f} {among:.1f} {after:.1f}")
    assert webhook.process.poll() is None


def test_connections_with_tls_that_are_left_at_every_stage(webhook: Webhook, left: Connections) -> None:
    pid = webhook.process.pid
    before = memory(pid)
    for content in (
        b"",
        b"POST /mut",
        POST,
        POST + b"Content-Length: 500\r\n\r\n{",
        POST + b"Expect: 100-continue\r\n\r\n",
    ):
        secured(webhook, 150, content, left)
    good(webhook)
    assert memory(pid) - before < GROWTH


def test_a_client_that_waits_for_its_turn_keeps_its_connection_where_others_bring_nothing(
    webhook: Webhook, left: Connections
) -> None:
    """Who has asked before is closed after those who have not."""
    kept = webhook.connect()
    ask = json.dumps(load_review("plain")).encode()

    def answered() -> int:
        kept.request("POST", "/mutate", ask, {"Content-Type": "application/json"})
        answer = kept.getresponse()
        answer.read()
        return answer.status

    assert answered() == 200
    first = kept.sock
    opened(webhook.address, CONNECTIONS + 500, b"", left)
    assert ended(left[0]) == b""
    assert answered() == 200
    assert kept.sock is first
    kept.close()


def test_dribbled_heads_bodies_and_handshakes(webhook: Webhook, left: Connections) -> None:
    """A byte at a time from many at once, between good requests."""
    secured(webhook, 100, POST[:10], left)
    secured(webhook, 100, POST + b"Content-Length: 4000\r\n\r\n", left)
    opened(webhook.address, 100, HELLO[:1], left)
    opened(webhook.health_address, 100, b"G", left)
    for at in range(10, 18):
        for connection in left:
            with contextlib.suppress(OSError):
                connection.sendall(POST[at : at + 1])
        good(webhook, 1)


@pytest.mark.parametrize(
    ("head", "statuses"),
    [
        (b"Content-Length: 100000000\r\n\r\n", (413,)),
        (b"Content-Length: 99999999999999999999999999\r\n\r\n", (400,)),
        (b"Transfer-Encoding: chunked\r\n\r\nFFFFFFFFFFFFFFFFFF\r\n", (400,)),
        (b"Transfer-Encoding: chunked\r\n\r\n7000000\r\n", (413,)),
    ],
)
def test_lengths_that_lie(webhook: Webhook, left: Connections, head: bytes, statuses: tuple[int, ...]) -> None:
    """The body goes on for longer than is read."""
    pid = webhook.process.pid
    before = memory(pid)
    secured(webhook, 1, POST + head, left)
    left[0].settimeout(PATIENCE)
    with contextlib.suppress(OSError):
        for _ in range(6 * LIMIT // 65536):
            left[0].sendall(b"x" * 65536)
    answer = ended(left[0])
    assert answer == b"" or int(answer.split(b" ")[1]) in statuses  # reset where we were still writing
    assert memory(pid) - before < 64


def test_twenty_bodies_of_the_largest_size_at_a_time(webhook: Webhook, left: Connections) -> None:
    """All but their last byte: then they wait, and are held in memory."""
    pid = webhook.process.pid
    before = memory(pid)
    secured(webhook, 20, POST + b"Content-Length: %d\r\n\r\n" % LIMIT, left)
    for connection in left:
        with contextlib.suppress(OSError):  # a deadline may have passed on a busy machine
            connection.sendall(b" " * (LIMIT - 1))
    good(webhook)
    assert memory(pid) - before < 20 * 7 * 3


@pytest.mark.parametrize("request_line", [b"GET /metrics HTTP/1.1\r\n\r\n", b"POST /healthz HTTP/1.1\r\n\r\n"])
def test_pipelined_requests_whose_answers_nobody_takes(
    webhook: Webhook, left: Connections, request_line: bytes
) -> None:
    """A quarter of a megabyte at a time would be ten thousand requests that wait."""
    pid = webhook.process.pid
    before = memory(pid)
    opened(webhook.health_address, 100, request_line * 10_000, left)
    good(webhook)
    assert memory(pid) - before < GROWTH


def test_a_few_pipelined_requests_are_answered_and_too_many_are_not(webhook: Webhook, left: Connections) -> None:
    opened(webhook.health_address, 2, b"", left)
    for connection, number in zip(left, (20, 2_000), strict=True):
        connection.settimeout(PATIENCE)
        connection.sendall(
            b"GET /healthz HTTP/1.1\r\n\r\n" * (number - 1) + b"GET /healthz HTTP/1.1\r\nConnection: close\r\n\r\n"
        )
    assert ended(left[0]).count(b"HTTP/1.1 200 OK") == 20
    assert ended(left[1]).count(b"HTTP/1.1 200 OK") < 2_000


def test_what_was_told_of_it_is_little_and_sound(webhook: Webhook) -> None:
    """Whoever fills the places does not fill the log."""
    lines = [json.loads(line) for line in list(webhook.lines)]
    others = [line for line in lines if line["msg"] != "review"]
    assert any("connections are taken" in line["msg"] for line in others)
    assert len(others) < 300
    assert not [line for line in lines if line["level"] == "error"]
