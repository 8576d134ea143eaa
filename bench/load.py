"""The load generator, a process of its own: keep-alive TLS connections with one review in flight on each.

It is lean on purpose (non-blocking sockets, no event loop, no HTTP library), for a generator that is itself
full would flatter whatever is slower than it; it reports how busy it was. Every answer is checked: HTTP 200 and, byte
by byte, the body of the first answer, which was parsed and must allow the review of that uid.
"""

from __future__ import annotations

import argparse
import json
import select
import socket
import ssl
import time
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Self

from bench.processes import cpu_seconds
from bench.reviews import Review, parse

_CHUNK = 256 * 1024
_PATIENCE = 10.0


class LoadError(Exception):
    """An answer was wrong, or none came; a run with one wrong answer measures nothing."""


@dataclass(frozen=True, slots=True)
class Result:
    """What one round measured. `p50` and `p99` are seconds; the busy figures are shares of one core."""

    answers: int
    seconds: float
    p50: float
    p99: float
    generator_busy: float
    server_busy: float
    first_answer: str

    @property
    def rate(self) -> float:
        return self.answers / self.seconds

    @property
    def percentile(self) -> dict[int, float]:
        """Latency in seconds by percentile."""
        return {50: self.p50, 99: self.p99}

    @classmethod
    def parse(cls, text: str) -> Self:
        values = json.loads(text)
        return cls(**{field.name: values[field.name] for field in fields(cls)})


class Connection:
    """One keep-alive connection. The first exchange blocks and learns what every answer must look like."""

    def __init__(self, address: tuple[str, int], *, context: ssl.SSLContext, request: bytes) -> None:
        plain = socket.create_connection(address, timeout=_PATIENCE)
        plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._socket = context.wrap_socket(plain, server_hostname="localhost")
        self._request = request
        self._received = b""
        self.sent_at = 0.0

    def fileno(self) -> int:
        return self._socket.fileno()

    def close(self) -> None:
        self._socket.close()

    def first_exchange(self) -> bytes:
        """Send one request and return the whole answer."""
        self._socket.sendall(self._request)
        answer = b""
        while b"\r\n\r\n" not in answer:
            answer += self._receive_some()
        size = answer.index(b"\r\n\r\n") + 4 + _content_length(answer)
        while len(answer) < size:
            answer += self._receive_some()
        self._socket.setblocking(False)
        return answer

    def send(self) -> None:
        self.sent_at = time.perf_counter()
        if self._socket.send(self._request) != len(self._request):
            raise LoadError("the connection took only part of a request")

    def receive(self, size: int) -> bytes | None:
        """The answer once `size` bytes of it are here, None before that."""
        while True:
            try:
                data = self._received + self._receive_some()
            except ssl.SSLWantReadError:
                return None
            if len(data) >= size:
                self._received = b""
                return data
            self._received = data

    def _receive_some(self) -> bytes:
        data = self._socket.recv(_CHUNK)
        if not data:
            raise LoadError(f"the server closed the connection after {self._received[:200]!r}")
        return data


class Generator:
    """Opens the connections, checks the first answers, then runs rounds."""

    def __init__(self, address: tuple[str, int], path: str, *, review: Review, connections: int, cafile: Path) -> None:
        context = ssl.create_default_context(cafile=str(cafile))
        request = review.http_request(path)
        self._connections: list[Connection] = []
        try:
            for _ in range(connections):
                self._connections.append(Connection(address, context=context, request=request))
            self._learn(review)
        except BaseException:
            self.close()
            raise
        self._poll = select.poll()
        self._by_number = {connection.fileno(): connection for connection in self._connections}
        for number in self._by_number:
            self._poll.register(number, select.POLLIN)

    def close(self) -> None:
        for connection in self._connections:
            connection.close()

    @property
    def first_answer(self) -> bytes:
        return self._body

    def run(self, seconds: float) -> tuple[list[float], float]:
        """Keep every connection busy for `seconds`; the latencies of the answers, and how long it really took."""
        latencies: list[float] = []
        begin = time.perf_counter()
        end = begin + seconds
        for connection in self._connections:
            connection.send()
        pending = len(self._connections)
        while pending:
            ready = self._poll.poll(_PATIENCE * 1000)
            if not ready:
                raise LoadError(f"no answer within {_PATIENCE:g} s")
            for number, _ in ready:
                connection = self._by_number[number]
                answer = connection.receive(self._size)
                if answer is None:
                    continue
                now = time.perf_counter()
                self._check(answer)
                latencies.append(now - connection.sent_at)
                if now < end:
                    connection.send()
                else:
                    pending -= 1
        return latencies, time.perf_counter() - begin

    def _learn(self, review: Review) -> None:
        """One exchange on each connection: what the first says is what all must say from now on."""
        answers = [connection.first_exchange() for connection in self._connections]
        self._size = len(answers[0])
        self._body = answers[0].partition(b"\r\n\r\n")[2]
        for answer in answers:
            self._check(answer)
        _check_review(self._body, review)

    def _check(self, answer: bytes) -> None:
        if len(answer) == self._size and answer.startswith(b"HTTP/1.1 200 ") and answer.endswith(self._body):
            return
        raise LoadError(f"an answer differs from the first one: {answer[:500]!r}")


def measure(generator: Generator, *, seconds: float, warm_up: float, server_pids: list[int]) -> Result:
    """Warm up, then measure for `seconds`."""
    if warm_up:
        generator.run(warm_up)
    own, server = time.process_time(), cpu_seconds(server_pids)
    latencies, took = generator.run(seconds)
    own, server = time.process_time() - own, cpu_seconds(server_pids) - server
    latencies.sort()
    return Result(
        answers=len(latencies),
        seconds=took,
        p50=latencies[len(latencies) // 2],
        p99=latencies[min(len(latencies) - 1, len(latencies) * 99 // 100)],
        generator_busy=own / took,
        server_busy=server / took,
        first_answer=generator.first_answer.decode(),
    )


def _content_length(answer: bytes) -> int:
    for line in answer.partition(b"\r\n\r\n")[0].split(b"\r\n"):
        name, _, value = line.partition(b":")
        if name.lower() == b"content-length":
            return int(value)
    raise LoadError(f"an answer without Content-Length: {answer[:500]!r}")


def _check_review(body: bytes, review: Review) -> None:
    response = json.loads(body)["response"]
    if response["uid"] != review.uid or response["allowed"] is not True:
        raise LoadError(f"review {review.name}: want it allowed under its own uid, got {body[:500]!r}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--path", required=True)
    parser.add_argument("--review", type=Path, required=True, help="file with the AdmissionReview to send")
    parser.add_argument("--cafile", type=Path, required=True)
    parser.add_argument("--connections", type=int, default=16)
    parser.add_argument("--seconds", type=float, default=1.0)
    parser.add_argument("--warm-up", type=float, default=0.3)
    parser.add_argument("--server-pid", type=int, action="append", default=[])
    given = parser.parse_args()
    review = parse(given.review.stem, given.review.read_bytes())
    generator = Generator(
        ("127.0.0.1", given.port), given.path, review=review, connections=given.connections, cafile=given.cafile
    )
    result = measure(generator, seconds=given.seconds, warm_up=given.warm_up, server_pids=given.server_pid)
    generator.close()
    print(json.dumps(asdict(result)))


if __name__ == "__main__":
    main()
