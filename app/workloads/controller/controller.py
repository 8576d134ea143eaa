"""The controller of the infra cluster: rules and workloads in, companions and statuses out.

Puts the parts together and runs them; several may run at once (they should not, but a lease ends late) and agree on
the same companions. All state is in the cluster: a restart costs one look at every workload.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field

from app.kube.client import KubeClient
from app.kube.events import EventRecorder
from app.kube.running import problems_of, stand, start
from app.placement.model import PlacementOptions
from app.placement.settings import PlacementSettings
from app.settings.reconciling import ControllerContext
from app.settings.source import settings_as
from app.workloads.controller.caches import Caches, Listeners
from app.workloads.controller.reconciling import Companions
from app.workloads.controller.writing import QuietTime, RuleStatuses, WorkloadStatuses
from app.workloads.settings import DEFAULT_QUOTA, QuotaSettings

_EXPIRY_CHECK = 1.0


@dataclass(frozen=True, slots=True)
class ControllerOptions:
    """Times are in seconds. `workers` requests for companions are under way at a time; tenants take turns.

    `resync` is the time between two sweeps. `status_workers` statuses of workloads are written at a time, and a third
    as many of rules. A rule's status is written at most once in `status_interval`, and once in ten of them while only
    the number of companions that run changes all the time. A companion that was lost is replaced at once, and then
    after pauses that begin with `restart_pause`.
    """

    placement: PlacementOptions = field(default_factory=PlacementOptions)
    workers: int = 16
    resync: float = 600.0
    status_workers: int = 12
    status_interval: float = 1.0
    restart_pause: float = 10.0
    quota: Mapping[str, int] = field(default_factory=lambda: DEFAULT_QUOTA)


class WorkloadsController:
    """`run` it while this process leads; it runs once."""

    def __init__(self, client: KubeClient, *, options: ControllerOptions, events: EventRecorder | None = None) -> None:
        self._caches = caches = Caches(options.quota)
        self._reflectors = caches.reflectors(client)
        companions = Companions(
            client,
            caches,
            options.placement,
            workers=options.workers,
            resync=options.resync,
            restart_pause=options.restart_pause,
        )
        quiet = QuietTime(companions.waiting)
        workloads = WorkloadStatuses(client, caches, quiet, workers=options.status_workers)
        rules = RuleStatuses(
            client,
            caches,
            quiet,
            workers=max(2, options.status_workers // 3),
            interval=options.status_interval,
            events=events,
        )
        self._controllers = (companions.controller, workloads.controller, rules.controller)
        caches.listeners = Listeners(
            workload=companions.controller.enqueue,
            workload_status=workloads.controller.enqueue,
            workload_status_shown=workloads.shown,
            rule_status=rules.changed,
            rule_running=rules.running_changed,
        )

    async def run(self) -> None:
        """Until cancelled; what is under way then gets a few seconds to end."""
        async with asyncio.TaskGroup() as group:
            start(group, self._reflectors, self._controllers)
            stand(group, "rules", lambda: self._caches.warming.run(self._caches.workloads.wait_synced))
            stand(group, "workloads-lag", self._expire)

    def waiting(self) -> list[str]:
        """What readiness waits for, one line each; nothing once every cache is filled and known to be right."""
        return problems_of(self._reflectors)

    async def _expire(self) -> None:
        while True:
            await asyncio.sleep(_EXPIRY_CHECK)
            self._caches.expire()


def controller(context: ControllerContext) -> WorkloadsController:
    options = ControllerOptions(
        placement=settings_as(context.settings, PlacementSettings).placement,
        workers=context.settings.max_concurrent_reconciles,
        resync=context.settings.resync_seconds,
        quota=settings_as(context.settings, QuotaSettings).quota,
    )
    return WorkloadsController(context.client, options=options, events=context.events)
