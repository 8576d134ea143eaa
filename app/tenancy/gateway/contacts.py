"""Notes on a Tenant when its agent was last accepted, and the last call with its certificate that was refused.

About one write of each for a tenant in `every` seconds, by all replicas together: each sees in its cache what another
has noted. Callers whose certificate is of no tenant leave no note.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta

from app.errors import ApiError
from app.kube.rate import Rate
from app.kube.retry import if_there
from app.kube.walls import wall
from app.logs import LogDedup
from app.tenancy.gateway.caches import Sources
from app.tenancy.gateway.identity import CONDITION_REASONS, Refusal
from app.tenancy.link import Refused
from app.tenancy.model import SUSPENDED, Tenant
from app.text import abridged, stamp, utc_now
from app.wire import JSON
from app.workloads.model import TENANTS

_CONTACTS, _REFUSALS = "berth-gateway-contacts", "berth-gateway-refusals"
"""Field managers. One for each field: what is applied is all that a manager has."""
_BURST = 2
"""Refusals of a tenant that are noted at once: another reason need not wait."""


class Contacts:
    """`accepted` and `refused` return at once; `write` writes what is due."""

    def __init__(
        self, sources: Sources, lines: LogDedup, *, every: float, now: Callable[[], datetime] = utc_now
    ) -> None:
        self._client, self._tenants, self._lines, self._now = sources.client, sources.tenants, lines, now
        self._every, self._again = timedelta(seconds=every), timedelta(seconds=every / 10)
        self._accepted: set[str] = set()
        self._refused: dict[str, Refused] = {}
        self._pauses: dict[str, datetime] = {}
        self._rate: Rate[str] = Rate(per_second=1 / every, burst=_BURST)

    def accepted(self, tenant: str) -> None:
        """A call of this tenant was accepted, or a stream of it is open."""
        self._accepted.add(tenant)

    def refused(self, refusal: Refusal) -> None:
        """A call was refused. That a tenant is suspended is no news: its Tenant says so."""
        reason = CONDITION_REASONS.get(refusal.reason, "")
        if refusal.tenant and reason not in ("", SUSPENDED):
            message = abridged(refusal.message)
            self._refused[refusal.tenant] = Refused(self._now(), reason, message, refusal.cluster)

    async def write(self) -> None:
        """Write what is due. What cannot be written is logged; a contact is written soon, a refusal at the next one.

        Where the API server does not answer, nothing more is tried: a contact would be noted long after it was one.
        """
        try:
            await self._write()
        except ApiError as error:
            self._lines.warning("contacts not noted", {}, error=str(error))

    async def _write(self) -> None:
        accepted, self._accepted = self._accepted, set()
        refused, self._refused = self._refused, {}
        for name in accepted:
            with wall("contacts", leave=(ApiError,), tenant=name):
                await self._write_contact(name)
        for name, refusal in refused.items():
            with wall("contacts", leave=(ApiError,), tenant=name):
                await self._write_refusal(name, refusal)

    async def _write_contact(self, name: str) -> None:
        if (tenant := self._tenants.get("", name)) is not None and self._contact_due(tenant):
            now = self._now()
            written = await self._apply(tenant, _CONTACTS, {"lastContact": stamp(now)})
            self._pauses[name] = now + (self._every if written else self._again)

    async def _write_refusal(self, name: str, refusal: Refused) -> None:
        if (tenant := self._tenants.get("", name)) is not None and self._refusal_due(tenant, refusal):
            fields = {"time": stamp(refusal.at), "reason": refusal.reason, "message": refusal.message}
            fields |= {"cluster": refusal.cluster} if refusal.cluster else {}
            await self._apply(tenant, _REFUSALS, {"lastRefusal": fields})

    def forget_idle(self) -> None:
        self._rate.forget_idle()
        self._pauses = {name: end for name, end in self._pauses.items() if self._now() < end}

    def _contact_due(self, tenant: Tenant) -> bool:
        now, known = self._now(), tenant.link.contact
        return (known is None or self._apart(now, known)) and self._pauses.get(tenant.name, now) <= now

    def _refusal_due(self, tenant: Tenant, refusal: Refused) -> bool:
        known = tenant.link.refused
        same = known is not None and (known.reason, known.message) == (refusal.reason, refusal.message)
        if same and known is not None and not self._apart(refusal.at, known.at):
            return False
        return not self._rate.take(tenant.name)

    def _apart(self, moment: datetime, noted: datetime) -> bool:
        """Whether a note is due. One from the future is replaced too: the clock of its writer was wrong."""
        return abs(moment - noted) >= self._every

    async def _apply(self, tenant: Tenant, manager: str, status: JSON) -> bool:
        body = TENANTS.body({"name": tenant.name, "uid": tenant.uid}, status=status)
        try:
            await if_there(self._client.apply(TENANTS, tenant.name, body, field_manager=manager, subresource="status"))
        except ApiError as error:
            if not error.status:
                raise
            self._lines.warning("contact not noted", {"tenant": tenant.name}, error=str(error))
            return False
        return True
