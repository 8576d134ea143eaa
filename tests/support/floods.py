"""Floods: what a client can send to a port to take memory, on connections that read nothing and stay open."""

from __future__ import annotations

import contextlib
import json
import socket
import ssl
from collections.abc import Callable
from typing import NamedTuple

from tests.support.waiting import PATIENCE
from tests.support.webhook_process import load_review

MIB = 1024 * 1024
Connections = list[socket.socket]


class Port(NamedTuple):
    """Where to connect, and the context for TLS."""

    address: tuple[str, int]
    context: ssl.SSLContext


POST = b"POST /mutate HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
LARGEST = 7 * MIB
FIELDS = b"a:\r\n" * 16_000


def send(connection: socket.socket, content: bytes) -> None:
    """As much as the server takes; it may close."""
    with contextlib.suppress(OSError):
        connection.sendall(content)


def crowded(containers: int) -> bytes:
    """A review of a Pod with so many containers that say nothing."""
    review = load_review("plain")
    review["request"]["object"]["spec"]["containers"] = "HERE"
    return json.dumps(review).encode().replace(b'"HERE"', b"[" + b",".join([b"{}"] * containers) + b"]")


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


def secured(port: Port, number: int, content: bytes, kept: Connections) -> None:
    """The same, with a finished handshake."""
    for _ in range(number):
        raw = socket.create_connection(port.address, timeout=PATIENCE)
        kept.append(port.context.wrap_socket(raw, server_hostname="localhost"))
        send(kept[-1], content)


def used(port: Port, number: int, kept: Connections) -> None:
    """Connections that have brought much, and carry nothing any more: buffers of TLS stay."""
    secured(port, number, b"POST /none HTTP/1.1\r\nHost: a\r\nContent-Length: 400000\r\n\r\n" + b" " * 400_000, kept)


REVIEWS: dict[str, Callable[[Port, Connections], None]] = {
    "bodies without an end": lambda port, kept: secured(
        port, 70, POST + b"Content-Length: %d\r\n\r\n" % LARGEST + b" " * (LARGEST - 1), kept
    ),
    "chunks without an end": lambda port, kept: secured(
        port,
        80,
        POST
        + b"Transfer-Encoding: chunked\r\n\r\n"
        + b"f4240\r\n"
        + b" " * 1_000_000
        + b"\r\n5f5e100\r\n"
        + b" " * 5_900_000,
        kept,
    ),
    "heads without an end": lambda port, kept: secured(port, 250, POST + FIELDS, kept),
    "handshakes without an end": lambda port, kept: plain(
        port.address, 1500, b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(32), kept
    ),
    "connections that were used": lambda port, kept: used(port, 400, kept),
    "requests before the answers": lambda port, kept: secured(
        port, 100, (b"GET /none HTTP/1.1\r\nHost: a\r\n" + b"a:\r\n" * 90 + b"\r\n") * 1000, kept
    ),
}


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


def http2(port: Port, number: int, content: bytes, kept: Connections) -> None:
    """Connections over TLS that speak HTTP/2."""
    for _ in range(number):
        connection = port.context.wrap_socket(
            socket.create_connection(port.address, timeout=PATIENCE), server_hostname="localhost"
        )
        kept.append(connection)
        connection.settimeout(0.05)  # a sender that is over its rate waits
        send(connection, b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + frame(4, 0, 0, b"") + content)


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
