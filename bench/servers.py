"""The server processes of a run: started, waited for, loaded, stopped. Each logs into a file of its own."""

from __future__ import annotations

import http.client
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from bench.load import Result
from bench.processes import cores, pin, resident_mib, serving_pids
from bench.reviews import DIRECTORY
from bench.surroundings import Surroundings, free_port

ROOT = Path(__file__).resolve().parent.parent
_START_SECONDS = 60.0
_STOP_SECONDS = 15.0


class ServerError(Exception):
    """A server did not start, or died; the message has the end of its log."""


@dataclass(frozen=True, slots=True)
class Server:
    """A running server: `port` takes reviews on `path`, or on one path a review where `path` is ""."""

    name: str
    port: int
    process: subprocess.Popen[bytes]
    log: Path
    path: str = "/mutate"

    @property
    def workers(self) -> list[int]:
        return serving_pids(self.process.pid)

    def resident_mib(self) -> float:
        """Of the largest worker."""
        return max(resident_mib(pid) for pid in self.workers)

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
    return _start("fastapi" if fastapi else "floor", command, around, port=port, path="", ready=lambda: _listens(port))


def start_kopf(around: Surroundings) -> Server:
    port = free_port()
    tls = ["--cert", str(around.certificate), "--key", str(around.key)]
    command = [sys.executable, "-m", "bench.kopf_baseline", "--port", str(port), *tls]
    return _start("kopf", command, around, port=port, ready=lambda: _listens(port))


def start_api(around: Surroundings, *, count: int) -> Server:
    port = free_port()
    command = [sys.executable, "-m", "bench.apiserver", "--port", str(port), "--count", str(count)]
    return _start(f"api-{count}", command, around, port=port, ready=lambda: _listens(port))


def start_berth(
    around: Surroundings, *, name: str, source: Sequence[str], workers: int = 1, pinned: bool = True
) -> Server:
    """The console script, as an operator starts it; ready when /readyz says so. `source` names the attachments."""
    port, health = free_port(), free_port()
    command = [str(Path(sys.executable).with_name("berth")), "webhook", "--insecure", "--bind-address", "127.0.0.1"]
    command += ["--port", str(port), "--health-check-port", str(health), "--drain-seconds", "0"]
    command += ["--tls-cert-file", str(around.certificate), "--tls-private-key-file", str(around.key)]
    command += ["--workers", str(workers), *source]
    return _start(name, command, around, port=port, ready=lambda: _is_ready(health), pinned=pinned)


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


def _start(
    name: str,
    command: Sequence[str],
    around: Surroundings,
    *,
    port: int,
    ready: Callable[[], bool],
    path: str = "/mutate",
    pinned: bool = True,
) -> Server:
    log = around.directory / f"{name}.log"
    environment = {key: value for key, value in os.environ.items() if not key.startswith(("BERTH_", "KOPF_"))}
    with log.open("wb") as output:
        process = subprocess.Popen(
            command,
            cwd=ROOT,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
        )
    # Before the interpreter has started a thread or a worker, all of which inherit it.
    pin(process.pid, cores()[0] if pinned else set())
    give_up = time.monotonic() + _START_SECONDS
    while not ready():
        if process.poll() is not None or time.monotonic() > give_up:
            process.kill()
            raise ServerError(f"{name} did not start:\n{_tail(log)}")
        time.sleep(0.05)
    return Server(name, port, process, log, path)


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
