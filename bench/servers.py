"""The server processes of a run: started, waited for, loaded, stopped. Each logs into a file of its own."""

from __future__ import annotations

import http.client
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

from bench.load import Result
from bench.processes import cores, cpu_seconds, pin, resident_mib, serving_pids
from bench.reviews import DIRECTORY
from bench.surroundings import Surroundings, free_port

ROOT = Path(__file__).resolve().parent.parent
_START_SECONDS = 60.0
_STOP_SECONDS = 15.0
_LOOK_SECONDS = 0.02


class ServerError(Exception):
    """A server did not start, or died; the message has the end of its log."""


@dataclass(frozen=True, slots=True)
class Server:
    """A running server: `port` takes reviews on `path`, or on one path a review where `path` is "".

    `start_seconds` passed until it was ready.
    """

    name: str
    port: int
    process: subprocess.Popen[bytes]
    log: Path
    path: str
    start_seconds: float

    @property
    def workers(self) -> list[int]:
        return serving_pids(self.process.pid)

    def resident_mib(self) -> float:
        """Of the largest worker."""
        return max(resident_mib(pid) for pid in self.workers)

    def cpu_seconds(self) -> float:
        """Of all workers so far."""
        return cpu_seconds(self.workers)

    def stop(self) -> None:
        self.process.send_signal(signal.SIGTERM)
        try:
            self.process.wait(_STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


def start_floor(around: Surroundings, answers: Path, *, fastapi: bool = False) -> Server:
    port = free_port()
    tls = ["--cert", str(around.certificate), "--key", str(around.key)]
    command = [sys.executable, "-m", "bench.floor", "--port", str(port), *tls, "--answers", str(answers)]
    command += ["--fastapi"] if fastapi else []
    return _start("fastapi" if fastapi else "floor", command, around, port=port, ready=lambda: _listens(port))


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
) -> Server:
    """The console script, as an operator starts it; ready when /readyz says so. `source` names the attachments."""
    port, health = free_port(), free_port()
    command = [str(Path(sys.executable).with_name("berth")), "webhook", "--insecure", "--bind-address", "127.0.0.1"]
    command += ["--port", str(port), "--health-check-port", str(health), "--drain-seconds", "0"]
    command += ["--tls-cert-file", str(around.certificate), "--tls-private-key-file", str(around.key)]
    command += ["--workers", str(workers), *source]
    allowed = cores()[0] if pinned else set()
    return _start(
        name,
        command,
        around,
        port=port,
        ready=lambda: _is_ready(health),
        path="/mutate",
        allowed=allowed,
        environment=environment,
    )


def load(
    server: Server,
    around: Surroundings,
    review: str,
    *,
    seconds: float,
    warm_up: float = 0.3,
    connections: int = 16,
    pinned: bool = True,
) -> Result:
    """One round: a generator of its own against that server."""
    command = [sys.executable, "-m", "bench.load", "--port", str(server.port), "--path", server.path or f"/{review}"]
    command += ["--review", str(DIRECTORY / f"Pod-{review}-CREATE.json"), "--cafile", str(around.certificate)]
    command += ["--seconds", str(seconds), "--warm-up", str(warm_up), "--connections", str(connections)]
    for pid in server.workers:
        command += ["--server-pid", str(pid)]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as generator:
        pin(generator.pid, cores()[1] if pinned else set())
        output, errors = generator.communicate()
    if generator.returncode != 0:
        raise ServerError(f"load on {server.name}, {review}: {errors[-2000:]}\n{_tail(server.log)}")
    return Result.parse(output)


@contextmanager
def running() -> Iterator[Callable[[Server], Server]]:
    """Servers that are stopped at the end, the last one first."""
    with ExitStack() as stack:

        def keep(server: Server) -> Server:
            stack.callback(server.stop)
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
) -> Server:
    log = around.directory / f"{name}.log"
    own = {key: value for key, value in os.environ.items() if not key.startswith(("BERTH_", "KOPF_"))}
    begin = time.monotonic()
    with log.open("wb") as output:
        process = subprocess.Popen(
            command,
            cwd=ROOT,
            env=own | environment,
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
    return Server(name, port, process, log, path, time.monotonic() - begin)


def _listens(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), timeout=1).close()
    except OSError:
        return False
    return True


def _is_ready(port: int) -> bool:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=2)
    try:
        connection.request("GET", "/readyz")
        return connection.getresponse().status == 200
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()


def _tail(log: Path) -> str:
    return log.read_bytes()[-2000:].decode(errors="replace")
