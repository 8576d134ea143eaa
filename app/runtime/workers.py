"""The worker processes of the webhook role and their parent: started, watched, restarted, drained and counted.

Workers are forked from a process that has imported all that they need (`preloading`), and share its memory. Each has
its own listening socket on the shared port (SO_REUSEPORT), so the kernel spreads the connections; the parent keeps the
sockets open, so what queues at a dead worker waits for its successor. Readiness is that of all workers.
"""

from __future__ import annotations

import asyncio
import contextlib
import multiprocessing
import os
import signal
import socket
import tempfile
from collections.abc import Callable, Iterable
from multiprocessing import forkserver, resource_tracker, util
from multiprocessing.connection import Connection
from multiprocessing.context import ForkServerProcess
from typing import TYPE_CHECKING

import structlog
import uvloop
from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, ProcessCollector, generate_latest, multiprocess
from prometheus_client.core import CounterMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from app import logs
from app.errors import BerthError, UsageError
from app.metrics import publish
from app.runtime.manager import Manager
from app.runtime.process import until_signal
from app.settings.reconciling import Runnable
from app.settings.webhook import WebhookSettings
from app.tracing.context import opened_spans

if TYPE_CHECKING:  # it needs OpenTelemetry, which need not be installed
    from app.tracing.spans import Spans

_log = structlog.get_logger(__name__)
_FORK_SERVER = multiprocessing.get_context("forkserver")
_FORK_SERVER.set_forkserver_preload(["app.runtime.preloading"])
SHARED_MEMORY = "/dev/shm"  # noqa: S108  the directory made in it is ours alone
_SAFE_PATH = "PYTHONSAFEPATH"
_RESTART_SECONDS = (0.2, 1.0, 5.0, 15.0)
_CPU = "process_cpu_seconds"
_COMBINE: dict[str, Callable[[list[float]], float]] = {
    "process_virtual_memory_bytes": sum,
    "process_resident_memory_bytes": sum,
    "process_start_time_seconds": lambda values: values[0],
    _CPU: sum,  # and of those that are gone
    # A limit is each process's own: the worst of them is what counts.
    "process_open_fds": max,
    "process_max_fds": min,
}
"""The parent's value comes first."""

Serve = Callable[[WebhookSettings, socket.socket, "Spans | None"], Runnable]
"""Makes the work of a worker, in its process."""


class Worker:
    """One worker process and what it last said of its readiness."""

    def __init__(self, number: int, settings: WebhookSettings, listener: socket.socket, serve: Serve) -> None:
        self.number = number
        self._serving = (serve, settings, listener)
        self.waiting = [f"worker {number}: not started"]
        self.process: ForkServerProcess | None = None
        self.restarts = 0
        self._starting: asyncio.Future[None] | None = None
        self._served = False
        self._mistake = ""

    async def keep_running(self, stop: asyncio.Event) -> None:
        """Start the process again, with growing pauses, until `stop`; returns when the last one is gone.

        Raises UsageError where the settings are wrong and this worker never served anything.
        """
        failures = 0
        while not stop.is_set():
            was_ready, status = await self._run_once()
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

    async def started(self) -> None:
        """Return when no start is under way."""
        if self._starting is not None:
            # A start that failed while nothing waited for it has no worker to speak of.
            await asyncio.gather(self._starting, return_exceptions=True)

    async def ended(self) -> None:
        """Terminate the process, and return when there is none. One that drains ends at once."""
        await self.started()
        self.terminate()
        if self.process is not None and self.process.pid is not None:
            await asyncio.to_thread(self.process.join)

    async def _run_once(self) -> tuple[bool, object]:
        """Run one process until it ends: whether it was ready at some time, and its status."""
        receiver, sender = _FORK_SERVER.Pipe(duplex=False)
        self.process = process = _FORK_SERVER.Process(
            target=_worker, args=(*self._serving, sender), name=f"berth-worker-{self.number}"
        )
        try:
            _ensure_fork_server()
            # In a thread: the process that forks answers when it has imported everything.
            self._starting = asyncio.ensure_future(asyncio.to_thread(_start, process, sender))
            await asyncio.shield(self._starting)
        except (OSError, EOFError) as error:  # the process that forks was killed meanwhile
            self.process = None
            receiver.close()
            return False, str(error) or "not started"
        was_ready = await self._follow(receiver)
        await asyncio.to_thread(process.join)
        multiprocess.mark_process_dead(process.pid)  # type: ignore[no-untyped-call]  # the library has no types here
        self.process = None
        return was_ready, process.exitcode

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


class Workers:
    """Runs one worker for each listener. Raises UsageError where the settings are wrong."""

    def __init__(self, settings: WebhookSettings, listeners: list[socket.socket], serve: Serve) -> None:
        self._listeners = listeners
        self._workers = [Worker(number, settings, listener, serve) for number, listener in enumerate(listeners, 1)]
        self._spent: dict[int, float] = {}  # CPU time by process, as it was last read
        self._last: tuple[bytes, str] | None = None  # what is scraped after the directory is gone

    def waiting(self) -> list[str]:
        return [item for worker in self._workers for item in worker.waiting]

    async def run(self, stop: asyncio.Event) -> None:
        """Keep all workers running until `stop` is set, then wait until they have drained."""
        with metrics_directory() as directory:
            os.environ["PROMETHEUS_MULTIPROC_DIR"] = directory
            _choose_socket_directory()
            try:
                async with asyncio.TaskGroup() as tasks:
                    for worker in self._workers:
                        tasks.create_task(worker.keep_running(stop))
                    await stop.wait()
                    for worker, listener in zip(self._workers, self._listeners, strict=True):
                        await worker.started()
                        # From now on the worker alone holds its socket: when it stops listening, nothing queues there.
                        listener.close()
                        worker.terminate()
            finally:
                await asyncio.gather(*(worker.ended() for worker in self._workers))
                self._last = self.exposition()

    def exposition(self) -> tuple[bytes, str]:
        """The text exposition over all workers, the dead ones' counters included, and its content type.

        Series of the parent are not in it: the parent keeps them in memory, in another registry.
        """
        if self._last is not None:
            return self._last
        registry = CollectorRegistry()
        registry.register(_Totals(self._workers, self._spent))
        multiprocess.MultiProcessCollector(registry)  # type: ignore[no-untyped-call]  # the library has no types here
        return generate_latest(registry), CONTENT_TYPE_LATEST


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


def _choose_socket_directory() -> None:
    """Let the process that forks listen in memory where it can: the path of a socket has at most 107 bytes.

    A longer TMPDIR would leave no room for one, and where the root file system is read-only, no other place may be
    writable.
    """
    usual = tempfile.tempdir
    if os.access(SHARED_MEMORY, os.W_OK | os.X_OK):
        tempfile.tempdir = SHARED_MEMORY
    try:
        util.get_temp_dir()  # the first call chooses
    finally:
        tempfile.tempdir = usual


def _ensure_fork_server() -> None:
    """Have a process run that forks workers, which Ctrl-C does not reach; it need not have imported anything yet.

    A terminal sends the signal to all processes, and the parent passes it on.
    """
    # The call below would start this one too, which ends by letting SIGINT through again, for the workers as well. The
    # process that forks inherits what is blocked here, and workers do from it.
    resource_tracker.ensure_running()
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
    own = os.environ.get(_SAFE_PATH)
    # It would look for modules in the working directory first.
    os.environ[_SAFE_PATH] = "1"
    try:
        forkserver.ensure_running()
    finally:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGINT])
        if own is None:
            del os.environ[_SAFE_PATH]


def _start(process: ForkServerProcess, sender: Connection) -> None:
    """Start a worker with its end of the pipe, which is its alone from then on.

    Both are done in one thread: a caller that waits no longer must not close what is being handed over.
    """
    try:
        process.start()
    finally:
        sender.close()


def _worker(serve: Serve, settings: WebhookSettings, listener: socket.socket, reports: Connection) -> None:
    """The body of a worker process."""
    logs.configure(settings.level)
    try:
        with opened_spans("webhook") as spans:
            work = serve(settings, listener, spans)
            uvloop.run(until_signal(Manager(work, role="webhook", health=None, report=_Reports(reports)).run))
    except UsageError as error:
        # A parent that has the mistake from another worker listens no more.
        with contextlib.suppress(OSError):
            reports.send(str(error))
        raise SystemExit(2) from error
    except BerthError as error:
        _log.error("worker cannot serve", error=str(error))
        raise SystemExit(1) from error
    except asyncio.CancelledError:
        raise SystemExit(1) from None


class _Reports:
    """Reports each change of readiness to the parent; a worker whose parent is gone drains and ends.

    So does one that outlives the process from which it was forked, since the parent cannot follow it any more.
    """

    def __init__(self, pipe: Connection) -> None:
        self._pipe = pipe
        self._forked_from = os.getppid()
        self._reported: list[str] | None = None
        self._orphaned = False

    def __call__(self, waiting: list[str]) -> None:
        publish()  # a worker is not scraped: the parent reads what it has published
        if not self._orphaned and not self._is_followed():
            self._orphaned = True
            _log.error("the parent process is gone; stopping")
            os.kill(os.getpid(), signal.SIGTERM)
        if waiting != self._reported:
            self._reported = waiting
            with contextlib.suppress(OSError):
                self._pipe.send(waiting)

    def _is_followed(self) -> bool:
        parent = multiprocessing.parent_process()
        return os.getppid() == self._forked_from and parent is not None and parent.is_alive()


class _Totals(Collector):
    """Memory, CPU time and open files over the parent and its workers, and how many workers were replaced so far.

    The client library collects such figures for one process only.
    """

    def __init__(self, workers: list[Worker], spent: dict[int, float]) -> None:
        self._workers, self._spent = workers, spent

    def collect(self) -> Iterable[Metric]:
        yield CounterMetricFamily(
            "worker_restarts",
            "Worker processes that ended and were replaced (--workers)",
            value=float(sum(worker.restarts for worker in self._workers)),
        )
        processes = (worker.process for worker in self._workers)
        families: dict[str, list[Metric]] = {}
        for pid in (os.getpid(), *(process.pid for process in processes if process and process.pid)):
            for family in _figures(pid):
                families.setdefault(family.name, []).append(family)
                if family.name == _CPU:
                    self._spent[pid] = family.samples[0].value
        for name, metrics in families.items():
            if (combine := _COMBINE.get(name)) is None:
                continue
            value = combine([family.samples[0].value for family in metrics])
            if name == _CPU:  # a total must not shrink when a worker is gone
                value = sum(self._spent.values())
            total = Metric(name, metrics[0].documentation, metrics[0].type)
            total.add_sample(metrics[0].samples[0].name, {}, value)
            yield total


def _figures(pid: int) -> Iterable[Metric]:
    """None of a process that ended meanwhile."""
    with contextlib.suppress(OSError):
        return list(ProcessCollector(pid=lambda: pid, registry=None).collect())
    return []
