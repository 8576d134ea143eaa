"""The controller `claims`: network status of Pods in, network data in the status of their ResourceClaims out.

All state is in the cluster. Keys are Pods. Nothing is read but the caches; a claim is written where our fields differ.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from ipaddress import IPv4Network, IPv6Network

from app.claims import metrics
from app.claims.model import DeviceKey
from app.claims.publishing.caches import Caches
from app.claims.publishing.model import Planned
from app.claims.publishing.ownership import Rules, State, state_of
from app.claims.publishing.planning import plan_pod
from app.claims.publishing.reporting import Reporting
from app.claims.publishing.waits import Waits
from app.claims.publishing.writing import Writing
from app.claims.stored.claims import Claim
from app.claims.stored.pods import ClaimPod
from app.kube.client import KubeClient
from app.kube.controller import Controller, Done, RequeueAfter, Result
from app.kube.events import EventRecorder
from app.kube.running import stand, start
from app.kube.store import Key
from app.kube.walls import Apart
from app.networks.model import RESOURCE_NAME
from app.text import utc_now

NAME = "claims"
_EXPIRY_CHECK = 1.0
_LASTING = frozenset({"NoSlice"})
"""Reasons that say nothing of what was published before: a driver that restarts takes its slices away for a while."""


@dataclass(frozen=True, slots=True)
class Options:
    """With `node`, only Pods and devices of this node are looked at. `resync` is in seconds.

    `keys` are the annotations that name the resource of an attachment; `home` is the namespace of default networks.
    `unconfined` are attachments, NAMESPACE/NAME, whose addresses are published without known subnets; addresses in
    `excluded` are not.
    """

    rules: Rules = field(default_factory=Rules)
    keys: tuple[str, ...] = (RESOURCE_NAME,)
    home: str = "kube-system"
    node: str = ""
    workers: int = 16
    resync: float | None = 600.0
    unconfined: tuple[str, ...] = ()
    excluded: tuple[IPv4Network | IPv6Network, ...] = ()

    @property
    def verb(self) -> str:
        """What the role needs for a driver: a token that is bound to its node has less to be allowed."""
        return "associated-node:patch" if self.node else "arbitrary-node:patch"


class ClaimsController:
    """`run` it while this process leads, or alone on its node; it runs once."""

    def __init__(
        self,
        client: KubeClient,
        *,
        options: Options,
        events: EventRecorder | None = None,
        now: Callable[[], datetime] = utc_now,
        clock: Callable[[], float] = time.monotonic,
        name: str = NAME,
    ) -> None:
        self._rules = options.rules
        self._caches = caches = Caches(
            client,
            self._wake,
            keys=options.keys,
            home=options.home,
            node=options.node,
            unconfined=options.unconfined,
            excluded=options.excluded,
        )
        self._reporting = Reporting(events, verb=options.verb)
        self._writing = Writing(client, caches, self._reporting, now, self._wake_all)
        self._waits = Waits(clock)
        self._controller: Controller[Key] = Controller(
            name,
            self._reconcile,
            stores=caches.stores,
            keys=caches.pods.keys,
            workers=options.workers,
            resync=options.resync,
        )
        caches.pods.subscribe(lambda _event, key, _old, new: self._forget(key) if new is None else None)

    async def run(self) -> None:
        """Until cancelled; what is under way then gets a few seconds to end."""
        try:
            async with asyncio.TaskGroup() as group:
                start(group, self._caches.reflectors, (self._controller,))
                stand(group, "claims-lag", self._expire)
        finally:
            metrics.forget_all()

    def waiting(self) -> list[str]:
        """What readiness waits for, one line each."""
        return [*self._caches.waiting(), *self._writing.problems()]

    async def _reconcile(self, key: Key) -> Result:
        pod = self._caches.pods.get(*key)
        if pod is None or pod.over:
            # The API server drops the entries of a claim with its allocation.
            self._forget(key)
            return Done()
        inputs = self._caches.inputs_of(pod)
        planned = plan_pod(inputs)
        states: dict[DeviceKey, State] = {}
        pauses: list[float] = []
        apart = Apart()
        for claim in inputs.claims:
            if not claim.allocated or claim.deleting or all(one.uid != pod.uid for one in claim.consumers):
                continue
            with apart.step():
                of_claim = self._states(pod, claim, planned)
                states |= of_claim
                data = {
                    device: planned.data[claim.key][device]
                    for device, state in of_claim.items()
                    if state == "published"
                }
                kept = _kept(claim, planned).union(one for one in claim.entries if not self._rules.lists(one.driver))
                pause = await self._writing.write(pod, claim, data, kept)
                pauses += [] if pause is None else [pause]
        self._reporting.planned(pod, planned, states)
        apart.end()
        pauses += self._waits.ends(key)
        return RequeueAfter(min(pauses)) if pauses else Done()

    def _states(self, pod: ClaimPod, claim: Claim, planned: Planned) -> dict[DeviceKey, State]:
        found: dict[DeviceKey, State] = {}
        for device in planned.data.get(claim.key, ()):
            entry = claim.entries.get(device)
            waited = 0.0
            if device.driver in self._rules.self_publishing and self._rules.repair_after:
                there = entry is not None and entry.network_data is not None
                waited = self._waits.waited(pod.key, claim.uid, device, self._rules.repair_after, over=there)
            found[device] = state_of(device, entry, self._rules, waited=waited)
        return found

    async def _expire(self) -> None:
        while True:
            await asyncio.sleep(_EXPIRY_CHECK)
            self._caches.expire()

    def _forget(self, pod: Key) -> None:
        self._reporting.forget(pod)
        self._waits.forget(pod)

    def _wake(self, key: Key) -> None:
        self._controller.enqueue(key)

    def _wake_all(self) -> None:
        for key in self._caches.pods.keys():  # noqa: SIM118 - a store is no mapping
            self._wake(key)


def _kept(claim: Claim, planned: Planned) -> frozenset[DeviceKey]:
    return frozenset(
        one.device
        for one in planned.unpublished
        if one.claim == claim.key and one.device is not None and one.reason in _LASTING
    )
