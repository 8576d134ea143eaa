"""The controller of the infra cluster: rules and workloads in, companions and statuses out.

Puts the parts together; several may run at once (they should not, but a lease ends late) and agree on the same
companions. All state is in the cluster: a restart costs one look at every workload.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from app.kube.kit import Kit
from app.placement.model import PlacementOptions
from app.placement.settings import PlacementSettings
from app.settings.reconciling import ControllerContext
from app.settings.source import settings_as
from app.workloads.controller.caches import Caches, Listeners
from app.workloads.controller.reconciling import Companions
from app.workloads.controller.writing import QuietTime, RuleStatuses, WorkloadStatuses
from app.workloads.settings import DEFAULT_QUOTA, QuotaSettings


@dataclass(frozen=True, slots=True)
class Options:
    """Times are in seconds. `status_workers` statuses of workloads are written at a time, and a third as many of rules.

    A rule's status is written at most once in `status_interval`, and once in ten of them while only the number of
    companions that run changes all the time. A companion that was lost is replaced at once, and then after pauses that
    begin with `restart_pause`.
    """

    placement: PlacementOptions = field(default_factory=PlacementOptions)
    status_workers: int = 12
    status_interval: float = 1.0
    restart_pause: float = 10.0
    quota: Mapping[str, int] = field(default_factory=lambda: DEFAULT_QUOTA)


def build(context: ControllerContext) -> Kit:
    kit = context.kit()
    options = Options(
        placement=settings_as(context.settings, PlacementSettings).placement,
        quota=settings_as(context.settings, QuotaSettings).quota,
    )
    accompany(kit, options)
    return kit


def accompany(kit: Kit, options: Options) -> None:
    """Make the controller of this kit, whose workers are for companions."""
    caches = Caches(kit, options.quota)
    companions = Companions(kit, caches, options.placement, restart_pause=options.restart_pause)
    quiet = QuietTime(companions.waiting)
    workloads = WorkloadStatuses(kit, caches, quiet, workers=options.status_workers)
    rules = RuleStatuses(
        kit, caches, quiet, workers=max(2, options.status_workers // 3), interval=options.status_interval
    )
    caches.listeners = Listeners(
        workload=companions.controller.enqueue,
        workload_status=workloads.controller.enqueue,
        workload_status_shown=workloads.shown,
        rule_status=rules.changed,
        rule_running=rules.running_changed,
    )
    kit.beside("rules", lambda: caches.warming.run(caches.workloads.wait_synced))
    kit.each_second("workloads-lag", caches.expire)
