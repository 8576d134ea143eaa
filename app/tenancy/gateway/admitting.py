"""Admits calls: identifies the caller, checks its audience, and limits the rate and the number of its concurrent calls.

It knows the name and the audience of a service, and nothing else of it.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Iterator
from contextvars import ContextVar
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from app.kube.rate import Rate
from app.tenancy.gateway.backend import Backend
from app.tenancy.gateway.cluster import Clusters, cluster_refusal
from app.tenancy.gateway.failures import Code, Refused, later
from app.tenancy.gateway.front import Connection
from app.tenancy.gateway.identity import Audience, Caller, Refusal, identify
from app.tenancy.model import Tenant

_HOLD = 0.5
"""Seconds for which a call over the rate waits before it is refused."""
_MOST_HELD = 100
"""Calls of one caller that wait so; more are refused at once."""
_KNOWN: tuple[Audience, ...] = ("tenant", "admin")
_STRANGERS = "strangers"
_caller: ContextVar[Caller] = ContextVar("caller")


@dataclass(frozen=True, slots=True)
class Evidence:
    """What a call shows: its certificate, what it says of itself, and whom the service is for."""

    pem: bytes | None
    tenant_ids: tuple[str, ...]
    audience: Audience
    clusters: tuple[str, ...] = ()


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
        self._held: dict[str, int] = {}

    @contextlib.contextmanager
    def hold(self, name: str) -> Iterator[bool]:
        """One slot for as long as the block runs; False, and none is held, where all are taken."""
        count = self._held.get(name, 0)
        if count >= self._limit:
            yield False
            return
        self._set(name, count + 1)
        try:
            yield True
        finally:
            self._set(name, self._held[name] - 1)

    def _set(self, name: str, count: int) -> None:
        if count:
            self._held[name] = count
        else:
            del self._held[name]
        self._changed(name, count)


class Admission:
    """Tells callers from each other by the caches; `admin_ca` are the authorities of the cloud admin, None for any."""

    def __init__(self, backend: Backend, *, admin_ca: Callable[[], bytes | None]) -> None:
        limits = backend.limits
        self._sources, self._options = backend.sources, backend.options
        self._observer, self._lines = backend.observer, backend.lines
        self._admin_ca = admin_ca
        self._clusters = Clusters(backend.client)
        self._rate: Rate[str] = Rate(per_second=limits.calls_per_second, burst=limits.calls_burst)
        self._refusals: Rate[str] = Rate(per_second=limits.calls_per_second, burst=limits.calls_burst)
        self._held = Slots(_MOST_HELD)
        self._calls = Slots(limits.calls_per_tenant)

    def decide(self, evidence: Evidence) -> Caller | Refusal:
        """Who calls, as far as the caches know."""
        found = identify(
            evidence.pem,
            audience=evidence.audience,
            tenant_ids=evidence.tenant_ids,
            tenants_named=self._sources.tenants_named,
            admin_names=[name.lower() for name in self._options.admin_names],
            now=datetime.now(UTC),
            admin_ca=self._admin_ca(),
        )
        if isinstance(found, Refusal) or found.tenant is None:
            return found
        return cluster_refusal(found.tenant, evidence.clusters, certificate=found.certificate.name) or found

    @contextlib.asynccontextmanager
    async def call(self, evidence: Evidence, *, service: str, connection: Connection) -> AsyncIterator[str]:
        """A call that may run, for as long as the block does: the name that it counts under. Raises `Refused`."""
        caller = await self._recognized(evidence, service=service, peer=connection.address)
        holder = self._holder(caller, evidence, connection)
        with self._calls.hold(holder) as held:
            if not held:
                self._observer.throttled(holder, "calls")
                await self._wait(holder)
                raise Refused(Code.RESOURCE_EXHAUSTED, "too many calls under way; wait for one to end")
            if caller.tenant is not None and (refusal := await self._clusters.claim(caller.tenant, evidence.clusters)):
                raise self.refuse(refusal, service=service, peer=connection.address)
            yield holder

    def refuse(self, refusal: Refusal, *, service: str, peer: str) -> Refused:
        """What the refusal ends the call with; it is logged and counted."""
        self._observer.refused(service, refusal.reason)
        same = {"certificate": refusal.name, "service": service, "reason": refusal.reason}
        self._lines.warning("call refused", same, peer=peer)
        # Another cluster's call is not a stranger's: it is served as soon as the Tenant says so.
        code = Code.FAILED_PRECONDITION if refusal.reason == "cluster" else Code.PERMISSION_DENIED
        return Refused(code, refusal.message)

    def forget_idle(self) -> None:
        for kept in (self._rate, self._refusals):
            kept.forget_idle()

    async def _recognized(self, evidence: Evidence, *, service: str, peer: str) -> Caller:
        """Who calls, and not too often."""
        if evidence.audience != "anyone" and (missing := self._sources.unsynced()):
            raise Refused(Code.UNAVAILABLE, f"the gateway is not ready: {missing[0]}")
        decision = self.decide(evidence)
        if isinstance(decision, Refusal):
            await self._spare(decision, peer=peer)
            raise self.refuse(decision, service=service, peer=peer)
        _caller.set(decision)
        await self._take(decision.label)
        return decision

    def _holder(self, caller: Caller, evidence: Evidence, connection: Connection) -> str:
        """Callers of what is open to anyone share one name, unless they are known."""
        found: Caller | Refusal = caller
        for audience in () if evidence.audience != "anyone" else _KNOWN:
            found = self.decide(replace(evidence, audience=audience))
            if isinstance(found, Caller):
                break
        if isinstance(found, Refusal):
            return _STRANGERS
        connection.belongs_to(found.label)
        return found.label

    async def _take(self, label: str) -> None:
        if delay := self._rate.take(label):
            self._observer.throttled(label, "rate")
            await self._wait(label)
            raise later("too many calls", delay)

    async def _spare(self, refusal: Refusal, *, peer: str) -> None:
        """Delay callers that are refused too often, by the name of the certificate, else by the peer's address."""
        name = f"refused {refusal.name or peer.rpartition(':')[0]}"
        if self._refusals.take(name):
            self._observer.throttled(f"certificate {refusal.name}", "refused")
            await self._wait(name)

    async def _wait(self, name: str) -> None:
        """Hold the call for a moment. gRPC takes one call at a time: immediate retries would keep others waiting."""
        with self._held.hold(name) as held:
            if held:
                await asyncio.sleep(_HOLD)
