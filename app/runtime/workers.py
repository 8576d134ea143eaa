"""Several worker processes behind one port: started, watched, restarted and drained by a parent that serves health.

Each worker has its own listening socket on the shared port (SO_REUSEPORT), so the kernel spreads the connections;
the parent keeps the sockets open, so what queues at a dead worker waits for its successor. Readiness is that of all
workers.
"""

from __future__ import annotations

import asyncio
import contextlib
import multiprocessing
import os
import signal
import socket
import tempfile
from multiprocessing import resource_tracker
from multiprocessing.connection import Connection
from multiprocessing.context import SpawnProcess

import structlog
import uvloop
from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest, multiprocess

from app import logs
from app.admission.server import health_app, make_server
from app.errors import BerthError, UsageError
from app.runtime.stopping import on_stop, until_signal
from app.runtime.worker_metrics import WorkerTotals
from app.settings.webhook import WebhookSettings
from app.tracing.opening import opened_spans

_log = structlog.get_logger(__name__)
_SPAWN = multiprocessing.get_context("spawn")
SHARED_MEMORY = "/dev/shm"  # noqa: S108  the directory made in it is ours alone
_RESTART_SECONDS = (0.2, 1.0, 5.0, 15.0)


class Worker:
    """One worker process and what it last said of its readiness."""

    def __init__(self, number: int, settings: WebhookSettings, listener: socket.socket) -> None:
        self.number = number
        self._settings, self._listener = settings, listener
        self.waiting = [f"worker {number}: not started"]
        self.process: SpawnProcess | None = None
        self.restarts = 0
        self._served = False
        self._mistake = ""

    async def keep_running(self, stop: asyncio.Event) -> None:
        """Start the process again, with growing pauses, until `stop`; returns when the last one is gone.

        Raises UsageError where the settings are wrong and this worker never served anything.
        """
        failures = 0
        while not stop.is_set():
            receiver, sender = _SPAWN.Pipe(duplex=False)
            self.process = _SPAWN.Process(
                target=_worker, args=(self._settings, self._listener, sender), name=f"berth-worker-{self.number}"
            )
            _start_deaf_to_interrupts(self.process)
            sender.close()
            was_ready = await self._follow(receiver)
            status = await asyncio.to_thread(_join, self.process)
            _mark_dead(self.process.pid)
            self.process = None
            if stop.is_set():
                return
            if self._mistake and not self._served:
                raise UsageError(self._mistake)
            failures = 1 if was_ready else failures + 1
            self.restarts += 1
            pause = _RESTART_SECONDS[min(failures, len(_RESTART_SECONDS)) - 1]
            self.waiting = [f"worker {self.number}: ended with status {status}"]
            _log.error("worker ended; starting another", worker=self.number, status=status, pause_seconds=pause)
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(stop.wait(), pause)

    def terminate(self) -> None:
        if self.process is not None and self.process.is_alive():
            self.process.terminate()

    async def _follow(self, receiver: Connection) -> bool:
        """Take the worker's reports until it ends; True if it was ready at some time."""
        ended, was_ready = asyncio.Event(), False

        def on_readable() -> None:
            nonlocal was_ready
            try:
                report = receiver.recv()
            except (EOFError, OSError):
                ended.set()
                return
            if isinstance(report, str):
                self._mistake = report
                return
            self.waiting = [f"worker {self.number}: {item}" for item in report]
            was_ready = was_ready or not self.waiting
            self._served = self._served or was_ready

        loop = asyncio.get_running_loop()
        loop.add_reader(receiver.fileno(), on_readable)
        try:
            await ended.wait()
        finally:
            loop.remove_reader(receiver.fileno())
            receiver.close()
        return was_ready


async def supervise(settings: WebhookSettings, *, listeners: list[socket.socket], health: socket.socket) -> bool:
    """Run one worker a listener until SIGTERM or SIGINT, then wait until all have drained; a second signal ends that.

    False where it was ended. Raises UsageError where the settings are wrong.
    """
    workers = [Worker(number, settings, listener) for number, listener in enumerate(listeners, 1)]
    hurried = False

    def hurry() -> None:
        nonlocal hurried
        hurried = True
        for worker in workers:
            worker.terminate()

    stop = on_stop(hurry)

    def waiting() -> list[str]:
        return ["stopping"] if stop.is_set() else [item for worker in workers for item in worker.waiting]

    totals = WorkerTotals(
        lambda: [worker.process for worker in workers if worker.process is not None],
        lambda: sum(worker.restarts for worker in workers),
    )
    server = make_server(health_app(readiness=waiting, metrics=lambda: exposition(totals)), grace_seconds=1)
    with metrics_directory() as directory:
        os.environ["PROMETHEUS_MULTIPROC_DIR"] = directory
        try:
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(server.serve(sockets=[health]))
                running = [tasks.create_task(worker.keep_running(stop)) for worker in workers]
                await stop.wait()
                for worker, listener in zip(workers, listeners, strict=True):
                    # From now on the worker alone holds its socket: when it stops listening, nothing queues unheard.
                    listener.close()
                    worker.terminate()
                await asyncio.wait(running)
                server.should_exit = True
        except* UsageError as group:
            raise UsageError(str(group.exceptions[0])) from None
        finally:
            for worker in workers:
                worker.terminate()
    return not hurried


def metrics_directory() -> tempfile.TemporaryDirectory[str]:
    """Where the workers keep their counters; in memory where nothing else can be written, as in many containers.

    Raises UsageError where that cannot be written either.
    """
    for place in (None, SHARED_MEMORY):
        try:
            return tempfile.TemporaryDirectory(prefix="berth-metrics-", dir=place, ignore_cleanup_errors=True)
        except OSError:
            continue
    raise UsageError("--workers: no directory for temporary files can be written; mount one at /tmp or set TMPDIR")


def exposition(totals: WorkerTotals) -> tuple[bytes, str]:
    """The text exposition over all workers, the dead ones' counters included, and its content type.

    Series of the parent are not in it: the parent keeps them in memory, in another registry.
    """
    registry = CollectorRegistry()
    registry.register(totals)
    multiprocess.MultiProcessCollector(registry)  # type: ignore[no-untyped-call]  # the library has no types here
    return generate_latest(registry), CONTENT_TYPE_LATEST


def _start_deaf_to_interrupts(process: SpawnProcess) -> None:
    """Start a process that Ctrl-C does not reach: a terminal sends it to all of us, and the parent passes it on."""
    # The first start would start this one too, which ends by letting SIGINT through again, for the worker as well.
    resource_tracker.ensure_running()
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
    try:
        process.start()
    finally:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGINT])


def _join(process: SpawnProcess) -> int | None:
    process.join()
    return process.exitcode


def _mark_dead(pid: int | None) -> None:
    if pid is not None:
        multiprocess.mark_process_dead(pid)  # type: ignore[no-untyped-call]  # the library has no types here


def _worker(settings: WebhookSettings, listener: socket.socket, reports: Connection) -> None:
    """The body of a worker process."""
    from app.runtime.serving import Serving  # noqa: PLC0415  after PROMETHEUS_MULTIPROC_DIR is set

    logs.configure(settings.level)
    try:
        with opened_spans("webhook") as spans:
            serving = Serving(settings, listener=listener, health=None, report=_Reports(reports), spans=spans)
            uvloop.run(until_signal(serving.run))
    except UsageError as error:
        reports.send(str(error))
        raise SystemExit(2) from error
    except BerthError as error:
        _log.error("worker cannot serve", error=str(error))
        raise SystemExit(1) from error
    except asyncio.CancelledError:
        raise SystemExit(1) from None


class _Reports:
    """Tells the parent each change of readiness; a worker whose parent is gone drains and ends."""

    def __init__(self, pipe: Connection) -> None:
        self._pipe = pipe
        self._parent = os.getppid()
        self._told: list[str] | None = None
        self._orphaned = False

    def __call__(self, waiting: list[str]) -> None:
        if os.getppid() != self._parent and not self._orphaned:
            self._orphaned = True
            _log.error("the parent process is gone; stopping")
            os.kill(os.getpid(), signal.SIGTERM)
        if waiting != self._told:
            self._told = waiting
            with contextlib.suppress(OSError):
                self._pipe.send(waiting)
