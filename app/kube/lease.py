"""Leader election by a Lease: of several replicas, one works.

Time is monotonic; the clocks of other machines are never compared. The holder stops working, and waits until its work
has stopped, before a rival may start; a process that slept through that time finds its fence shut. A request that is on
its way when the term ends can be cut, not called back: so every write has to be harmless if it comes late (it names a
uid, a version, or what must not exist).
"""

from __future__ import annotations

import asyncio
import datetime as dt
import math
import random
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import structlog

from app.errors import ApiError
from app.kube.client import KubeClient
from app.kube.fencing import Fence
from app.kube.resources import LEASES
from app.kube.retry import get_or_none
from app.wire import JSON

log = structlog.get_logger(__name__)


steady_clock = partial(time.clock_gettime, getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))
"""Seconds that count while the process is stopped, and with CLOCK_BOOTTIME also while the machine is suspended."""
LONGEST = 300
"""Seconds. Every holder renews its Lease within this time, also if the record has a longer duration."""


@dataclass(frozen=True, slots=True)
class LeaseTiming:
    """Seconds. A rival waits `duration` after the last renewal that it saw; the holder gives up after `renew_deadline`.

    The difference is the time that the work has to stop. The Lease says whole seconds, so `duration` is rounded up.
    """

    duration: float = 15.0
    renew_deadline: float = 10.0
    retry_period: float = 2.0

    def __post_init__(self) -> None:
        if not 0 < self.retry_period < self.renew_deadline < self.duration:
            raise ValueError("a lease needs 0 < retry_period < renew_deadline < duration")


class LeaderElector:
    """`identity` must differ between processes (a Pod name with a random suffix)."""

    def __init__(
        self,
        client: KubeClient,
        *,
        namespace: str,
        name: str,
        identity: str,
        timing: LeaseTiming | None = None,
        on_change: Callable[[bool], None] | None = None,
        clock: Callable[[], float] = steady_clock,
        wall_clock: Callable[[], dt.datetime] = lambda: dt.datetime.now(dt.UTC),
    ) -> None:
        self._client, self._namespace, self._name, self._identity = client, namespace, name, identity
        self._timing, self._on_change = timing or LeaseTiming(), on_change
        self._clock, self._wall_clock = clock, wall_clock
        self._lease: JSON | None = None
        self._seen: tuple[object, ...] = ()
        self._seen_at = self._vacant_at = self._renewed_at = 0.0
        self.fence = Fence(lambda: False)
        """That of the present term, or of the last one: what is written through it is not written after the term."""
        self.leading = False
        self.problem = "not looked at yet"
        """Why the last attempt to read or write the Lease failed; "" where the API answered, also for a rival's."""

    async def run(self, work: Callable[[], Awaitable[None]]) -> None:
        """Contends for the Lease and runs `work` while holding it, again and again until cancelled.

        Ends early only if `work` ends by itself, with its exception if it raised one. The Lease is released
        wherever no rival can have taken it yet.
        """
        while True:
            while not await self._try():  # noqa: ASYNC110 - a rival is not in this process
                # A little jitter keeps rivals that started together from colliding at every step.
                await asyncio.sleep(self._timing.retry_period * (1 + 0.2 * random.random()))  # noqa: S311
            self.fence = Fence(lambda: self._left() > 0)
            self._set_leading(leading=True)
            task = asyncio.ensure_future(work())
            try:
                lost = await self._hold(task)
                if lost:
                    # Before the work is canceled: it would go on for a while with what it has begun.
                    self.fence.close()
            finally:
                await _stop(task)
                self.fence.close()
                self._set_leading(leading=False)
                if self._clock() - self._renewed_at < self._timing.duration:
                    await self._release()
                self._doubt()
            if not lost:
                return task.result()

    async def _hold(self, task: asyncio.Future[None]) -> bool:
        """Renews until the work ends (False) or the Lease is lost (True)."""
        while True:
            await asyncio.wait({task}, timeout=max(0.0, min(self._timing.retry_period, self._left())))
            if task.done():
                return False
            left = self._left()
            if left <= 0:
                log.warning("lease lost: not renewed in time", lease=self._name)
                return True
            try:
                async with asyncio.timeout(left):
                    renewed = await self._try()
                    if not renewed and self._lease is None:
                        # Another client wrote the Lease, or deleted it. Read it at once: the holder may have changed.
                        renewed = await self._try()
            except TimeoutError:
                continue
            if not renewed and self._holder() not in ("", self._identity):
                log.warning("lease lost: taken", lease=self._name, holder=self._holder())
                return True

    def _left(self) -> float:
        """Seconds for which this process may go on without another renewal."""
        return self._renewed_at + self._timing.renew_deadline - self._clock()

    async def _try(self) -> bool:
        """One attempt to take or renew; False if a rival holds the Lease, or on any fault of the API."""
        try:
            if self._lease is None or self._holder() != self._identity:
                await self._read()
            # A Lease is free that is ours, has no holder, or was unchanged for its whole duration by our own clock. A
            # deleted one counts as held for another duration: its holder may go on, and creates it again.
            vacant = self._lease is not None and self._holder() in ("", self._identity)
            if not vacant and self._clock() <= self._vacant_at:
                self.problem = ""
                return False
            # Counted from before the request: the server's own record is never older than ours.
            began = self._clock()
            await self._write()
        except ApiError as error:
            # A conflict says that what we know is old; a 404 that the Lease is gone. Read again next time.
            if error.not_found and self.leading:
                self._lease = None
            elif error.not_found or error.conflict:
                # A replica that does not lead does not know who held what is gone: others may have been quicker.
                self._doubt()
            self.problem = "" if error.conflict else str(error)
            log.info("lease attempt failed", lease=self._name, error=str(error))
            return False
        self.problem = ""
        self._renewed_at, self._vacant_at = began, 0.0
        return True

    def _doubt(self) -> None:
        """Forget the Lease, whose holder is unknown now. A rival may have held it, also if it was deleted since."""
        self._lease = None
        self._vacant_at = self._clock() + math.ceil(self._timing.duration)

    async def _read(self) -> None:
        found = await get_or_none(self._client, LEASES, self._name, namespace=self._namespace)
        if found is None and self._lease is not None:
            self._doubt()
        self._lease = found
        seen = (self._holder(), self._spec().get("renewTime"), self._spec().get("leaseTransitions"))
        if seen != self._seen:
            self._seen, self._seen_at = seen, self._clock()
        if self._lease is not None:
            seconds = self._spec().get("leaseDurationSeconds")
            ours = math.ceil(self._timing.duration)
            # A record with a wrong duration, written by hand, must not keep all replicas waiting for a day.
            duration = min(max(seconds, 1), max(LONGEST, ours)) if isinstance(seconds, int) else ours
            rival = self._holder() not in ("", self._identity)
            self._vacant_at = self._seen_at + duration if rival else 0.0

    async def _write(self) -> None:
        now = self._wall_clock().strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        old = self._spec()
        taken_over = self._holder() != self._identity
        transitions = old.get("leaseTransitions")
        transitions = transitions if isinstance(transitions, int) else 0
        await self._put(
            {
                **old,
                "holderIdentity": self._identity,
                "leaseDurationSeconds": math.ceil(self._timing.duration),
                "acquireTime": now if taken_over else old.get("acquireTime", now),
                "renewTime": now,
                "leaseTransitions": transitions + (taken_over and self._lease is not None),
            }
        )

    async def _put(self, spec: JSON) -> None:
        if self._lease is None:
            body = LEASES.body({"name": self._name, "namespace": self._namespace}, spec=spec)
            self._lease = await self._client.create(LEASES, body, namespace=self._namespace)
        else:
            # The resource version that came with the Lease makes this fail if another client wrote meanwhile.
            body = {**self._lease, "spec": spec}
            self._lease = await self._client.replace(LEASES, self._name, body, namespace=self._namespace)

    async def _release(self) -> None:
        """Give the Lease up so that a rival need not wait; a failure costs only that wait."""
        if self._lease is None or self._holder() != self._identity:
            return
        spec = {**self._spec(), "holderIdentity": "", "leaseDurationSeconds": 1}
        try:
            async with asyncio.timeout(self._timing.retry_period):
                await self._put(spec)
        except (ApiError, TimeoutError) as error:
            log.info("lease not released", lease=self._name, error=str(error) or "no answer in time")
        self._lease = None

    def _spec(self) -> dict[str, Any]:
        spec = (self._lease or {}).get("spec")
        return spec if isinstance(spec, dict) else {}

    def _holder(self) -> str:
        return str(self._spec().get("holderIdentity") or "")

    def _set_leading(self, *, leading: bool) -> None:
        self.leading = leading
        log.info("leading" if leading else "not leading", lease=self._name, identity=self._identity)
        if self._on_change is not None:
            self._on_change(leading)


async def _stop(task: asyncio.Future[None]) -> None:
    """Cancel and await: when this returns the work has stopped, even if we are cancelled once more meanwhile."""
    task.cancel()
    interrupted = False
    while not task.done():
        try:
            await asyncio.wait({task})
        except asyncio.CancelledError:
            # Not passed on: the work is canceled already, and a second time would cut its cleaning up short.
            interrupted = True
    if interrupted:
        raise asyncio.CancelledError
