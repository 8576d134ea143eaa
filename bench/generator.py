"""The load generator where there is no wrk: the same arguments, the same checks, the same report.

It is lean on purpose (non-blocking sockets, no event loop, no HTTP library); still it is the bottleneck for a server
that answers in less time than it takes to ask.
"""

from __future__ import annotations

import argparse
import json
import select
import socket
import ssl
import time
from dataclasses import asdict
from pathlib import Path

from bench.load import Expected, LoadError, Report

_CHUNK = 256 * 1024
_PATIENCE = 10.0


class Connection:
    """One keep-alive connection over TLS, whose certificate is not verified, as wrk does not."""

    def __init__(self, port: int) -> None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        plain = socket.create_connection(("127.0.0.1", port), timeout=_PATIENCE)
        plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._socket = context.wrap_socket(plain, server_hostname="localhost")
        self._socket.setblocking(False)
        self._received, self._end = b"", 0
        self.sent_at = 0.0

    def fileno(self) -> int:
        return self._socket.fileno()

    def close(self) -> None:
        self._socket.close()

    def send(self, request: bytes) -> None:
        """Requests are smaller than the buffers of a socket: one write takes them whole."""
        self._received, self._end = b"", 0
        self.sent_at = time.perf_counter()
        if self._socket.send(request) != len(request):
            raise LoadError("the server reads more slowly than requests are written")

    def receive(self) -> bytes | None:
        """The whole answer, or None while a part is still on its way."""
        while not self._end or len(self._received) < self._end:
            try:
                chunk = self._socket.recv(_CHUNK)
            except ssl.SSLWantReadError:
                return None
            if not chunk:
                raise LoadError(f"the server closed a connection after {self._received[:500]!r}")
            self._received += chunk
            head, found, _ = self._received.partition(b"\r\n\r\n")
            self._end = len(head) + 4 + _content_length(head) if found else 0
        return self._received


class Generator:
    """Sends requests in their order, from the one at `start` on, and checks each answer."""

    def __init__(self, port: int, requests: list[bytes], *, start: int, connections: int, expected: Expected) -> None:
        self._requests, self._place, self._expected = requests, start, expected
        self._connections = {made.fileno(): made for made in (Connection(port) for _ in range(connections))}
        self._poll = select.poll()
        for number in self._connections:
            self._poll.register(number, select.POLLIN)

    def run(self, seconds: float) -> Report:
        """Keep every connection busy for `seconds`; one review at least is sent on each."""
        latencies: list[float] = []
        bad = 0
        own, begin = time.process_time(), time.perf_counter()
        for connection in self._connections.values():
            self._send(connection)
        pending = len(self._connections)
        while pending:
            ready = self._poll.poll(_PATIENCE * 1000)
            if not ready:
                raise LoadError(f"no answer within {_PATIENCE:g} s")
            for number, _ in ready:
                connection = self._connections[number]
                answer = connection.receive()
                if answer is None:
                    continue
                now = time.perf_counter()
                bad += not self._is_right(answer)
                latencies.append(now - connection.sent_at)
                if now < begin + seconds:
                    self._send(connection)
                else:
                    pending -= 1
        took, count = time.perf_counter() - begin, len(latencies)
        latencies.sort()
        p50, p99 = latencies[count // 2], latencies[min(count - 1, count * 99 // 100)]
        return Report(count, took, p50, p99, time.process_time() - own, bad)

    def close(self) -> None:
        for connection in self._connections.values():
            connection.close()

    def _send(self, connection: Connection) -> None:
        connection.send(self._requests[self._place % len(self._requests)])
        self._place += 1

    def _is_right(self, answer: bytes) -> bool:
        head, _, body = answer.partition(b"\r\n\r\n")
        return head.startswith(b"HTTP/1.1 200 ") and self._expected.met_by(body)


def requests_of(file: Path, path: str, start: int) -> list[bytes]:
    """The whole requests, ready to be written to a connection. Each time through the file the reviews are others."""
    head = (
        f"POST {path} HTTP/1.1\r\nHost: localhost\r\nUser-Agent: kube-apiserver-admission\r\n"
        "Accept: application/json, */*\r\nContent-Type: application/json\r\nContent-Length: "
    ).encode()
    bodies = file.read_bytes().splitlines()
    turn, place = divmod(start, len(bodies))
    turns = [b".t%02d." % ((turn + (number < place)) % 100) for number in range(len(bodies))]
    bodies = [body.replace(b".t00.", own) for body, own in zip(bodies, turns, strict=True)]
    return [b"%b%d\r\n\r\n%b" % (head, len(body), body) for body in bodies]


def _content_length(head: bytes) -> int:
    for line in head.split(b"\r\n"):
        name, _, value = line.partition(b":")
        if name.lower() == b"content-length":
            return int(value)
    raise LoadError(f"an answer without Content-Length: {head[:500]!r}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-t", choices=("1",), help="threads")
    parser.add_argument("-c", type=int, required=True, help="connections")
    parser.add_argument("-d", required=True, help="seconds, as in 2s")
    parser.add_argument("url")
    parser.add_argument("file", type=Path)
    parser.add_argument("start", type=int)
    parser.add_argument("path")
    parser.add_argument("size", type=int)
    parser.add_argument("prefix")
    parser.add_argument("suffix")
    given = parser.parse_args()
    generator = Generator(
        int(given.url.rpartition(":")[2]),
        requests_of(given.file, given.path, given.start),
        start=given.start,
        connections=given.c,
        expected=Expected(given.size, given.prefix, given.suffix),
    )
    report = generator.run(float(given.d.removesuffix("s")))
    generator.close()
    print(json.dumps(asdict(report)))


if __name__ == "__main__":
    main()
