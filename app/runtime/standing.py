"""Runs the part of a role that works in the background, with health and metrics beside it, until it is told to stop.

A part runs until it is cancelled and reports at any time what it waits for. A part that ends by itself counts as
failed, because its work would no longer be done.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Awaitable, Callable
from typing import Protocol

import structlog

from app.admission.server import health_app, make_server
from app.errors import BerthError
from app.kube.client import KubeClient
from app.kube.fencing import FencedClient
from app.kube.lease import LeaderElector, LeaseTiming
from app.kube.transport import AioKubeClient
from app.metrics import process
from app.metrics.controllers import LEADER
from app.runtime.failures import first_of
from app.runtime.observing import measure_lag

_log = structlog.get_logger(__name__)
_LOOK_SECONDS = 0.25


class Part(Protocol):
    """Something that runs until it is cancelled."""

    async def run(self) -> None: ...

    def waiting(self) -> list[str]:
        """What readiness waits for, one line each; empty when all is well."""
        ...


async def lasting(part: Part) -> None:
    """Run the part. Raises BerthError where it ends without having been told to."""
    await part.run()
    task = asyncio.current_task()
    if task is None or not task.cancelling():
        raise BerthError(f"{type(part).__name__} ended by itself")


class Standing:
    """One process of a role: `run` serves health, then runs the part; when `stop` is set the part ends, then health."""

    def __init__(self, part: Part, *, health: socket.socket | None) -> None:
        self._part, self._health = part, health
        self._stopping = False

    def waiting(self) -> list[str]:
        return ["stopping"] if self._stopping else self._part.waiting()

    async def run(self, stop: asyncio.Event) -> None:
        """Returns after a stop that was asked for; raises what the part died of."""
        server = make_server(health_app(readiness=self.waiting, metrics=process.exposition), grace_seconds=1)
        try:
            async with asyncio.TaskGroup() as tasks:
                background = [tasks.create_task(self._report_readiness()), tasks.create_task(measure_lag())]
                if self._health is not None:
                    tasks.create_task(server.serve(sockets=[self._health]))
                work = tasks.create_task(lasting(self._part))
                stopping = tasks.create_task(stop.wait())
                await asyncio.wait({work, stopping}, return_when=asyncio.FIRST_COMPLETED)
                self._stopping = True
                for task in (work, stopping, *background):
                    task.cancel()
                # While the part drains, /readyz reports that it stops, and /metrics still answers.
                await asyncio.wait({work})
                server.should_exit = True
        except* BerthError as group:
            raise first_of(group) from None

    async def _report_readiness(self) -> None:
        known: list[str] | None = None
        while True:
            waiting = self.waiting()
            if waiting != known:
                _log.info("ready" if not waiting else "not ready", waiting_for=waiting)
                known = waiting
            await asyncio.sleep(_LOOK_SECONDS)


class Led:
    """A part that only the holder of a Lease runs; a replica that stands by is ready, for it can take over.

    `build` makes the part anew for each term: what is cached in one term is not trusted in the next. It gets a client
    that writes nothing once the term is over, whatever the part still has under way.
    """

    def __init__(
        self,
        build: Callable[[KubeClient], Part],
        *,
        client: KubeClient,
        namespace: str,
        lease: str,
        identity: str,
        timing: LeaseTiming | None = None,
    ) -> None:
        self._build, self._client, self._lease = build, client, lease
        self._part: Part | None = None
        self._elector = LeaderElector(
            client,
            namespace=namespace,
            name=lease,
            identity=identity,
            timing=timing,
            on_change=lambda leading: LEADER.labels(lease).set(leading),
        )

    def waiting(self) -> list[str]:
        if self._part is not None:
            return self._part.waiting()
        if self._elector.leading:
            return [f"Lease {self._lease}: held, its work begins"]
        # Who cannot reach the Lease will never take over.
        return [f"Lease {self._lease}: {self._elector.problem}"] if self._elector.problem else []

    @property
    def leading(self) -> bool:
        return self._elector.leading

    async def run(self) -> None:
        await self._elector.run(self._term)

    async def _term(self) -> None:
        self._part = self._build(FencedClient(self._client, self._elector.fence))
        try:
            await lasting(self._part)
        finally:
            self._part = None


class Together:
    """Several parts as one: they start together, and the first that fails ends all."""

    def __init__(self, *parts: Part) -> None:
        self._parts = parts

    def waiting(self) -> list[str]:
        return [line for part in self._parts for line in part.waiting()]

    async def run(self) -> None:
        async with asyncio.TaskGroup() as tasks:
            for part in self._parts:
                tasks.create_task(lasting(part))


class Connected:
    """A part that needs a client: it is built when there is a connection, which ends with it."""

    def __init__(self, connect: Callable[[], Awaitable[AioKubeClient]], build: Callable[[KubeClient], Part]) -> None:
        self._connect, self._build = connect, build
        self._part: Part | None = None

    def waiting(self) -> list[str]:
        return self._part.waiting() if self._part is not None else ["API server: not connected"]

    async def run(self) -> None:
        async with await self._connect() as client:
            self._part = self._build(client)
            await lasting(self._part)
