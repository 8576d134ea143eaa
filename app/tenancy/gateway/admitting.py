"""Admits calls: identifies the caller, checks its audience, and limits the rate and the number of its concurrent calls.

It knows the name and the audience of a service, and nothing else of it.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from app.kube.rate import Rate
from app.tenancy.gateway.backend import Backend, Clusters
from app.tenancy.gateway.failures import Code, Refused, later
from app.tenancy.gateway.front import Connection
from app.tenancy.gateway.identity import Audience, Caller, Refusal, cluster_refusal, identify
from app.tenancy.model import CLUSTER_KEY, Tenant

TENANT_ID = "tenant-id"
_KNOWN: tuple[Audience, ...] = ("tenant", "admin")
_STRANGERS = "strangers"
_caller: ContextVar[Caller] = ContextVar("caller")


@dataclass(frozen=True, slots=True)
class Evidence:
    """What a call shows: its connection with the certificate, the callers of its service, and its metadata."""

    connection: Connection
    service: str
    audience: Audience
    metadata: Sequence[tuple[str, str | bytes]]

    def said(self, key: str) -> tuple[str, ...]:
        """The values of this key of the metadata."""
        return tuple(str(value) for name, value in self.metadata if name == key)


def tenant_of_call() -> Tenant:
    """The tenant whose call is being served; only for services that are for tenants."""
    tenant = _caller.get().tenant
    assert tenant is not None, "a tenant's service without a tenant"  # noqa: S101 - the guard has seen to it
    return tenant


def label_of_call() -> str:
    """What the limits of the call's caller are counted under."""
    return _caller.get().label


class Slots:
    """Counts what each name holds; never more than `limit`."""

    def __init__(self, limit: int, changed: Callable[[str, int], None] = lambda _name, _count: None) -> None:
        self._limit = limit
        self._changed = changed
        self._held: Counter[str] = Counter()

    @contextlib.contextmanager
    def hold(self, name: str) -> Iterator[bool]:
        """One slot for as long as the block runs; False, and none is held, where all are taken."""
        if self._held[name] >= self._limit:
            yield False
            return
        self._add(name, 1)
        try:
            yield True
        finally:
            self._add(name, -1)

    def _add(self, name: str, more: int) -> None:
        self._held[name] += more
        self._changed(name, self._held[name])
        if not self._held[name]:
            del self._held[name]


class Admission:
    """Recognizes callers by the caches; `admin_ca` are the authorities of the cloud admin, None for any."""

    def __init__(self, backend: Backend, *, admin_ca: Callable[[], bytes | None]) -> None:
        limits = backend.limits
        self.backend = backend
        self._admin_names = frozenset(name.lower() for name in backend.admin_names)
        self._admin_ca = admin_ca
        self._clusters = Clusters(backend.sources)
        self._rate: Rate[str] = Rate(per_second=limits.calls_per_second, burst=limits.calls_burst)
        self._refusals: Rate[str] = Rate(per_second=limits.calls_per_second, burst=limits.calls_burst)
        self._hold, self._held = limits.hold, Slots(limits.held_calls)
        self._calls = Slots(limits.calls_per_tenant)

    def decide(self, evidence: Evidence) -> Caller | Refusal:
        """Who calls, as far as the caches know."""
        caller = identify(
            evidence.connection.pem,
            audience=evidence.audience,
            tenant_ids=evidence.said(TENANT_ID),
            tenants_named=self.backend.sources.tenants_named,
            admin_names=self._admin_names,
            now=datetime.now(UTC),
            admin_ca=self._admin_ca(),
        )
        if isinstance(caller, Refusal) or caller.tenant is None:
            return caller
        clusters, holder_of = evidence.said(CLUSTER_KEY), self.backend.sources.holder_of
        return (
            cluster_refusal(caller.tenant, clusters, certificate=caller.certificate.name, holder_of=holder_of) or caller
        )

    @contextlib.asynccontextmanager
    async def call(self, evidence: Evidence) -> AsyncIterator[str]:
        """A call that may run, for as long as the block does: the name that it counts under. Raises `Refused`."""
        caller = await self._recognized(evidence)
        holder = self._holder(caller, evidence)
        with self._calls.hold(holder) as held:
            if not held:
                await self._throttled(holder, holder, "calls")
                raise Refused(Code.RESOURCE_EXHAUSTED, "too many calls under way; wait for one to end")
            if caller.tenant is not None:
                if refusal := await self._clusters.claim(caller.tenant, evidence.said(CLUSTER_KEY)):
                    raise self.refuse(refusal, evidence)
                self.backend.contacts.accepted(caller.tenant.name)
            yield holder

    def refuse(self, refusal: Refusal, evidence: Evidence) -> Refused:
        """What the refusal ends the call with; it is logged and counted."""
        self.backend.observer.refused(evidence.service, refusal.reason)
        self.backend.contacts.refused(refusal)
        same = {"certificate": refusal.name, "service": evidence.service, "reason": refusal.reason}
        self.backend.lines.warning("call refused", same, peer=evidence.connection.address)
        # Another cluster's call is not a stranger's: it is served as soon as the Tenants say so.
        by_cluster = refusal.reason in ("cluster", "cluster_taken")
        code = Code.FAILED_PRECONDITION if by_cluster else Code.PERMISSION_DENIED
        return Refused(code, refusal.message)

    def forget_idle(self) -> None:
        for kept in (self._rate, self._refusals):
            kept.forget_idle()

    async def _recognized(self, evidence: Evidence) -> Caller:
        """Who calls, and not too often. Refused callers count by the certificate's name, else by the peer's address."""
        if evidence.audience != "anyone" and (missing := self.backend.sources.unsynced()):
            raise Refused(Code.UNAVAILABLE, f"the gateway is not ready: {missing[0]}")
        decision = self.decide(evidence)
        if isinstance(decision, Refusal):
            name = f"refused {decision.name or evidence.connection.address.rpartition(':')[0]}"
            if self._refusals.take(name):
                await self._throttled(name, f"certificate {decision.name}", "refused")
            raise self.refuse(decision, evidence)
        _caller.set(decision)
        if delay := self._rate.take(decision.label):
            await self._throttled(decision.label, decision.label, "rate")
            raise later("too many calls", delay)
        return decision

    def _holder(self, caller: Caller, evidence: Evidence) -> str:
        """Callers of what is open to anyone share one name, unless they are known."""
        holder: Caller | Refusal = caller
        for audience in () if evidence.audience != "anyone" else _KNOWN:
            holder = self.decide(replace(evidence, audience=audience))
            if isinstance(holder, Caller):
                break
        if isinstance(holder, Refusal):
            return _STRANGERS
        evidence.connection.belongs_to(holder.label)
        return holder.label

    async def _throttled(self, name: str, shown: str, what: str) -> None:
        """Count it, and hold the call for a moment: gRPC takes one at a time, and retries would keep others waiting."""
        self.backend.observer.throttled(shown, what)
        with self._held.hold(name) as held:
            if held:
                await asyncio.sleep(self._hold)
