"""What roles and controllers are made with, and the settings of a role that reconciles objects of a cluster."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Annotated, Any, Protocol, runtime_checkable

from pydantic import AliasChoices, Field

from app.kube.client import KubeClient
from app.kube.events import EventRecorder
from app.kube.kit import Kit, Watches
from app.metrics import exposition
from app.settings.source import CLUSTER, RECONCILING, DnsLabel, Flag, RoleSettings
from app.wiring import SYSTEM_NAMESPACE


class ReconcilingSettings(RoleSettings):
    """Times are in seconds. `namespace` is where the Lease is."""

    max_concurrent_reconciles: Annotated[int, Flag("Keys reconciled at a time", RECONCILING)] = Field(16, ge=1, le=256)
    resync_seconds: Annotated[float, Flag("How often everything is reconciled again", RECONCILING)] = Field(
        60.0, ge=1, allow_inf_nan=False
    )
    leader_elect: Annotated[bool, Flag("Work only while holding the Lease", RECONCILING)] = True
    namespace: Annotated[
        DnsLabel, Flag("Namespace of the Lease", CLUSTER, default=f"$NAMESPACE or {SYSTEM_NAMESPACE}")
    ] = Field(SYSTEM_NAMESPACE, validation_alias=AliasChoices("BERTH_NAMESPACE", "NAMESPACE"))


@dataclass(frozen=True, slots=True)
class ControllerContext:
    """What a controller is made with. The controllers of a process share `watches`."""

    client: KubeClient
    settings: ReconcilingSettings
    events: EventRecorder
    watches: Watches

    def kit(self) -> Kit:
        """What the controller is to be made of."""
        return Kit(
            self.client,
            events=self.events,
            watches=self.watches,
            workers=self.settings.max_concurrent_reconciles,
            resync=self.settings.resync_seconds,
        )


class Runnable(Protocol):
    """Something that runs until it is cancelled."""

    async def run(self) -> None: ...

    def waiting(self) -> list[str]:
        """What readiness waits for, one line each; empty when all is well."""
        ...


class Draining(Protocol):
    """It runs until an event is set, and then ends what is under way."""

    async def run(self, stop: asyncio.Event) -> None: ...

    def waiting(self) -> list[str]: ...


class Drained:
    """Drains when it is cancelled; when it is cancelled again, it ends at once."""

    def __init__(self, draining: Draining) -> None:
        self._draining = draining

    def waiting(self) -> list[str]:
        return self._draining.waiting()

    async def run(self) -> None:
        stop = asyncio.Event()
        serving = asyncio.ensure_future(self._draining.run(stop))
        try:
            await asyncio.shield(serving)
        except asyncio.CancelledError:
            stop.set()
            await serving
            raise


@runtime_checkable
class ElectedSettings(Protocol):
    """The settings of a role that has a Lease: whether it is used, and where it is."""

    leader_elect: bool
    namespace: str


@dataclass(slots=True)
class RoleContext:
    """What a role is built with.

    `connected` makes a runnable of a client as soon as there is one. `elected` makes it of a client and of the role's
    Events, while this process holds the Lease of the role, if it has one, and once before for its series: see
    `app.kube.kit.declare`, which a role that is `connected` calls itself. `alone` is a role in a process of its own;
    `spans` opens what makes the spans of this process, None where there are none.

    A role enters where it listens in `listening`, which is logged, and may replace the `metrics` of its process.
    """

    settings: RoleSettings
    connected: Callable[[Callable[[KubeClient], Runnable]], Runnable]
    elected: Callable[[Callable[[KubeClient, EventRecorder], Runnable]], Runnable]
    alone: bool = False
    spans: Callable[[], Any] = lambda: None
    listening: dict[str, object] = field(default_factory=dict)
    metrics: Callable[[], tuple[bytes, str]] = exposition
