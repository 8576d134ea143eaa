"""What all services of a gateway share: the API server, the caches, the bounds of calls, and the notes on Tenants.

On a Tenant the gateway notes of its agent: its cluster, when it was last accepted, its last call refused. A tenant is
bound to the first cluster that calls for it, and a cluster has one tenant. An agent removes what its cluster does not
have: with one bundle in two clusters, two agents would delete each other's objects in turn, without an error. With
bundles of two tenants in one cluster, all that it has would be there twice. Such calls are refused
(`cluster_refusal`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from functools import partial

import structlog

from app.errors import ApiError
from app.kube.rate import Rate
from app.kube.retry import every_item, until_no_conflict
from app.kube.turns import AdaptiveTurns, Turns
from app.kube.walls import wall
from app.kube.writing import apply_status
from app.logs import LogDedup
from app.tenancy.gateway.caches import Sources
from app.tenancy.gateway.failures import Code, code_of, message_of
from app.tenancy.gateway.failures import Refused as RefusedCall
from app.tenancy.gateway.identity import CONDITION_REASONS, Refusal, cluster_refusal
from app.tenancy.gateway.metrics import GatewayMetrics
from app.tenancy.gateway.quotas import RuleQuota, Storing
from app.tenancy.gateway.reading import Readers
from app.tenancy.gateway.settings import GatewaySettings, Limits
from app.tenancy.model import CLUSTER, MOVED, SUSPENDED, Link, Refused, Tenant, holder_of, link_of
from app.text import abridged, stamp, utc_now
from app.wire import JSON, pointer
from app.workloads.model import TENANTS

log = structlog.get_logger(__name__)
_CONTACTS, _REFUSALS = "berth-gateway-contacts", "berth-gateway-refusals"
"""Field managers. One for each field: what is applied is all that a manager has."""
_BURST = 2
"""Refusals of a tenant that are noted at once: another reason need not wait."""
_ATTEMPTS = 5
"""How often a note that met another change is tried."""
_PATH = pointer("metadata", "annotations", CLUSTER)
_AT_ONCE = 4
"""Clusters whose first call is looked into at a time."""


class Backend:
    """`turns` are those of requests to the API server, by tenant's namespace. `limits` are by default the settings'."""

    def __init__(
        self,
        sources: Sources,
        *,
        settings: GatewaySettings,
        limits: Limits | None = None,
        observer: GatewayMetrics | None = None,
    ) -> None:
        self.sources, self.client = sources, sources.client
        self.limits = limits = limits or settings.limits
        self.observer = observer or GatewayMetrics()
        self.placement, self.admin_names = settings.placement, settings.admin_names
        self.readers = Readers(limits)
        self.storing = Storing(limits, self.sources.pods)
        self.rule_quota = RuleQuota(self.sources.rules, workloads=self.sources.count_workloads, pairs=limits.pairs)
        self.turns = AdaptiveTurns(total=limits.writes, each=limits.writes_per_tenant)
        self.lines = LogDedup()
        self.contacts = Contacts(sources, self.lines, every=limits.contact)

    def forget_idle(self) -> None:
        """Keeps small what grows with the callers; call it now and then."""
        self.lines.review()
        self.readers.forget_idle()
        self.storing.forget_idle()
        self.turns.forget_idle()
        self.sources.ledger.expire()
        self.contacts.forget_idle()


class Clusters:
    """Notes a tenant's first cluster. Replicas agree, because each reads all Tenants again after its note.

    Where two Tenants have noted one cluster at a time, at least one of the two reads shows both notes. Who sees the
    note of another takes back its own and begins again.
    """

    def __init__(self, sources: Sources) -> None:
        self._client = sources.client
        self._turns = Turns(total=_AT_ONCE, each=1)

    async def claim(self, tenant: Tenant, clusters: Sequence[str]) -> Refusal | None:
        """For a call that `cluster_refusal` let pass: note its cluster, unless it is noted; why it is refused now.

        Reads the Tenant objects, because a cache may be behind. Raises RefusedCall where that or the note fails.
        """
        if not clusters or tenant.link.cluster == clusters[0]:
            return None
        async with self._turns.of(clusters[0]):
            try:
                attempt = partial(self._attempt, tenant, clusters)
                return await until_no_conflict(attempt, sleep=asyncio.sleep, attempts=_ATTEMPTS)
            except ApiError as error:
                code = Code.UNAVAILABLE if error.not_found or error.conflict else code_of(error)
                message = f"the cluster of tenant {tenant.name} cannot be noted: {message_of(error)}"
                raise RefusedCall(code, message) from error

    async def _attempt(self, tenant: Tenant, clusters: Sequence[str]) -> Refusal | None:
        obj, links = await self._client.get(TENANTS, tenant.name), await self._links()
        fresh = replace(tenant, link=links.get(tenant.name, Link()))
        refusal = cluster_refusal(fresh, clusters, holder_of=lambda cluster: holder_of(cluster, links.items()))
        if refusal is not None or fresh.link.cluster == clusters[0]:
            return refusal
        note = {"metadata": {"annotations": {CLUSTER: clusters[0], MOVED: None}}}
        version = obj["metadata"]["resourceVersion"]
        await self._client.patch(TENANTS, tenant.name, note, patch_type="merge", version=version)
        links = await self._links()
        if any(link.cluster == clusters[0] for name, link in links.items() if name != tenant.name):
            await self._withdraw(tenant.name, clusters[0])
            raise ApiError("another tenant has noted the same cluster", status=409, reason="Conflict")
        log.info("cluster of the tenant noted", tenant=tenant.name, cluster=clusters[0])
        return None

    async def _links(self) -> dict[str, Link]:
        """What is noted on each Tenant, those that cannot be used among them."""
        items = every_item(lambda token: self._client.list_page(TENANTS, continue_token=token))
        return {item["metadata"]["name"]: link_of(item) async for item in items}

    async def _withdraw(self, tenant: str, cluster: str) -> None:
        # The note is compared, not the version: another change of the Tenant, as of its status, must not prevent this.
        patch = [{"op": verb, "path": _PATH, "value": cluster} for verb in ("test", "remove")]
        await self._client.patch(TENANTS, tenant, patch, patch_type="json")


class Contacts:
    """`accepted` and `refused` return at once; `write` writes what is due.

    About one write of each for a tenant in `every` seconds, by all replicas together: each sees in its cache what
    another has noted. Callers whose certificate is of no tenant leave no note.
    """

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
        now, contact = self._now(), tenant.link.contact
        return (contact is None or self._apart(now, contact)) and self._pauses.get(tenant.name, now) <= now

    def _refusal_due(self, tenant: Tenant, refusal: Refused) -> bool:
        refused = tenant.link.refused
        same = refused is not None and (refused.reason, refused.message) == (refusal.reason, refusal.message)
        if same and refused is not None and not self._apart(refusal.at, refused.at):
            return False
        return not self._rate.take(tenant.name)

    def _apart(self, moment: datetime, noted: datetime) -> bool:
        """Whether a note is due. One from the future is replaced too: the clock of its writer was wrong."""
        return abs(moment - noted) >= self._every

    async def _apply(self, tenant: Tenant, manager: str, status: JSON) -> bool:
        try:
            await apply_status(self._client, TENANTS, ("", tenant.name), tenant.uid, status, manager=manager)
        except ApiError as error:
            if not error.status:
                raise
            self._lines.warning("contact not noted", {"tenant": tenant.name}, error=str(error))
            return False
        return True
