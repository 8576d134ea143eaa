"""Admits calls: identifies the caller, checks its audience, and limits the rate and the number of its concurrent calls.

It knows the name and the audience of a service, and nothing else of it.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from contextvars import ContextVar
from dataclasses import dataclass, replace

from app.kube.rate import Rate
from app.tenancy.gateway.failures import Code, Refused, later
from app.tenancy.gateway.front import Connection
from app.tenancy.gateway.identity import Audience, Caller, Refusal
from app.tenancy.gateway.limits import Slots
from app.tenancy.gateway.log_dedup import SparingLog
from app.tenancy.gateway.metrics import GatewayMetrics
from app.tenancy.gateway.options import Limits
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


Decide = Callable[[Evidence], Caller | Refusal]
Claim = Callable[[Tenant, tuple[str, ...]], Awaitable[Refusal | None]]


def tenant_of_call() -> Tenant:
    """The tenant whose call is being served; only for services that are for tenants."""
    tenant = _caller.get().tenant
    assert tenant is not None, "a tenant's service without a tenant"  # noqa: S101 - the guard has seen to it
    return tenant


def label_of_call() -> str:
    """What the limits of the call's caller are counted under."""
    return _caller.get().label


class Admission:
    """`decide` tells callers from each other by the caches.

    `claim` has the last word on a tenant's call, where more than the caches is needed for it. `waiting` says what is
    missing before callers can be told from each other.
    """

    def __init__(
        self,
        decide: Decide,
        *,
        claim: Claim,
        waiting: Callable[[], list[str]],
        limits: Limits,
        observer: GatewayMetrics,
        lines: SparingLog,
    ) -> None:
        self.decide = decide
        self._claim = claim
        self._waiting = waiting
        self._observer = observer
        self._lines = lines
        self._rate: Rate[str] = Rate(per_second=limits.calls_per_second, burst=limits.calls_burst)
        self._refusals: Rate[str] = Rate(per_second=limits.calls_per_second, burst=limits.calls_burst)
        self._held = Slots(_MOST_HELD, lambda _name, _count: None)
        self._calls = Slots(limits.calls_per_tenant, lambda _name, _count: None)

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
            if caller.tenant is not None and (refusal := await self._claim(caller.tenant, evidence.clusters)):
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
        if evidence.audience != "anyone" and (missing := self._waiting()):
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
