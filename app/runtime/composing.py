"""Composes the work of a role from its descriptor, with a client, a Lease and Events where the role asks for them."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable
from functools import partial

from app.kube.client import KubeClient
from app.kube.events import EventRecorder
from app.kube.kit import declare
from app.kube.metrics import LEADER
from app.kube.walls import standing
from app.runtime.manager import Connected, LeaderElected
from app.settings.reconciling import ElectedSettings, RoleContext, Runnable
from app.settings.source import RoleSettings
from app.wiring import Role, resolve

FLUSH_SECONDS = 2.0
"""How long the end of a role waits for its last Events."""


def compose(role: Role, settings: RoleSettings, *, instance: str = "") -> Runnable:
    """The work of a role, to be run in a loop beside other work; `instance` names it in place of this process."""
    work: Runnable = resolve(role.build)(context_of(role, settings, instance=instance))
    return work


def context_of(role: Role, settings: RoleSettings, *, instance: str = "") -> RoleContext:
    name = instance or _instance()

    def connected(build: Callable[[KubeClient], Runnable]) -> Runnable:
        connect = _connecting(settings)

        @contextlib.asynccontextmanager
        async def opened() -> AsyncIterator[Runnable]:
            async with await connect() as client:
                yield build(client)

        return Connected(opened())

    def elected(build: Callable[[KubeClient, EventRecorder], Runnable]) -> Runnable:
        lease, namespace = _lease(role, settings)
        if lease:
            LEADER.labels(lease).set(0)
        declare(lambda client: build(client, recorder(role.name, lambda: None, instance=name)))
        connect = _connecting(settings)

        @contextlib.asynccontextmanager
        async def opened() -> AsyncIterator[Runnable]:
            # The recorder outlives the terms of a leader.
            async with (
                await connect() as client,
                recording(recorder(role.name, lambda: client, instance=name)) as events,
            ):
                if not lease:
                    yield build(client, events)
                    return
                # The Pod's name (which is the host's), and something that no other process has.
                identity = f"{name}_{uuid.uuid4().hex[:8]}"
                yield LeaderElected(
                    lambda fenced: build(fenced, events),
                    client=client,
                    namespace=namespace,
                    lease=lease,
                    identity=identity,
                )

        return Connected(opened())

    return RoleContext(settings, connected, elected)


def _lease(role: Role, settings: RoleSettings) -> tuple[str, str]:
    """Name and namespace of the Lease; "" where the role has none, or does not use it."""
    if not role.lease:
        return "", ""
    if not isinstance(settings, ElectedSettings):
        raise TypeError(f"{type(settings).__name__} does not say where the Lease {role.lease} is")
    return role.lease if settings.leader_elect else "", settings.namespace


def _connecting(settings: RoleSettings) -> Callable[[], Awaitable[KubeClient]]:
    # Imported late, since clients are slow to load and the parent of workers needs none, and before the loop runs,
    # since health would not answer meanwhile.
    from app.kube.transport import connect  # noqa: PLC0415

    return partial(connect, kubeconfig=settings.kubeconfig, context=settings.context)


@contextlib.asynccontextmanager
async def recording(events: EventRecorder) -> AsyncIterator[EventRecorder]:
    """Write Events while the block runs, and the last ones after it."""
    writing = asyncio.ensure_future(standing("events", events.run))
    try:
        yield events
    finally:
        try:
            await events.flush(FLUSH_SECONDS)
        finally:
            writing.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await writing


def recorder(role: str, client: Callable[[], KubeClient | None], *, instance: str = "") -> EventRecorder:
    return EventRecorder(client, role=role, instance=instance or _instance())


def _instance() -> str:
    return os.environ.get("HOSTNAME") or socket.gethostname()
