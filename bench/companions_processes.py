"""The processes of the Workload API's measurements: API servers, the controller, the gateway; started and stopped.

An API server is the sandbox's stand-in, or a real kube-apiserver where a directory of binaries is given. Berth's
processes are started as an operator starts them, each with a log of its own.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from bench.processes import cpu_seconds, resident_mib
from bench.servers import ROOT, ServerError, is_ready, stop
from bench.surroundings import free_port
from tests.support.real_apiserver import real_api_servers

UNBOUNDED = tuple(f"companions/{name}" for name in ("queued", "pending", "pending-of-host", "pending-bytes"))
"""The bounds of a tenant that do not hold here."""
_START_SECONDS = 120.0


@dataclass(frozen=True, slots=True)
class Running:
    """A process with its log; `started` is when it was started, in Unix seconds."""

    name: str
    process: subprocess.Popen[bytes]
    log: Path
    started: float

    @property
    def pid(self) -> int:
        return self.process.pid

    @property
    def cpu(self) -> float:
        return cpu_seconds([self.pid])

    @property
    def resident_mib(self) -> float:
        return resident_mib(self.pid)

    def said(self, **fields: str) -> float:
        """When (Unix seconds) it first logged a line with these fields; raises ServerError where it has not."""
        for line in self.log.read_bytes().splitlines():
            with contextlib.suppress(ValueError):
                entry = json.loads(line)
                if fields.items() <= entry.items():
                    return datetime.fromisoformat(entry["time"]).timestamp()
        raise ServerError(f"{self.name} did not log {fields}:\n{self.tail()}")

    def tail(self) -> str:
        return self.log.read_bytes()[-2000:].decode(errors="replace")


@dataclass(frozen=True, slots=True)
class Api:
    """An API server: how to reach it, and which processes its CPU time is in."""

    kubeconfig: Path
    pids: tuple[int, ...]

    @property
    def cpu(self) -> float:
        return cpu_seconds(self.pids)


@contextlib.contextmanager
def api_servers(directory: Path, names: Sequence[str], *, assets: Path | None = None) -> Iterator[list[Api]]:
    """One API server a name, all alike."""
    directory.mkdir(parents=True, exist_ok=True)
    if assets is not None:
        with real_api_servers(assets, directory, names) as made:
            yield [Api(path, _real_pids(path.parent)) for path in made.values()]
        return
    with contextlib.ExitStack() as stack:
        found = []
        for name in names:
            path = directory / f"{name}.kubeconfig"
            command = [sys.executable, "-m", "bench.companions_api", "--kubeconfig", str(path)]
            server = stack.enter_context(running(f"api-{name}", command, directory, ready=path.exists))
            found.append(Api(path, (server.pid,)))
        yield found


@contextlib.contextmanager
def controllers(
    api: Api, directory: Path, names: str, flags: Sequence[str] = (), *, workers: int, name: str = "controller"
) -> Iterator[tuple[Running, int]]:
    """`berth controller` with these controllers alone, without a Lease, and its port with metrics; its caches are full.

    The sweep of the whole comes after the run: 10 minutes is the least that an operator would choose for so many.
    """
    health = free_port()
    command = [sys.executable, "-m", "app", "controller", "--kubeconfig", str(api.kubeconfig), *flags]
    command += ["--controllers", names, "--no-leader-elect", "--bind-address", "127.0.0.1", "--resync-seconds", "600"]
    command += ["--health-check-port", str(health), "--max-concurrent-reconciles", str(workers)]
    with running(name, command, directory, ready=lambda: is_ready(health)) as process:
        yield process, health


@contextlib.contextmanager
def controller(api: Api, directory: Path, *, workers: int, name: str = "controller") -> Iterator[Running]:
    """The controller of companions."""
    # No scheduler looks at the companions here, so the bounds on those without a node would hold all but 100 back.
    unbounded = ["--tenant-quota", ",".join(f"{bound}=" for bound in UNBOUNDED)]
    with controllers(api, directory, "workloads", unbounded, workers=workers, name=name) as (process, _):
        yield process


@contextlib.contextmanager
def running(
    name: str, command: Sequence[str], directory: Path, *, ready: Callable[[], bool], stdin: int = subprocess.DEVNULL
) -> Iterator[Running]:
    """A process that is ready; stopped with SIGTERM."""
    log = directory / f"{name}.log"
    environment = {key: value for key, value in os.environ.items() if not key.startswith("BERTH_")}
    with log.open("wb") as output:
        started = time.time()
        process = subprocess.Popen(command, cwd=ROOT, env=environment, stdin=stdin, stdout=output, stderr=output)
    made = Running(name, process, log, started)
    try:
        give_up = time.monotonic() + _START_SECONDS
        while not ready():
            if process.poll() is not None or time.monotonic() > give_up:
                raise ServerError(f"{name} did not start:\n{made.tail()}")
            time.sleep(0.05)
        yield made
    finally:
        stop(process)


def _real_pids(directory: Path) -> tuple[int, ...]:
    """The kube-apiserver whose files are in that directory."""
    wanted = f"--cert-dir={directory / 'apiserver'}".encode()
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            if wanted in path.read_bytes().split(b"\0"):
                found.append(int(path.parent.name))
    return tuple(found)
