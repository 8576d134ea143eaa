"""Runs the work of a role, with health and metrics beside it, until a signal stops it.

A runnable runs until it is cancelled, and reports at any time what it waits for. A runnable that returns by itself
has failed: its work would not be done any more.

Health is served in a thread with an event loop of its own, so that it answers while the one of the role is busy.
Readiness is what the role last published. Metrics are taken in the role's own loop, whose objects they count: they
wait for it, and nothing waits for them.
"""

from __future__ import annotations

import asyncio
import socket
import threading
import time
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING

import structlog

from app.admission.server import make_server
from app.errors import BerthError
from app.kube.client import KubeClient
from app.kube.metrics import LEADER
from app.kube.running import stand
from app.metrics import EVENT_LOOP_LAG, describe, exposition
from app.serving.health import health_app
from app.settings.reconciling import Runnable

if TYPE_CHECKING:
    from app.kube.lease import LeaseTiming


HUNG_SECONDS = 60.0
"""Seconds without a turn after which an event loop must hang: the longest review has eight seconds, and a probe that
restarts a busy process would make things worse."""
_GRACE_SECONDS = 1
_log = structlog.get_logger(__name__)
_LOOK_SECONDS = 0.25
_WAKE_SECONDS = 0.1


async def lasting(runnable: Runnable) -> None:
    """Run it until it is cancelled. Raises BerthError where it returns by itself."""
    await runnable.run()
    task = asyncio.current_task()
    if task is None or not task.cancelling():
        raise BerthError(f"{type(runnable).__name__} ended by itself")


class Manager:
    """One process of a role, by which it is counted.

    `run` serves health, then runs the runnable. When `stop` is set, the runnable ends first and health last. `report`
    is called with what readiness waits for, several times a second and when the stop begins.
    """

    def __init__(
        self,
        runnable: Runnable,
        *,
        role: str,
        health: socket.socket | None,
        metrics: Callable[[], tuple[bytes, str]] = exposition,
        report: Callable[[list[str]], None] = lambda _waiting: None,
    ) -> None:
        self._runnable, self._listener, self._report = runnable, health, report
        self._health = Health(metrics)
        self._known: list[str] | None = None
        self._stopping = False
        describe(role)

    def waiting(self) -> list[str]:
        return ["stopping"] if self._stopping else self._runnable.waiting()

    async def run(self, stop: asyncio.Event) -> None:
        """Return after a requested stop; raise the error of the runnable."""
        try:
            async with asyncio.TaskGroup() as tasks:
                background = [
                    stand(tasks, "readiness", self._report_readiness),
                    stand(tasks, "event-loop-lag", _measure_lag),
                ]
                if self._listener is not None:
                    background.append(tasks.create_task(self._health.serve(self._listener)))
                work = tasks.create_task(lasting(self._runnable))
                stopping = tasks.create_task(stop.wait())
                await asyncio.wait({work, stopping}, return_when=asyncio.FIRST_COMPLETED)
                self._stopping = True
                self._look()
                work.cancel()
                stopping.cancel()
                # Readiness and metrics are served until the runnable has drained.
                await asyncio.wait({work})
                for task in background:
                    task.cancel()
        except* BerthError as group:
            raise first_of(group) from None

    async def _report_readiness(self) -> None:
        while True:
            self._look()
            await asyncio.sleep(_LOOK_SECONDS)

    def _look(self) -> None:
        waiting = self.waiting()
        if waiting != self._known:
            _log.info("ready" if not waiting else "not ready", waiting_for=waiting)
            self._known = waiting
        self._health.published(waiting)
        self._report(waiting)


def first_of(group: BaseExceptionGroup[BerthError]) -> BerthError:
    """The first error of the group, at any depth: the message shows one cause."""
    cause = group.exceptions[0]
    return first_of(cause) if isinstance(cause, BaseExceptionGroup) else cause


async def _measure_lag() -> None:
    """Keep the gauge of event-loop lag: the worst lateness of a second's worth of wake-ups."""
    while True:
        worst = 0.0
        for _ in range(10):
            due = time.monotonic() + _WAKE_SECONDS
            await asyncio.sleep(_WAKE_SECONDS)
            worst = max(worst, time.monotonic() - due)
        EVENT_LOOP_LAG.set(worst)


class Group:
    """Several runnables as one. They start together; the first failure ends all."""

    def __init__(self, *runnables: Runnable) -> None:
        self._runnables = runnables

    def waiting(self) -> list[str]:
        return [line for runnable in self._runnables for line in runnable.waiting()]

    async def run(self) -> None:
        async with asyncio.TaskGroup() as tasks:
            for runnable in self._runnables:
                tasks.create_task(lasting(runnable))


class Connected:
    """A runnable that needs a client: `opened` connects and makes it, and closes the connection when it ends."""

    def __init__(self, opened: AbstractAsyncContextManager[Runnable]) -> None:
        self._opened = opened
        self._runnable: Runnable | None = None

    def waiting(self) -> list[str]:
        return self._runnable.waiting() if self._runnable is not None else ["API server: not connected"]

    async def run(self) -> None:
        async with self._opened as self._runnable:
            await lasting(self._runnable)


class LeaderElected:
    """A runnable for the holder of a Lease only. A standby replica is ready, because it can take over.

    `build` makes the runnable again for each term, so that no cache of an earlier term is used. Its client refuses
    writes after the term has ended, also those of requests under way.
    """

    def __init__(
        self,
        build: Callable[[KubeClient], Runnable],
        *,
        client: KubeClient,
        namespace: str,
        lease: str,
        identity: str,
        timing: LeaseTiming | None = None,
    ) -> None:
        # Imported late: with it comes the HTTP client, and the parent of workers needs none.
        from app.kube.lease import LeaderElector  # noqa: PLC0415

        self._build, self._client, self._lease = build, client, lease
        self._runnable: Runnable | None = None
        self._elector = LeaderElector(
            client,
            namespace=namespace,
            name=lease,
            identity=identity,
            timing=timing,
            on_change=lambda leading: LEADER.labels(lease).set(leading),
        )

    def waiting(self) -> list[str]:
        if self._runnable is not None:
            return self._runnable.waiting()
        if self._elector.leading:
            return [f"Lease {self._lease}: held, its work begins"]
        # A replica that cannot reach the Lease will never take over.
        return [f"Lease {self._lease}: {self._elector.problem}"] if self._elector.problem else []

    @property
    def leading(self) -> bool:
        return self._elector.leading

    async def run(self) -> None:
        await self._elector.run(self._term)

    async def _term(self) -> None:
        self._runnable = self._build(self._client.within(self._elector.fence))
        try:
            await lasting(self._runnable)
        finally:
            self._runnable = None


class Health:
    """What the plain port of a role answers. `metrics` gives the exposition and its content type.

    `published` is to be called in the loop of the role, much more often than once in `HUNG_SECONDS`.
    """

    def __init__(
        self, metrics: Callable[[], tuple[bytes, str]], *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._metrics, self._clock = metrics, clock
        self._waiting = ["its work: not started"]
        self._seen_at = clock()

    def published(self, waiting: list[str]) -> None:
        """What readiness waits for now; it says as well that the loop has a turn."""
        self._waiting, self._seen_at = waiting, self._clock()

    def hung(self) -> str:
        """Why the process should be restarted, "" where its loop has had a turn lately."""
        silent = self._clock() - self._seen_at
        if silent <= HUNG_SECONDS:
            return ""
        return f"the event loop has had no turn for {silent:.0f} s: after {HUNG_SECONDS:g} s it counts as hung"

    def waiting(self) -> list[str]:
        return [*self._waiting, *filter(None, [self.hung()])]

    async def serve(self, listener: socket.socket) -> None:
        """Until cancelled; the listener is closed then. Raises what the server died of."""
        loop = asyncio.get_running_loop()
        ended: asyncio.Future[None] = loop.create_future()

        async def exposition() -> tuple[bytes, str]:
            return self._metrics()

        async def exposed() -> tuple[bytes, str]:
            return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(exposition(), loop))

        server = make_server(
            health_app(readiness=self.waiting, metrics=exposed, hung=self.hung), grace_seconds=_GRACE_SECONDS
        )

        def end(error: Exception | None) -> None:
            if error is not None and not ended.done():
                ended.set_exception(error)
            elif not ended.done():
                ended.set_result(None)

        def run() -> None:
            fault: Exception | None = None
            try:
                asyncio.run(server.serve(sockets=[listener]))
            except Exception as error:  # noqa: BLE001  raised in the task of the role
                fault = error
            loop.call_soon_threadsafe(end, fault)

        threading.Thread(target=run, name="health", daemon=True).start()
        try:
            await asyncio.shield(ended)
        finally:
            server.should_exit = True
            await asyncio.wait({ended})
