"""Runs one reconcile function over the keys of a queue: workers, retries, resync and draining.

The function gets a key and no event: it reads state itself, so that it works the same after a restart.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Awaitable, Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import structlog

from app.errors import Terminal, Transient
from app.kube import metrics
from app.kube.queue import QueueClosed, WorkQueue
from app.kube.store import Store
from app.kube.walls import fault, standing, wall

log = structlog.get_logger(__name__)

K = TypeVar("K", bound=Hashable)
_LOOK = 0.05
"""Seconds between two looks whether a doubt is over."""


@dataclass(frozen=True, slots=True)
class Done:
    """The key is as it should be until something changes."""


@dataclass(frozen=True, slots=True)
class RequeueAfter:
    seconds: float


Result = Done | RequeueAfter


class Controller(Generic[K]):
    """Nothing is begun while one of `stores` is in doubt; when the doubt is over every key is looked at.

    `reconcile` returns Done or RequeueAfter, or raises.

    Transient is tried again after its delay or the key's backoff; Terminal is logged and not tried again until the
    key is added again; any other exception is a bug, logged with its traceback and tried again like Transient.
    `keys` lists every key for the first run and the resync, which happens every `resync` seconds (None: never).
    """

    def __init__(
        self,
        name: str,
        reconcile: Callable[[K], Awaitable[Result]],
        *,
        stores: Sequence[Store[Any]] = (),
        keys: Callable[[], Iterable[K]] = tuple,
        workers: int = 2,
        resync: float | None = 600.0,
        drain: float = 3.0,
        queue: WorkQueue[K] | None = None,
    ) -> None:
        self.name, self._reconcile, self._stores, self._keys = name, reconcile, tuple(stores), keys
        self.queue: WorkQueue[K] = queue if queue is not None else WorkQueue()
        self._workers, self._resync, self._drain = workers, resync, drain
        self._ending = False
        for store in self._stores:
            store.on_renewed(self._renewed)

    def enqueue(self, key: K) -> None:
        """Have `key` reconciled soon; allowed before `run`."""
        self.queue.add(key)

    async def run(self) -> None:
        """Waits for every store, then works until cancelled.

        On cancellation no key is begun any more and those under way get `drain` seconds to end before they are
        cancelled too. A controller runs once.
        """
        with metrics.controller_running(self.name, self.queue):
            for store in self._stores:
                await store.wait_synced()
            log.info("controller starts", controller=self.name, workers=self._workers)
            feed = self._task(self._feed, "feed")
            tasks = {feed} | {self._task(self._work, str(number)) for number in range(self._workers)}
            try:
                ended, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            finally:
                self._ending = True
                feed.cancel()
                self.queue.close()
                await self._finish(tasks)
        # None of them ends by itself: one that did has failed, and a controller without workers must not look alive.
        for task in ended:
            task.result()

    def _task(self, work: Callable[[], Awaitable[None]], part: str) -> asyncio.Task[None]:
        return asyncio.create_task(standing(self.name, work), name=f"{self.name}-{part}")

    async def _feed(self) -> None:
        while True:
            self._add_all()
            await asyncio.sleep(math.inf if self._resync is None else self._resync)

    def _add_all(self) -> None:
        for key in self._keys():
            with wall(self.name, key=key):
                self.queue.add(key)

    @property
    def _in_doubt(self) -> bool:
        return any(store.in_doubt for store in self._stores)

    def _renewed(self) -> None:
        """What was decided before may rest upon what never was, and no event says so."""
        if not self._in_doubt and all(store.synced for store in self._stores):
            self._add_all()

    async def _finish(self, tasks: set[asyncio.Task[None]]) -> None:
        try:
            await asyncio.wait(tasks, timeout=self._drain)
        finally:
            # Also after a second cancellation, which ends the wait: no worker is left running.
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _work(self) -> None:
        while True:
            try:
                key = await self.queue.get()
            except QueueClosed:
                return
            try:
                while self._in_doubt and not self._ending:  # noqa: ASYNC110 - several stores, and an end, to wait for
                    await asyncio.sleep(_LOOK)
                if not self._ending:
                    await self._once(key)
            finally:
                self.queue.done(key)
            # A queue and a reconcile that never wait would keep every other task from running.
            await asyncio.sleep(0)

    async def _once(self, key: K) -> None:
        started = time.monotonic()
        outcome = "done"
        try:
            result = await self._reconcile(key)
            self.queue.forget(key)
            if isinstance(result, RequeueAfter):
                self.queue.add_after(key, result.seconds)
                outcome = "requeue"
        except Transient as error:
            delay = self.queue.retry(key, at_least=error.delay)
            outcome = "transient"
            write = log.debug if error.expected else log.info
            write("reconcile again", controller=self.name, key=key, delay_s=round(delay, 3), error=str(error))
        except Terminal as error:
            self.queue.forget(key)
            outcome = "terminal"
            log.warning("reconcile given up", controller=self.name, key=key, error=str(error))
        except Exception:  # noqa: BLE001  the wall of a reconcile worker: one key's bug must not stop the others
            self.queue.retry(key)
            outcome = "internal"
            fault(self.name, "reconcile failed", controller=self.name, key=key)
        metrics.RECONCILES.labels(self.name, outcome).inc()
        metrics.RECONCILE_DURATION.labels(self.name).observe(time.monotonic() - started)
