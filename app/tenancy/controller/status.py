"""The status of a Tenant: its conditions and the one-line result, from what the controller found.

The condition Connected says whether the gateway accepts the tenant's agent, and if not, why. The gateways note when
they accepted a call last, and what they refused; the condition follows from that, the other Tenants and the time. One
writer, so that replicas of the gateway that see different callers do not undo each other.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from prometheus_client import Gauge

from app.errors import ApiError
from app.kube.client import KubeClient
from app.kube.conditions import Truth, set_condition, since, status_of
from app.kube.controller import Done, RequeueAfter, Result
from app.kube.events import EventRecorder, EventType, Regarding
from app.kube.writing import apply_status
from app.tenancy.controller.state import Claims, TenantState
from app.tenancy.model import (
    AGENT_CONNECTED,
    AGENT_SILENT,
    CERTIFICATE_REFUSED,
    CLUSTER_TAKEN,
    CONNECTED,
    CONTACT_SECONDS,
    NO_CONTACT,
    SUSPENDED,
    Refused,
)
from app.tenancy.namespace import FIELD_MANAGER
from app.text import abridged, enumerated, stamp
from app.wire import JSON
from app.workloads.model import TENANTS, tenant_namespace

_RECENT = timedelta(seconds=2 * CONTACT_SECONDS)
"""A contact counts for so long: twice the time between two notes, so that a late one changes nothing.

One that is further in the future counts as none.
"""
_ABANDONED = timedelta(seconds=5 * CONTACT_SECONDS)
"""After so long without another refusal, an agent in another tenant's cluster has the bundle of that tenant.

One that is refused calls twice a minute, which is noted once.
"""
LINK_MANAGER = "berth-links"
"""Who owns the condition Connected; the other conditions have another owner."""
_SETTLING = timedelta(seconds=CONTACT_SECONDS / 2)
"""After a start, and after the API server could not be written to, gateways get so long to note contacts."""
ACCEPTED = Gauge(
    "tenants_connected",
    "1 if the gateway accepts the tenant's agent, by the reason of Connected; none for a suspended tenant",
    ("tenant", "reason"),
)


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that must hold. `problem` is "" where it does; `note` is for a person then."""

    type: str
    reason: str = ""
    problem: str = ""
    note: str = ""


async def write_status(
    client: KubeClient, obj: JSON, findings: Sequence[Finding], *, suspended: bool, now: datetime
) -> None:
    """Write what is ours of the status where it differs: all but what is noted of the agent, and Connected.

    Raises ApiError: also where another Tenant has the name by now.
    Times of transition are those of the object where a condition has not changed.
    """
    name, generation = obj["metadata"]["name"], int(obj["metadata"].get("generation") or 0)
    problems = [finding for finding in findings if finding.problem]
    message = enumerated([finding.problem for finding in problems])
    result = "error" if problems else "success"
    ready = Finding("Ready", problems[0].reason if problems else "", message)
    if not problems and suspended:
        result, message = "", "suspended: the gateway refuses the tenant's agent"
        ready = Finding("Ready", "Suspended", message)

    def condition(finding: Finding) -> JSON:
        status = "False" if finding.problem else "True"
        return {
            "type": finding.type,
            "status": status,
            "reason": finding.reason or "AsWanted",
            "message": abridged(finding.problem or finding.note),
            "observedGeneration": generation,
            "lastTransitionTime": since(status_of(obj), finding.type, status, now=stamp(now)),
        }

    status = {
        "namespace": tenant_namespace(name),
        "result": result,
        "message": message,
        "observedGeneration": generation,
        "conditions": [condition(finding) for finding in (ready, *findings)],
    }
    before = status_of(obj)
    ours = {finding.type for finding in (ready, *findings)}
    shown = {name: before.get(name) for name in status}
    shown["conditions"] = [entry for entry in before.get("conditions") or () if entry.get("type") in ours]
    if status != shown:
        await apply_status(client, TENANTS, ("", name), obj["metadata"]["uid"], status, manager=FIELD_MANAGER)


class LinkReconciler:
    def __init__(
        self, client: KubeClient, claims: Claims, events: EventRecorder | None, *, now: Callable[[], datetime]
    ) -> None:
        self._client, self._claims, self._events, self._now = client, claims, events, now
        self._recorded: dict[str, tuple[str, str]] = {}
        self._reasons: dict[str, str] = {}
        """The reason of each tenant that has a series."""
        self._unsettled = now()

    async def reconcile(self, name: str) -> Result:
        """One Tenant by its name, as the cache has it."""
        state = self._claims.tenants.get("", name)
        if state is None or state.ending:
            self._recorded.pop(name, None)
            self._forget(name)
            return Done()
        verdict = judge(state, holder_of=self._claims.holder_of, now=self._now())
        before = state.connected
        settling = self._unsettled + _SETTLING - self._now()
        if verdict.reason == AGENT_SILENT and before.get("status") == "True" and settling > timedelta():
            return RequeueAfter(settling.total_seconds())
        if (before.get("status"), before.get("reason"), before.get("message")) != verdict.shown:
            await self._write(state, verdict)
        self._record(state, verdict)
        if verdict.reason == SUSPENDED:  # as the cloud admin wants it: no alert
            self._forget(name)
        else:
            self._count(name, verdict.reason, up=verdict.truth == "True")
        return Done() if verdict.until is None else RequeueAfter(verdict.until)

    def _count(self, tenant: str, reason: str, *, up: bool) -> None:
        if self._reasons.get(tenant) not in (None, reason):
            self._forget(tenant)
        self._reasons[tenant] = reason
        ACCEPTED.labels(tenant, reason).set(up)

    def _forget(self, tenant: str) -> None:
        if (reason := self._reasons.pop(tenant, None)) is not None:
            ACCEPTED.remove(tenant, reason)

    def forget_all(self) -> None:
        """The term of leadership has ended: another replica reports."""
        for tenant in tuple(self._reasons):
            self._forget(tenant)

    async def _write(self, state: TenantState, verdict: _Verdict) -> None:
        status = {"conditions": [dict(state.connected)] if state.connected else []}
        set_condition(status, CONNECTED, verdict.truth, verdict.reason, verdict.message, now=self._now())
        try:
            await apply_status(self._client, TENANTS, ("", state.name), state.uid, status, manager=LINK_MANAGER)
        except ApiError:
            self._unsettled = self._now()
            raise

    def _record(self, state: TenantState, verdict: _Verdict) -> None:
        """An Event for each change; none where no agent has called yet, or the cache lags behind the last one."""
        now = (verdict.truth, verdict.reason)
        before = self._recorded.get(state.name) or (state.connected.get("status"), state.connected.get("reason"))
        self._recorded[state.name] = now
        resumed = before[1] == SUSPENDED and verdict.reason == AGENT_SILENT  # the agent is about to call again
        if self._events is None or now == before or verdict.truth == "Unknown" or resumed:
            return
        event: EventType = "Normal" if verdict.truth == "True" or verdict.reason == SUSPENDED else "Warning"
        regarding = Regarding.of(TENANTS, ("", state.name), state.uid)
        self._events.record(regarding, event, reason=verdict.reason, message=verdict.message)


@dataclass(frozen=True, slots=True)
class _Verdict:
    """The condition Connected; `until` is in how many seconds it may be another without a change of an object."""

    truth: Truth
    reason: str
    message: str
    until: float | None = None

    @property
    def shown(self) -> tuple[str, str, str]:
        return self.truth, self.reason, abridged(self.message)


def judge(state: TenantState, *, holder_of: Callable[[str], str], now: datetime) -> _Verdict:
    """`holder_of` is the tenant that has a cluster, "" where none has.

    A recent contact counts for more than a refusal: someone with an old bundle cannot make the agent look refused.
    """
    link, tenant = state.link, state.tenant
    if tenant is not None and tenant.suspended:
        return _Verdict("False", SUSPENDED, "the tenant is suspended: the gateway refuses its agent")
    if link.cluster and (holder := holder_of(link.cluster)) != state.name:
        return _taken(state.name, link.cluster, holder)
    contact = link.contact
    since = now - contact if contact is not None else _RECENT
    if since < -_RECENT:  # a clock was wrong, or a person wrote it: it must not count until that time comes
        contact = None
    elif since < _RECENT:
        left = (_RECENT - since).total_seconds()
        return _Verdict("True", AGENT_CONNECTED, "the gateway accepts the agent", left)
    if link.refused is not None and (contact is None or link.refused.at >= contact):
        verdict = _refused(state.name, link.refused, holder_of=holder_of, now=now)
        if verdict is not None:
            return verdict
    last = "no call was accepted yet" if contact is None else f"last contact {stamp(contact)}"
    ends = [pin.until for pin in tenant.certificates] if tenant is not None else []
    if ends and all(end is not None and end <= now for end in ends):
        text = f"every certificate of the tenant has ended: berth tenant rotate {state.name}; {last}"
        return _Verdict("False", CERTIFICATE_REFUSED, text)
    if contact is None:
        return _Verdict("Unknown", NO_CONTACT, "no agent has called yet")
    text = f"the agent does not call; {last}. The readiness of the agent, in the tenant's cluster, says why"
    return _Verdict("False", AGENT_SILENT, text)


def _refused(name: str, refused: Refused, *, holder_of: Callable[[str], str], now: datetime) -> _Verdict | None:
    """None for a refusal whose cause is gone: the cluster was another tenant's, or has its own bundle again."""
    if refused.reason == CLUSTER_TAKEN and refused.cluster:
        holder, left = holder_of(refused.cluster), (_ABANDONED - (now - refused.at)).total_seconds()
        return None if holder in ("", name) or left <= 0 else _taken(name, refused.cluster, holder, until=left)
    return _Verdict("False", refused.reason, abridged(f"the gateway refuses the agent: {refused.message}"))


def _taken(name: str, cluster: str, holder: str, *, until: float | None = None) -> _Verdict:
    text = (
        f"cluster {cluster} (UID of namespace kube-system) belongs to tenant {holder}: the gateway refuses agents of "
        f"tenant {name} there. Give the agent the bundle of tenant {holder}; or, if the cluster is to be of tenant "
        f"{name} from now on: berth tenant add {name} --move {holder}"
    )
    return _Verdict("False", CLUSTER_TAKEN, text, until)
