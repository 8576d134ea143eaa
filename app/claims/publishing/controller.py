"""The controller `claims`: network status of Pods in, network data in the status of their ResourceClaims out.

All state is in the cluster. Keys are Pods. Nothing is read but the caches; a claim is written where our fields
differ. The role `claims-node` runs it for the Pods of one node, with a token that is bound to this node.
"""

from __future__ import annotations

import math
import re
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from ipaddress import IPv4Network, IPv6Network

import structlog

from app.claims.model import FIELD_MANAGER, DeviceKey
from app.claims.publishing.caches import PublishingCaches
from app.claims.publishing.entries import Rules, State, Write, state_of, write_of
from app.claims.publishing.model import NetworkData, Planned
from app.claims.publishing.pauses import Growth, Pauses
from app.claims.publishing.planning import plan_pod
from app.claims.publishing.reporting import STATUS, WRITES, Reporting, create_series
from app.claims.settings import NodeSettings, PublishingSettings
from app.claims.stored import Claim, ClaimPod, stored_claim
from app.errors import ApiError
from app.kube.client import KubeClient
from app.kube.controller import Done, RequeueAfter, Result
from app.kube.events import EventRecorder
from app.kube.kit import Kit
from app.kube.resources import RESOURCE_CLAIMS
from app.kube.store import Key
from app.kube.walls import Apart
from app.networks.model import RESOURCE_NAME
from app.settings.reconciling import ControllerContext, RoleContext, Runnable
from app.settings.source import settings_as
from app.text import utc_now

log = structlog.get_logger(__name__)

NAME = "claims"
_LASTING = frozenset({"NoSlice"})
"""Reasons that say nothing of what was published before: a driver that restarts takes its slices away for a while."""
NODE_CONTROLLER = "claims-node"
_WORKERS = 4
_Place = tuple[str, DeviceKey]
"""The UID of a claim, and a device of it."""
Data = Mapping[DeviceKey, NetworkData]
_OUR_FAULT = ("metadata.uid", "status.devices[")
"""Fields of a 422 for a claim that has changed since it was read: replaced by another, or with other devices."""
_DENIED = re.compile("denied (the )?request")
"""By a webhook or a ValidatingAdmissionPolicy, whose messages may name these fields too."""
BUDGET = 5
"""Rewrites of a claim after short pauses. Those beyond come after growing ones."""
REFUSED = Growth(first=1.0, longest=300.0, floor=0.5)
REJECTED = Growth(first=20.0, longest=600.0, least=10.0)
ERASED = Growth(first=1.0, longest=300.0, quick=BUDGET, soon=0.5)
_ATTEMPT = 0.5
"""Seconds for which a write that tries a refused permission again keeps the others waiting."""
_QUIET = 600.0
"""Seconds without a rewrite after which a claim has its whole budget again."""
_CLAIMS = 4096
"""Claims whose rewrites are remembered."""


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
    create_series()
    Publisher(kit, options_of(settings))
    return kit


class Writing:
    """Applies network data to claims, once for each change, and acts on what the API server answers.

    `granted` is called where a permission that was refused is there.
    """

    def __init__(
        self,
        client: KubeClient,
        caches: PublishingCaches,
        reporting: Reporting,
        now: Callable[[], datetime],
        granted: Callable[[], object],
    ) -> None:
        self._client, self._caches, self._reporting, self._now = client, caches, reporting, now
        self._granted = granted
        self._refused = Pauses[str](REFUSED, hold=_ATTEMPT)
        """By driver, or `STATUS`: permissions that the role lacks."""
        self._rejected = Pauses[Key](REJECTED)
        """By claim, for its version and the data.

        What the claim itself shows to be wrong passes with its next version. What a policy or a webhook refuses may
        pass at any time, for example when another claim gives up an address, and no change of the claim says so.
        """
        self._erased = Pauses[str](ERASED, quiet=_QUIET, most=_CLAIMS)
        """By UID of a claim: fields that another writer removed."""
        self._applied: dict[Key, tuple[str, Data]] = {}
        """By claim: its UID, and what was applied last."""
        caches.claims.subscribe(lambda _event, key, _old, new: self._forget(key) if new is None else None)

    def problems(self) -> list[str]:
        """What the role lacks, a line each."""
        return self._reporting.missing(sorted(self._refused.recent(REFUSED.longest)))

    async def write(self, pod: ClaimPod, claim: Claim, data: Data, kept: frozenset[DeviceKey]) -> float | None:
        """Make our fields these, but for those of the devices that are `kept`.

        The result is the seconds after which to come again, None for not before something changes. Raises ApiError
        for what may pass.
        """
        write = write_of(claim, data, kept, now=self._now())
        if write is None:
            return None
        drivers = (STATUS, *write.drivers)
        if pause := self._rejected.wait((claim.key,), (claim.version, data)):
            return pause if pause < math.inf else None
        if pause := self._refused.wait(drivers):
            return pause
        again = self._applied.get(claim.key) == (claim.uid, data)
        if again:
            self._erased.failed(claim.uid)
            if pause := self._erased.wait((claim.uid,)):
                return pause
        outcome = "rewritten" if again else "applied" if data else "released"
        taken = await self._apply(pod, claim, write, data, outcome)
        if self._caches.claims.get(*claim.key) is None:
            # Its end came before the answer, and comes only once.
            self._forget(claim.key)
            return None
        if not taken:
            pause = self._rejected.left(claim.key, (claim.version, data)) or self._refused.wait(drivers)
            return pause if pause < math.inf else None
        if again and self._erased.tries(claim.uid) == BUDGET:
            self._reporting.erased(pod, claim, BUDGET)
        return None

    async def _apply(self, pod: ClaimPod, claim: Claim, write: Write, data: Data, outcome: str) -> bool:
        namespace, name = claim.key
        try:
            answer = await self._client.apply(
                RESOURCE_CLAIMS,
                name,
                write.body,
                namespace=namespace,
                field_manager=FIELD_MANAGER,
                force=write.force,
                subresource="status",
            )
        except ApiError as error:
            WRITES.labels(self._outcome(pod, claim, write, data, error)).inc()
            return False
        self._caches.written.wrote(claim.key, stored_claim(answer))
        self._applied[claim.key] = (claim.uid, data)
        self._rejected.passed(claim.key)
        WRITES.labels(outcome).inc()
        if self._refused.passed(STATUS, *write.drivers):
            self._granted()
        return True

    def _outcome(self, pod: ClaimPod, claim: Claim, write: Write, data: Data, error: ApiError) -> str:
        """How it ended. Raises what is to be tried again."""
        if error.lacks_driver or (error.status == 403 and " cannot patch resource " in str(error)):
            # The API server names each driver that lacks a right; others of the claim may have theirs.
            named = frozenset(driver for driver in write.drivers if f'"{driver}"' in str(error))
            names = (named or write.drivers) if error.lacks_driver else (STATUS,)
            for name in names:
                self._refused.failed(name)
            self._reporting.refused(pod, claim, names)
            log.warning("network data forbidden", claim=claim.key, error=str(error))
            return "refused"
        if error.not_found or error.rejected or error.status == 403:
            changed = any(field in str(error) for field in _OUR_FAULT) and not _DENIED.search(str(error))
            lasting = error.not_found or changed
            self._rejected.failed(claim.key, (claim.version, data), lasting=lasting)
            if not lasting:
                self._reporting.rejected(pod, claim, str(error))
            log.info("network data not taken", claim=claim.key, error=str(error))
            return "gone" if error.not_found else "rejected"
        WRITES.labels("conflict" if error.conflict else "failed").inc()
        raise error

    def _forget(self, claim: Key) -> None:
        self._applied.pop(claim, None)
        self._rejected.passed(claim)


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
        kit.at_end(self._reporting.shares.clear)

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
        self._reporting.planned(pod, inputs.claims, planned, states)
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
    create_series()

    def made(client: KubeClient, events: EventRecorder) -> Kit:
        kit = Kit(client, events=events, workers=_WORKERS, resync=settings.resync_seconds)
        Publisher(kit, options_of(settings, node=settings.node_name), name=NODE_CONTROLLER)
        return kit

    return context.elected(made)
