"""The controller `claims`: network status of Pods in, network data in the status of their ResourceClaims out.

All state is in the cluster. Keys are Pods. Nothing is read but the caches; a claim is written where our fields
differ. The role `claims-node` runs it for the Pods of one node, with a token that is bound to this node.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from ipaddress import IPv4Network, IPv6Network

from app.claims import metrics
from app.claims.model import DeviceKey
from app.claims.publishing.caches import PublishingCaches
from app.claims.publishing.entries import Rules, State, state_of
from app.claims.publishing.model import Planned
from app.claims.publishing.pauses import Growth, Pauses
from app.claims.publishing.planning import plan_pod
from app.claims.publishing.reporting import Reporting
from app.claims.publishing.writing import Writing
from app.claims.settings import NodeSettings, PublishingSettings
from app.claims.stored import Claim, ClaimPod
from app.kube.client import KubeClient
from app.kube.controller import Done, RequeueAfter, Result
from app.kube.events import EventRecorder
from app.kube.kit import Kit
from app.kube.store import Key
from app.kube.walls import Apart
from app.networks.model import RESOURCE_NAME
from app.settings.reconciling import ControllerContext, RoleContext, Runnable
from app.settings.source import settings_as
from app.text import utc_now

NAME = "claims"
_LASTING = frozenset({"NoSlice"})
"""Reasons that say nothing of what was published before: a driver that restarts takes its slices away for a while."""
NODE_CONTROLLER = "claims-node"
_WORKERS = 4
_Place = tuple[str, DeviceKey]
"""The UID of a claim, and a device of it."""


@dataclass(frozen=True, slots=True)
class PublishingOptions:
    """With `node`, only Pods and devices of this node are looked at.

    `keys` are the annotations that name the resource of an attachment; `home` is the namespace of default networks.
    `unconfined` are attachments, NAMESPACE/NAME, whose addresses are published without known subnets; addresses in
    `excluded` are not.
    """

    rules: Rules = field(default_factory=Rules)
    keys: tuple[str, ...] = (RESOURCE_NAME,)
    home: str = "kube-system"
    node: str = ""
    unconfined: tuple[str, ...] = ()
    excluded: tuple[IPv4Network | IPv6Network, ...] = ()

    @property
    def verb(self) -> str:
        """What the role needs for a driver: a token that is bound to its node has less to be allowed."""
        return "associated-node:patch" if self.node else "arbitrary-node:patch"


def options_of(settings: PublishingSettings, *, node: str = "") -> PublishingOptions:
    """With `node`, those of the agent of this node."""
    return PublishingOptions(
        rules=Rules(
            drivers=frozenset(settings.claims_drivers),
            conflict=settings.claims_conflict,
            self_publishing=frozenset(settings.claims_self_publishing),
            repair_after=settings.claims_repair_after,
        ),
        keys=settings.network_resource_name_keys,
        home=settings.default_network_namespace,
        node=node,
        unconfined=settings.unconfined_networks,
        excluded=settings.excluded,
    )


def build(context: ControllerContext) -> Kit:
    settings, kit = settings_as(context.settings, PublishingSettings), context.kit()
    metrics.create_series()
    Publisher(kit, options_of(settings))
    return kit


class Publisher:
    """Makes the controller `name` of the kit, which runs while this process leads, or alone on its node."""

    def __init__(
        self,
        kit: Kit,
        options: PublishingOptions,
        *,
        now: Callable[[], datetime] = utc_now,
        clock: Callable[[], float] = time.monotonic,
        name: str = NAME,
    ) -> None:
        self._rules = options.rules
        self.caches = caches = PublishingCaches(
            kit,
            keys=options.keys,
            home=options.home,
            node=options.node,
            unconfined=options.unconfined,
            excluded=options.excluded,
        )
        self._reporting = Reporting(kit.events, verb=options.verb)
        self._clock = clock
        self._repairs: dict[Key, Pauses[_Place]] = {}
        """By Pod: what drivers that publish for themselves have not yet published, until we do it.

        The time begins again with the process: no object says since when the data could be there.
        """
        controller = kit.reconcile(name, self._reconcile, keys=caches.pods.keys, wakes=caches.wakes())
        self.writing = Writing(kit.client, caches, self._reporting, now, controller.enqueue_all)
        caches.pods.subscribe(lambda _event, key, _old, new: self._forget(key) if new is None else None)
        kit.waits_for(self.writing.problems)
        kit.at_end(metrics.forget_all)

    async def _reconcile(self, key: Key) -> Result:
        pod = self.caches.pods.get(*key)
        if pod is None or pod.over:
            # The API server drops the entries of a claim with its allocation.
            self._forget(key)
            return Done()
        inputs = self.caches.inputs_of(pod)
        planned = plan_pod(inputs)
        states: dict[DeviceKey, State] = {}
        pauses: list[float] = []
        apart = Apart()
        for claim in inputs.claims:
            if not claim.allocated or claim.deleting or all(consumer.uid != pod.uid for consumer in claim.consumers):
                continue
            with apart.step():
                of_claim = self._states(pod, claim, planned)
                states |= of_claim
                data = {
                    device: planned.data[claim.key][device]
                    for device, state in of_claim.items()
                    if state == "published"
                }
                kept = _kept(claim, planned).union(
                    device for device in claim.entries if not self._rules.lists(device.driver)
                )
                pause = await self.writing.write(pod, claim, data, kept)
                pauses += [] if pause is None else [pause]
        self._reporting.planned(pod, planned, states)
        apart.end()
        if (repairs := self._repairs.get(key)) is not None:
            pauses += [left for place in repairs if (left := repairs.left(place))]
        return RequeueAfter(min(pauses)) if pauses else Done()

    def _states(self, pod: ClaimPod, claim: Claim, planned: Planned) -> dict[DeviceKey, State]:
        states: dict[DeviceKey, State] = {}
        for device in planned.data.get(claim.key, ()):
            entry = claim.entries.get(device)
            published = entry is not None and entry.network_data is not None
            overdue = self._overdue(pod.key, (claim.uid, device), published=published)
            states[device] = state_of(device, entry, self._rules, overdue=overdue)
        return states

    def _overdue(self, pod: Key, place: _Place, *, published: bool) -> bool:
        """Whether a driver that publishes for itself has had its time."""
        _, device = place
        after = self._rules.repair_after
        if device.driver not in self._rules.self_publishing or not after:
            return False
        repairs = self._repairs.get(pod)
        if repairs is None:
            repairs = self._repairs[pod] = Pauses(Growth(after, after, floor=1.0), clock=self._clock)
        if published:
            repairs.passed(place)
            return False
        repairs.failed(place)
        return not repairs.left(place)

    def _forget(self, pod: Key) -> None:
        self._reporting.forget(pod)
        self._repairs.pop(pod, None)


def _kept(claim: Claim, planned: Planned) -> frozenset[DeviceKey]:
    return frozenset(
        unpublished.device
        for unpublished in planned.unpublished
        if unpublished.claim == claim.key and unpublished.device is not None and unpublished.reason in _LASTING
    )


def build_for_node(context: RoleContext) -> Runnable:
    settings = settings_as(context.settings, NodeSettings)
    metrics.create_series()

    def made(client: KubeClient, events: EventRecorder) -> Kit:
        kit = Kit(client, events=events, workers=_WORKERS, resync=settings.resync_seconds)
        Publisher(kit, options_of(settings, node=settings.node_name), name=NODE_CONTROLLER)
        return kit

    return context.elected(made)
