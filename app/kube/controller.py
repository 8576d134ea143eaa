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

from app.errors import Terminal, Transient, is_final
from app.kube import metrics
from app.kube.queue import QueueClosed, WorkQueue
from app.kube.store import Store
from app.kube.turns import Turns, requests_under
from app.kube.walls import fault, standing, wall

log = structlog.get_logger(__name__)

K = TypeVar("K", bound=Hashable)
BACKOFF = 0.005, 300.0
"""The first and the longest pause of a key that keeps failing, in seconds, unless a controller has others."""
_LOOK = 0.05
"""Seconds between two looks whether a doubt is over."""
_NAMESPACES_AT_ONCE = 16
"""As many namespaces as may have all the keys under way that one may have: a key with many requests takes long."""


@dataclass(frozen=True, slots=True)
class Done:
    """The key is as it should be until something changes."""


@dataclass(frozen=True, slots=True)
class RequeueAfter:
    seconds: float


Result = Done | RequeueAfter


def by_namespace(key: tuple[str, str]) -> str:
    """What the keys of objects take turns by."""
    return key[0]


class Controller(Generic[K]):
    """Nothing is begun while one of `stores` is in doubt; when the doubt is over every key is looked at.

    `reconcile` returns Done or RequeueAfter, or raises.

    Keys take turns by what `turn` says of them, and so do the requests to the API server of those under way: `workers`
    at a time. One name has at most three quarters, of the keys of all workers and of the requests. So no other waits
    for the next request of a key that has thousands, or for an answer that does not come. `turn` None is for keys that
    belong to no namespace: `workers` of them are under way at a time.

    Transient is tried again after its delay or the key's backoff. Terminal, and what is too large for the API server,
    is logged and not tried again until the key is added again. Any other exception is a bug, logged with its traceback
    and tried again like Transient.
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
        turn: Callable[[Any], str] | None = by_namespace,
        backoff: tuple[float, float] = BACKOFF,
    ) -> None:
        """`backoff` are the first and the longest pause of a key that keeps failing, in seconds."""
        self.name, self.reconcile, self._stores, self._keys = name, reconcile, tuple(stores), keys
        self._resync, self._drain, self._turn = resync, drain, turn
        base, cap = backoff
        self.queue: WorkQueue[K] = WorkQueue(base=base, cap=cap)
        self._workers, self._requests = workers, None
        if turn is not None:
            each = max(1, workers - max(1, workers // 4))
            self.queue = WorkQueue(base=base, cap=cap, turn=turn, each=each)
            self._workers, self._requests = _NAMESPACES_AT_ONCE * workers, Turns(total=workers, each=each)
        self._tasks: set[asyncio.Task[None]] = set()
        self._idle = 0
        self._ending = False
        for store in self._stores:
            store.on_renewed(self._renewed)

    def enqueue(self, key: K) -> None:
        """Have `key` reconciled soon; allowed before `run`."""
        self.queue.add(key)

    def enqueue_all(self) -> None:
        """Have every key reconciled soon."""
        for key in self._keys():
            with wall(self.name, key=key):
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
            self._ended: asyncio.Future[asyncio.Task[None]] = asyncio.get_running_loop().create_future()
            feed = self._begin(self._feed, "feed")
            self._begin(self._work, "0")
            try:
                ended = await self._ended
            finally:
                self._ending = True
                feed.cancel()
                self.queue.close()
                await self._finish(self._tasks)
        # None of them ends by itself: one that did has failed, and a controller without workers must not look alive.
        ended.result()

    def _begin(self, work: Callable[[], Awaitable[None]], part: str) -> asyncio.Task[None]:
        task = asyncio.create_task(standing(self.name, work), name=f"{self.name}-{part}")
        self._tasks.add(task)
        task.add_done_callback(lambda task: None if self._ended.done() else self._ended.set_result(task))
        return task

    async def _feed(self) -> None:
        while True:
            self.enqueue_all()
            await asyncio.sleep(math.inf if self._resync is None else self._resync)

    @property
    def _in_doubt(self) -> bool:
        return any(store.in_doubt for store in self._stores)

    def _renewed(self) -> None:
        """What was decided before may rest upon what never was, and no event says so."""
        if not self._in_doubt and all(store.synced for store in self._stores):
            self.enqueue_all()

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
            self._idle += 1
            try:
                key = await self.queue.get()
            except QueueClosed:
                return
            finally:
                self._idle -= 1
            if not self._idle and len(self._tasks) <= self._workers:  # one of the tasks is the feed
                self._begin(self._work, str(len(self._tasks)))
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
            with requests_under(self._requests, "" if self._turn is None else self._turn(key)):
                result = await self.reconcile(key)
            self.queue.forget(key)
            if isinstance(result, RequeueAfter):
                self.queue.add_after(key, result.seconds)
                outcome = "requeue"
        except (Transient, Terminal) as error:
            outcome = self._failed(key, error)
        except Exception:  # noqa: BLE001  the wall of a reconcile worker: one key's bug must not stop the others
            self.queue.retry(key)
            outcome = "internal"
            fault(self.name, "reconcile failed", controller=self.name, key=key)
        metrics.RECONCILES.labels(self.name, outcome).inc()
        metrics.RECONCILE_DURATION.labels(self.name).observe(time.monotonic() - started)

    def _failed(self, key: K, error: Transient | Terminal) -> str:
        """The outcome."""
        if isinstance(error, Terminal) or is_final(error):
            self.queue.forget(key)
            log.warning("reconcile given up", controller=self.name, key=key, error=str(error))
            return "terminal"
        delay = self.queue.retry(key, at_least=error.delay)
        write = log.debug if error.expected else log.info
        write("reconcile again", controller=self.name, key=key, delay_s=round(delay, 3), error=str(error))
        return "transient"
