"""The controller of the infra cluster: rules and workloads in, companions and statuses out.

Puts the parts together and runs them; several may run at once (they should not, but a lease ends late) and agree on
the same companions. All state is in the cluster: a restart costs one look at every workload.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field

from app.kube.client import KubeClient
from app.kube.controller import Controller
from app.kube.events import Events
from app.kube.queue import WorkQueue
from app.kube.reflector import Reflector
from app.kube.resources import PODS
from app.kube.turns import Turns
from app.placement.model import PlacementOptions
from app.workloads.companions.plan import CompanionOptions
from app.workloads.controller.caches import Caches, Listeners
from app.workloads.controller.findings import DENIED_PAUSE, Findings
from app.workloads.controller.places import DEFAULT_PLACES
from app.workloads.controller.reconciling import Reconciler
from app.workloads.controller.restarts import Restarts
from app.workloads.controller.storing import DEFAULT_BOUNDS
from app.workloads.controller.writing import QuietTime, RuleStatuses, Sources, WorkloadStatuses
from app.workloads.model import (
    ADMIN_RULES,
    COMPANION,
    SYSTEM_NAMESPACE,
    TENANT_NAMESPACE_PREFIX,
    TENANT_RULES,
    WORKLOADS,
    ObjectKey,
    Policy,
    by_tenant,
)

_LONGEST_BACKOFF = 60.0
"""Seconds. The controller gets no event when a quota is raised or a webhook is repaired."""
_EXPIRY_CHECK = 1.0
_TENANTS_AT_ONCE = 16
"""Tenants that may have all the workers that one may have: a workload with many companions takes long."""


@dataclass(frozen=True, slots=True)
class ControllerOptions:
    """Times are in seconds. `workers` requests for companions are under way at a time; tenants take turns.

    As many workloads of one tenant are reconciled at a time. `resync` is the time between two sweeps.
    A rule's status is written at most once in `status_interval`. A companion that was lost is made anew at once, and
    then after pauses that begin with `restart_pause`.
    """

    system_namespace: str = SYSTEM_NAMESPACE
    placement: PlacementOptions = field(default_factory=PlacementOptions)
    workers: int = 16
    resync: float = 600.0
    status_workers: int = 4
    status_interval: float = 1.0
    restart_pause: float = 10.0
    places: Mapping[Policy, int] = field(default_factory=lambda: DEFAULT_PLACES)
    companion_bounds: Mapping[str, int] = field(default_factory=lambda: DEFAULT_BOUNDS)


class WorkloadsController:
    """`run` it while this process leads; it runs once."""

    def __init__(
        self,
        client: KubeClient,
        *,
        options: ControllerOptions,
        events: Events | None = None,
    ) -> None:
        self._caches = caches = Caches(
            CompanionOptions(options.system_namespace, options.placement),
            places=options.places,
            companion_bounds=options.companion_bounds,
        )
        findings = Findings()
        reconciler = Reconciler(
            client,
            caches,
            findings,
            turns=Turns(total=options.workers, each=options.workers),
            restarts=Restarts(pause=options.restart_pause),
            settled=self._settled,
        )
        self._companions: Controller[ObjectKey] = Controller(
            "companions",
            reconciler.reconcile,
            stores=caches.stores,
            keys=caches.keys,
            workers=_TENANTS_AT_ONCE * options.workers,
            resync=options.resync,
            # From the least pause on, so that the first tries of what is refused are not all that pause apart.
            queue=WorkQueue(base=DENIED_PAUSE, cap=_LONGEST_BACKOFF, turn=by_tenant, each=options.workers),
        )
        sources = Sources(client, caches, findings, QuietTime(self._waiting_in))
        self._workload_statuses = WorkloadStatuses(sources, workers=options.status_workers)
        self._rule_statuses = RuleStatuses(sources, interval=options.status_interval, events=events)
        caches.listeners = Listeners(
            workload=self._companions.enqueue,
            workload_status=self._workload_statuses.controller.enqueue,
            rule_status=self._rule_statuses.changed,
        )
        self._reflectors = (
            Reflector(client, WORKLOADS, caches.workloads),
            Reflector(client, TENANT_RULES, caches.tenant_rules),
            Reflector(client, ADMIN_RULES, caches.admin_rules, namespace=options.system_namespace),
            Reflector(client, PODS, caches.companions, label_selector=COMPANION),
        )

    async def run(self) -> None:
        """Until cancelled; what is under way then gets a few seconds to end."""
        async with asyncio.TaskGroup() as group:
            for reflector in self._reflectors:
                group.create_task(reflector.run(), name=f"watch-{reflector.resource.plural}")
            for controller in (self._companions, self._workload_statuses.controller, self._rule_statuses.controller):
                group.create_task(controller.run(), name=controller.name)
            group.create_task(self._caches.warm(), name="rules")
            group.create_task(self._expire(), name="lag")

    def waiting(self) -> list[str]:
        """What readiness waits for, one line each; nothing once every cache is filled and known to be right."""
        return [reflector.problem for reflector in self._reflectors if reflector.problem]

    def _waiting_in(self, namespace: str) -> int:
        """Workloads that a status in this namespace speaks of, and that wait for their turn; an admin's of all."""
        queue = self._companions.queue
        return queue.waiting(namespace) if namespace.startswith(TENANT_NAMESPACE_PREFIX) else len(queue)

    async def _expire(self) -> None:
        while True:
            await asyncio.sleep(_EXPIRY_CHECK)
            self._caches.expire()

    def _settled(self, workload: ObjectKey, rules: set[ObjectKey]) -> None:
        self._workload_statuses.controller.enqueue(workload)
        for rule in rules:
            self._rule_statuses.changed(rule)
