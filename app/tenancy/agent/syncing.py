"""Keeps objects of this cluster equal to what the gateway has: what all kinds of them have in common.

Level-based: an object is looked at when it changes on either side. All are looked at when the gateway has sent
everything again, and now and then. Nothing is removed before both sides are fully known.
"""

from __future__ import annotations

import asyncio
import time
from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import Generic, TypeVar

import structlog

from app.errors import BerthError
from app.kube.controller import Controller, Done, RequeueAfter, Result
from app.kube.kit import Kit
from app.kube.retry import Backoff
from app.kube.store import Key
from app.tenancy.agent.local import Local
from app.tenancy.agent.outages import OF_THE_LINK, UNKNOWN
from app.tenancy.agent.remote import Watch
from app.tenancy.agent.views import ObjectView

log = structlog.get_logger(__name__)

T = TypeVar("T")


class Syncer(ABC, Generic[T]):
    """Objects of one kind: `local` are those of this cluster, `remote` those of the gateway.

    The sweep enqueues all of them: the kit needs no resync.
    """

    def __init__(self, name: str, kit: Kit, local: Local, remote: Watch[T]) -> None:
        self._local, self._remote, self._options = local, remote, local.options
        self._controller: Controller[str] = kit.reconcile(
            f"agent-{name}",
            self._look_at,
            stores=(local.store,),
            keys=self._names,
            wakes={local.store: _name},
            turn=None,  # one tenant
            backoff=(self._options.backoff_base, self._options.backoff_cap),
        )
        kit.beside(f"{self._controller.name}-sweep", self._sweep)
        remote.subscribe(self._remote_changed)
        remote.connection.subscribe(remote.stream, self._enqueue_all)

    @abstractmethod
    async def _reconcile(self, name: str) -> float | None:
        """Make the two sides of this name equal; the seconds after which to look at it again in any case."""

    async def _learn(self) -> None:
        """Ask the gateway for what its stream does not send. Raises BerthError."""

    async def _unreached(self, view: ObjectView) -> float | None:
        """What to do while the gateway is out of reach: nothing for a while, then report it.

        An error about the present spec stays. An agent in a wrong cluster is reported at once. Raises ApiError.
        """
        outage = self._remote.connection.outage(self._remote.stream)
        if outage.cause == UNKNOWN:
            return None  # everything is looked at again when it is known
        if not outage.elsewhere:
            if view.observed and view.result == "error" and view.ready_reason not in OF_THE_LINK:
                return None
            if (left := outage.began + self._options.patience - time.monotonic()) > 0:
                return left
        await self._local.report_outage(view, outage)
        return None

    def _remote_changed(self, name: str) -> None:
        self._controller.enqueue(name)

    def _there(self) -> Iterable[str]:
        return self._remote.items

    async def _look_at(self, name: str) -> Result:
        again = await self._reconcile(name)
        return Done() if again is None else RequeueAfter(again)

    async def _sweep(self) -> None:
        """At each round of the remote and then every `resync` seconds: look at everything."""
        backoff = Backoff(base=self._options.backoff_base, cap=self._options.settings.resync_seconds)
        await self._local.store.wait_synced()
        while True:
            await self._remote.next_round(0)
            rounds = self._remote.rounds
            try:
                await self._learn()
            except BerthError as error:
                log.info("objects at the gateway not listed", kind=self._local.resource.kind, error=str(error))
                pause = backoff.next()
            else:
                backoff.reset()
                pause = self._options.settings.resync_seconds
                self._enqueue_all()
            try:
                async with asyncio.timeout(pause):
                    await self._remote.next_round(rounds)
            except TimeoutError:
                continue

    def _names(self) -> list[str]:
        here = {name for _, name in self._local.store.keys()}  # noqa: SIM118  a Store is no mapping
        return sorted(here.union(self._there()))

    def _enqueue_all(self) -> None:
        for name in self._names():
            self._controller.enqueue(name)


def _name(key: Key, _old: object, _new: object) -> Iterable[str]:
    """All of one kind are in one namespace."""
    return (key[1],)
