"""Says what is not published and why: Events on Pods and claims once for each state, metrics, lines of readiness.

Of what the API server does not permit, it says which rule is missing.
"""

from __future__ import annotations

from collections import Counter as Counts
from collections.abc import Iterable, Mapping
from typing import get_args

from prometheus_client import Counter, Gauge

from app.claims.model import DeviceKey
from app.claims.publishing.entries import STATES, State, withheld_message, withheld_reason
from app.claims.publishing.model import Planned, Reason
from app.claims.stored import Claim, ClaimPod
from app.kube.events import EventRecorder, EventType, Regarding
from app.kube.resources import PODS, RESOURCE_CLAIMS
from app.kube.store import Key
from app.metrics import Shares

STATUS = ""
"""The permission for the status as a whole. The others are named by drivers."""
DEVICES = Gauge(
    "claims_devices",
    "Devices of Pods with network data: published, deferred to another field manager, left to a driver that is "
    "self-publishing, or of a driver that is unlisted",
    ("state",),
)
UNMATCHED = Gauge("claims_unmatched", "Devices and claims without network data that a user should look at", ("reason",))
WRITES = Counter(
    "claims_writes_total",
    "Writes of network data into claims, by how they ended; rewritten: another writer had removed what was applied",
    ("outcome",),
)
_OUTCOMES = ("applied", "rewritten", "released", "conflict", "gone", "refused", "rejected", "failed")
_Problem = tuple[Key, str, str]
"""Claim, reason and message of an Event."""


def create_series() -> None:
    """Create the series at zero, so that a rate over them is right from the first scrape."""
    for state in STATES:
        DEVICES.labels(state)
    for reason in get_args(Reason):
        UNMATCHED.labels(reason)
    for outcome in _OUTCOMES:
        WRITES.labels(outcome)


def missing_rule(driver: str, verb: str) -> str:
    """The rule to add to the role, where this was refused. `verb` is the one for drivers."""
    group = RESOURCE_CLAIMS.group
    if driver == STATUS:
        return f"apiGroups [{group}], resources [{RESOURCE_CLAIMS.plural}/status], verbs [patch]"
    resource = f"{RESOURCE_CLAIMS.plural}/driver"
    return f"apiGroups [{group}], resources [{resource}], verbs [{verb}], resourceNames [{driver}]"


class Reporting:
    """`verb` is the one for drivers that the role needs. Without `events` there are none."""

    def __init__(self, events: EventRecorder | None, *, verb: str) -> None:
        self._events, self._verb = events, verb
        self._told: dict[Key, tuple[str, frozenset[_Problem]]] = {}
        """Of each Pod that has problems: its UID, and the problems."""
        self.shares = Shares(DEVICES, UNMATCHED)

    def missing(self, names: Iterable[str]) -> list[str]:
        """What the role lacks, a line each."""
        return [f"network data is not published: the role needs {missing_rule(name, self._verb)}" for name in names]

    def planned(
        self, pod: ClaimPod, claims: Iterable[Claim], planned: Planned, states: Mapping[DeviceKey, State]
    ) -> None:
        """What was found for a Pod with these claims: its problems become Events on both where they are new."""
        unmatched = Counts[str](finding.reason for finding in planned.unpublished if finding.problem)
        self.shares.set(pod.key, Counts(states.values()), unmatched)
        problems = frozenset(_problems(planned))
        uid, before = self._told.pop(pod.key, ("", frozenset()))
        if problems:
            self._told[pod.key] = (pod.uid, problems)
        uids = {claim.key: claim.uid for claim in claims}
        for claim, reason, message in sorted(problems - before if uid == pod.uid else problems):
            self._record(Regarding.of(PODS, pod.key, pod.uid), "Warning", reason, f"claim {claim[1]}{message}")
            own = message.removeprefix(": ").removeprefix(", ")
            self._record(Regarding.of(RESOURCE_CLAIMS, claim, uids[claim]), "Warning", reason, own)

    def refused(self, pod: ClaimPod, claim: Claim, names: Iterable[str]) -> None:
        for line in self.missing(names):
            self._on_both(pod, claim, "NetworkDataForbidden", line)

    def rejected(self, pod: ClaimPod, claim: Claim, answer: str) -> None:
        """The API server does not take the network data: another right would not help."""
        self._on_both(pod, claim, "NetworkDataRejected", answer)

    def erased(self, pod: ClaimPod, claim: Claim, count: int) -> None:
        message = f"another writer of status.devices has removed the network data {count} times; the pauses grow"
        self._on_both(pod, claim, "NetworkDataErased", message)

    def forget(self, pod: Key) -> None:
        """The Pod is gone, or has ended."""
        self._told.pop(pod, None)
        self.shares.set(pod)

    def _on_both(self, pod: ClaimPod, claim: Claim, reason: str, message: str) -> None:
        self._record(Regarding.of(RESOURCE_CLAIMS, claim.key, claim.uid), "Warning", reason, message)
        self._record(Regarding.of(PODS, pod.key, pod.uid), "Warning", reason, f"claim {claim.key[1]}: {message}")

    def _record(self, regarding: Regarding, event: EventType, reason: str, message: str) -> None:
        if self._events is not None:
            self._events.record(regarding, event, reason=reason, message=message)


def _problems(planned: Planned) -> Iterable[_Problem]:
    """Each message goes on from the name of its claim."""
    for finding in planned.unpublished:
        if finding.problem:
            device = "" if finding.device is None else f", device {finding.device}"
            yield finding.claim, "NetworkDataUnmatched", f"{device}: {finding.message}"
    for claim, devices in planned.data.items():
        for key, data in devices.items():
            if data.withheld:
                yield claim, withheld_reason(data), f", device {key}: {withheld_message(data)}"
            if data.dropped:
                beyond = f"{data.dropped} addresses beyond {len(data.ips)} are not published"
                yield claim, "TooManyAddresses", f", device {key}: {beyond}"
