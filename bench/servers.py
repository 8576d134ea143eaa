"""The server processes of a run: started, waited for, loaded, stopped. Each logs into a file of its own."""

from __future__ import annotations

import http.client
import os
import signal
import socket
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType

from bench.load import SAMPLE, Expected, Report, ask, run
from bench.processes import cores, cpu_seconds, pin, resident_mib, serving_pids
from bench.reviews import Load
from bench.surroundings import Surroundings, free_port

ROOT = Path(__file__).resolve().parent.parent
_BERTH = str(Path(sys.executable).with_name("berth"))
_START_SECONDS = 60.0
_STOP_SECONDS = 20.0
_LOOK_SECONDS = 0.02


class ServerError(Exception):
    """A server did not start, or died; the message has the end of its log."""


@dataclass(frozen=True, slots=True)
class Result:
    """What one round measured: the generator's report, and the CPU seconds of the server's workers."""

    report: Report
    server_cpu: float

    @property
    def rate(self) -> float:
        return self.report.answers / self.report.seconds

    @property
    def cost(self) -> float:
        """CPU seconds of the server for each review."""
        return self.server_cpu / self.report.answers

    @property
    def server_busy(self) -> float:
        """As a share of one core; so is the next."""
        return self.server_cpu / self.report.seconds

    @property
    def generator_busy(self) -> float:
        return self.report.cpu / self.report.seconds


@dataclass(frozen=True, slots=True)
class Server:
    """A running server: `port` takes reviews on `path`, or on one path a load where `path` is "".

    `start_seconds` passed until it was ready; `health` is the port of Berth's metrics. By load, `expected` says what
    its answers look like, and `sent` how many reviews it got.
    """

    name: str
    port: int
    process: subprocess.Popen[bytes]
    log: Path
    path: str
    start_seconds: float
    health: int = 0
    expected: dict[str, Expected] = field(default_factory=dict)
    sent: Counter[str] = field(default_factory=Counter)

    @property
    def workers(self) -> list[int]:
        return serving_pids(self.process.pid)

    def resident_mib(self) -> float:
        """Of the largest worker."""
        return max(resident_mib(pid) for pid in self.workers)

    def cpu_seconds(self) -> float:
        """Of all workers so far."""
        return cpu_seconds(self.workers)

    def memo_hits(self) -> float:
        """How many reviews were answered from the memo so far."""
        name = "admission_memo_lookups_total{"
        lines = metrics(self.health).splitlines()
        return sum(float(line.split()[-1]) for line in lines if line.startswith(name) and 'result="hit"' in line)


def start_floor(
    around: Surroundings,
    answers: Path | None,
    *,
    name: str = "floor",
    fastapi: bool = False,
    workers: int = 1,
    pinned: bool = True,
) -> Server:
    port = free_port()
    tls = ["--cert", str(around.certificate), "--key", str(around.key)]
    command = [sys.executable, "-m", "bench.floor", "--port", str(port), *tls]
    command += ["--answers", str(answers)] if answers else []
    command += ["--workers", str(workers), *(["--fastapi"] if fastapi else [])]
    allowed = cores()[0] if pinned else set()
    return _start(name, command, around, port=port, ready=lambda: _listens(port), allowed=allowed)


def start_kopf(around: Surroundings) -> Server:
    port = free_port()
    tls = ["--cert", str(around.certificate), "--key", str(around.key)]
    command = [sys.executable, "-m", "bench.kopf_baseline", "--port", str(port), *tls]
    return _start("kopf", command, around, port=port, ready=lambda: _listens(port), path="/mutate")


def start_api(around: Surroundings, *, count: int, beside: bool = False) -> Server:
    """An API server with so many attachments; `beside` the servers that are compared, on the other core."""
    port = free_port()
    command = [sys.executable, "-m", "bench.apiserver", "--port", str(port), "--count", str(count)]
    allowed = cores()[1] if beside else cores()[0]
    return _start(f"api-{count}", command, around, port=port, ready=lambda: _listens(port), allowed=allowed)


def start_berth(
    around: Surroundings,
    *,
    name: str,
    source: Sequence[str],
    workers: int = 1,
    pinned: bool = True,
    environment: Mapping[str, str] = MappingProxyType({}),
    without: str = "",
) -> Server:
    """The console script, as an operator starts it; ready when /readyz says so. `source` names the attachments.

    Or the same `without` a shortcut of `bench.shortcuts`.
    """
    port, health = free_port(), free_port()
    command = [sys.executable, "-m", "bench.shortcuts", without] if without else [_BERTH]
    command += ["webhook", "--insecure", "--bind-address", "127.0.0.1"]
    command += ["--port", str(port), "--health-check-port", str(health), "--drain-seconds", "0"]
    command += ["--tls-cert-file", str(around.certificate), "--tls-private-key-file", str(around.key)]
    command += ["--workers", str(workers), *source]
    allowed = cores()[0] if pinned else set()
    return _start(
        name,
        command,
        around,
        port=port,
        ready=lambda: is_ready(health),
        path="/mutate",
        allowed=allowed,
        environment=environment,
        health=health,
    )


def load(
    server: Server, around: Surroundings, what: Load, *, seconds: int = 1, connections: int = 16, pinned: bool = True
) -> Result:
    """One round on that server, which goes on in the load where its last round ended. Raises LoadError."""
    path = server.path or f"/{what.name}"
    if what.name not in server.expected:
        answers = ask(server.port, path, what.first(SAMPLE), certificate=around.certificate)
        server.expected[what.name] = Expected.of(answers)
    before, start, expected = server.cpu_seconds(), server.sent[what.name], server.expected[what.name]
    report = run(
        server.port,
        path,
        what,
        expected=expected,
        start=start,
        connections=connections,
        seconds=seconds,
        pinned=pinned,
    )
    server.sent[what.name] += report.answers
    return Result(report, server.cpu_seconds() - before)


@contextmanager
def running() -> Iterator[Callable[[Server], Server]]:
    """Servers that are stopped at the end, the last one first."""
    with ExitStack() as stack:

        def keep(server: Server) -> Server:
            stack.callback(stop, server.process)
            return server

        yield keep


def _start(
    name: str,
    command: Sequence[str],
    around: Surroundings,
    *,
    port: int,
    ready: Callable[[], bool],
    path: str = "",
    allowed: set[int] | None = None,
    environment: Mapping[str, str] = MappingProxyType({}),
    health: int = 0,
) -> Server:
    log = around.directory / f"{name}.log"
    own = {key: value for key, value in os.environ.items() if not key.startswith(("BERTH_", "KOPF_"))}
    begin = time.monotonic()
    with log.open("wb") as output:
        process = subprocess.Popen(
            command,
            cwd=ROOT,
            env={**own, **environment},
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
        )
    # Before the interpreter has started a thread or a worker, all of which inherit it.
    pin(process.pid, cores()[0] if allowed is None else allowed)
    while not ready():
        if process.poll() is not None or time.monotonic() > begin + _START_SECONDS:
            process.kill()
            raise ServerError(f"{name} did not start:\n{_tail(log)}")
        time.sleep(_LOOK_SECONDS)
    return Server(name, port, process, log, path, time.monotonic() - begin, health)


def _listens(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), timeout=1).close()
    except OSError:
        return False
    return True


def is_ready(port: int) -> bool:
    """Whether /readyz on that port says so."""
    try:
        return get(port, "/readyz")[0] == 200
    except (OSError, http.client.HTTPException):
        return False


def get(port: int, path: str) -> tuple[int, bytes]:
    """Status and body of an answer without TLS."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
    try:
        connection.request("GET", path)
        response = connection.getresponse()
        return response.status, response.read()
    finally:
        connection.close()


def metrics(port: int) -> str:
    return get(port, "/metrics")[1].decode()


def stop(process: subprocess.Popen[bytes]) -> None:
    """With SIGTERM; what does not end then is killed."""
    process.send_signal(signal.SIGTERM)
    try:
        process.wait(_STOP_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    if process.stdin is not None:
        process.stdin.close()


def _tail(log: Path) -> str:
    return log.read_bytes()[-2000:].decode(errors="replace")
