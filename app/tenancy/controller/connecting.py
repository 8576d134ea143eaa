"""Whether a tenant's agent is connected: a decision over what is noted on its Tenant. Pure; the time is passed in."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta

from app.kube.conditions import Truth
from app.tenancy.controller.state import TenantState
from app.tenancy.link import CONTACT_SECONDS, Refused
from app.tenancy.model import (
    AGENT_CONNECTED,
    AGENT_SILENT,
    CERTIFICATE_REFUSED,
    CLUSTER_TAKEN,
    NO_CONTACT,
    SUSPENDED,
)
from app.text import abridged, stamp

_RECENT = timedelta(seconds=2 * CONTACT_SECONDS)
"""A contact counts for so long: twice the time between two notes, so that a late one changes nothing.

One that is further in the future counts as none.
"""
_ABANDONED = timedelta(seconds=5 * CONTACT_SECONDS)
"""After so long without another refusal, an agent in another tenant's cluster has the bundle of that tenant.

One that is refused calls twice a minute, which is noted once.
"""


@dataclass(frozen=True, slots=True)
class Verdict:
    """The condition Connected; `until` is in how many seconds it may be another without a change of an object."""

    truth: Truth
    reason: str
    message: str
    until: float | None = None

    @property
    def shown(self) -> tuple[str, str, str]:
        return self.truth, self.reason, abridged(self.message)


def judge(state: TenantState, *, holder_of: Callable[[str], str], now: datetime) -> Verdict:
    """`holder_of` is the tenant that has a cluster, "" where none has.

    A recent contact counts for more than a refusal: someone with an old bundle cannot make the agent look refused.
    """
    link, tenant = state.link, state.tenant
    if tenant is not None and tenant.suspended:
        return Verdict("False", SUSPENDED, "the tenant is suspended: the gateway refuses its agent")
    if link.cluster and (holder := holder_of(link.cluster)) != state.name:
        return _taken(state.name, link.cluster, holder)
    contact = link.contact
    since = now - contact if contact is not None else _RECENT
    if since < -_RECENT:  # a clock was wrong, or a person wrote it: it must not count until that time comes
        contact = None
    elif since < _RECENT:
        left = (_RECENT - since).total_seconds()
        return Verdict("True", AGENT_CONNECTED, "the gateway accepts the agent", left)
    if link.refused is not None and (contact is None or link.refused.at >= contact):
        verdict = _refused(state.name, link.refused, holder_of=holder_of, now=now)
        if verdict is not None:
            return verdict
    last = "no call was accepted yet" if contact is None else f"last contact {stamp(contact)}"
    ends = [pin.until for pin in tenant.certificates] if tenant is not None else []
    if ends and all(end is not None and end <= now for end in ends):
        text = f"every certificate of the tenant has ended: berth tenant rotate {state.name}; {last}"
        return Verdict("False", CERTIFICATE_REFUSED, text)
    if contact is None:
        return Verdict("Unknown", NO_CONTACT, "no agent has called yet")
    text = f"the agent does not call; {last}. The readiness of the agent, in the tenant's cluster, says why"
    return Verdict("False", AGENT_SILENT, text)


def _refused(name: str, refused: Refused, *, holder_of: Callable[[str], str], now: datetime) -> Verdict | None:
    """None for a refusal whose cause is gone: the cluster was another tenant's, or has its own bundle again."""
    if refused.reason == CLUSTER_TAKEN and refused.cluster:
        holder, left = holder_of(refused.cluster), (_ABANDONED - (now - refused.at)).total_seconds()
        return None if holder in ("", name) or left <= 0 else _taken(name, refused.cluster, holder, until=left)
    return Verdict("False", refused.reason, abridged(f"the gateway refuses the agent: {refused.message}"))


def _taken(name: str, cluster: str, holder: str, *, until: float | None = None) -> Verdict:
    text = (
        f"cluster {cluster} (UID of namespace kube-system) belongs to tenant {holder}: the gateway refuses agents of "
        f"tenant {name} there. Give the agent the bundle of tenant {holder}; or, if the cluster is to be of tenant "
        f"{name} from now on: berth tenant add {name} --move {holder}"
    )
    return Verdict("False", CLUSTER_TAKEN, text, until)
