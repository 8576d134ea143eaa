"""Stands before every call: who calls, whether it may, how often; ends streams that their holder may not have any more.

It knows services by name and audience, not by what they do. Everything that ends a call with an error passes here
and becomes one gRPC status.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextvars import ContextVar
from dataclasses import dataclass, replace
from typing import Any

import grpc
import grpc.aio
import structlog

from app.errors import ApiError
from app.tenancy.callspans import ServedSpans
from app.tenancy.gateway.failures import Code, Refused, refusal_of
from app.tenancy.gateway.front import Connection
from app.tenancy.gateway.identity import Audience, Caller, Refusal
from app.tenancy.gateway.limits import Rate, Slots
from app.tenancy.gateway.observer import GatewayObserver
from app.tenancy.gateway.options import Limits
from app.tenancy.gateway.receiving import Context, Parse, Receiving
from app.tenancy.gateway.sparing import SparingLog
from app.tenancy.model import CLUSTER_KEY, Tenant

log = structlog.get_logger(__name__)

Behavior = Callable[[object, Context], Awaitable[None]]
TENANT_ID = "tenant-id"
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


@dataclass(frozen=True, slots=True)
class _Method:
    """What a service has under one name; `inner` takes messages, `parse` makes them."""

    service: str
    name: str
    inner: Callable[[Any, Context], Any]
    parse: Parse
    streams_in: bool
    streams_out: bool

    @property
    def streaming(self) -> bool:
        return self.streams_in or self.streams_out


@dataclass(slots=True, eq=False)
class _Stream:
    evidence: Evidence
    service: str
    peer: str
    scope: asyncio.Timeout
    ended: Refused | None = None


class Guard(grpc.aio.ServerInterceptor):
    """`audiences` maps the names of services to whom they are for; any other service is for nobody.

    `peer` knows whose connection it is that gRPC calls by a name. `claim` has the last word on a tenant's call, where
    more than the caches is needed for it. `waiting` says what is missing before callers can be told from each other.
    """

    def __init__(
        self,
        decide: Decide,
        *,
        claim: Claim,
        audiences: Mapping[str, Audience],
        waiting: Callable[[], list[str]],
        limits: Limits,
        receiving: Receiving,
        peer: Callable[[str], Connection | None],
        observer: GatewayObserver,
        lines: SparingLog,
        spans: ServedSpans | None = None,
    ) -> None:
        self._decide = decide
        self._spans = spans
        self._claim = claim
        self._audiences = audiences
        self._waiting = waiting
        self._observer = observer
        self._rate = Rate(per_second=limits.calls_per_second, burst=limits.calls_burst)
        self._refusals = Rate(per_second=limits.calls_per_second, burst=limits.calls_burst)
        self._receiving = receiving
        self._peer = peer
        self._seconds = limits.exchange
        self._calls = Slots(limits.calls_per_tenant, lambda _name, _count: None)
        self._slots = Slots(limits.streams_per_tenant, observer.streams)
        self._lines = lines
        self._held = Slots(_MOST_HELD, lambda _name, _count: None)
        self._streams: set[_Stream] = set()

    async def intercept_service(
        self,
        continuation: Callable[[grpc.HandlerCallDetails], Awaitable[grpc.RpcMethodHandler[Any, Any] | None]],
        handler_call_details: grpc.HandlerCallDetails,
    ) -> grpc.RpcMethodHandler[Any, Any] | None:
        handler: Any = await continuation(handler_call_details)
        if handler is None:  # no such method: gRPC says so
            return None
        _, service, name = handler_call_details.method.split("/", 2)
        kind = f"{_arity(handler.request_streaming)}_{_arity(handler.response_streaming)}"
        method = _Method(
            service,
            name,
            getattr(handler, kind),
            handler.request_deserializer,
            streams_in=handler.request_streaming,
            streams_out=handler.response_streaming,
        )
        # Every method is served as streams of bytes, which look the same on the wire: of a request that it knows to be
        # one message, gRPC would take in all before it asks anybody, and hand it over parsed.
        made: grpc.RpcMethodHandler[Any, Any] = grpc.stream_stream_rpc_method_handler(
            self._guarded(method), response_serializer=handler.response_serializer
        )
        return made

    def review(self) -> None:
        """Ask again who holds each open stream, and end those whose holder may not have it any more."""
        for kept in (self._rate, self._refusals, self._receiving):
            kept.forget_idle()
        for stream in tuple(self._streams):
            decision = self._decide(stream.evidence)
            if isinstance(decision, Refusal):
                self._end(stream, self._refuse(decision, service=stream.service, peer=stream.peer))

    def end_all(self, refused: Refused) -> None:
        """End every open stream."""
        for stream in tuple(self._streams):
            self._end(stream, refused)

    def _end(self, stream: _Stream, refused: Refused) -> None:
        if stream.ended is None:
            stream.ended = refused
            stream.scope.reschedule(asyncio.get_running_loop().time())

    def _guarded(self, method: _Method) -> Behavior:
        async def guarded(_requests: object, context: Context) -> None:
            started, code = time.monotonic(), "OK"
            try:
                await self._serve(method, context)
            except Refused as refused:
                code = refused.code.name
                await context.abort(refused.code, str(refused), refused.trailing)
            except ApiError as error:
                failure = refusal_of(error)
                code = failure.code.name
                await context.abort(failure.code, str(failure))
            except (asyncio.CancelledError, _Departed) as departed:
                code = "CANCELLED"
                raise asyncio.CancelledError from departed
            except grpc.aio.AbortError:
                code = "ABORTED"
                raise
            except Exception:  # the wall of a route: one call's bug must not stop the others
                log.exception("call failed", service=method.service, method=method.name)
                code = "INTERNAL"
                await context.abort(Code.INTERNAL, "internal error of the gateway")
            finally:
                self._observed(method, context, code, time.monotonic() - started)

        return guarded

    def _observed(self, method: _Method, context: Context, code: str, seconds: float) -> None:
        self._observer.called(method.service, method.name, code, seconds)
        if self._spans is not None and not method.streaming and self._audiences.get(method.service) != "anyone":
            metadata = tuple(context.invocation_metadata() or ())
            self._spans.served(method.service, method.name, code, seconds=seconds, metadata=metadata)

    async def _serve(self, method: _Method, context: Context) -> None:
        """One call, from who it is to the last byte of its answer."""
        peer = self._peer(context.peer())
        if peer is None:
            raise Refused(Code.UNAVAILABLE, "the connection is closed")
        audience = self._audiences.get(method.service, "admin")
        evidence = Evidence(peer.pem, _said(context, TENANT_ID), audience, _said(context, CLUSTER_KEY))
        caller = await self._recognized(evidence, service=method.service, peer=peer.address)
        holder = self._holder(caller, evidence, peer)
        with self._calls.hold(holder) as held:
            if not held:
                self._observer.throttled(holder, "calls")
                await self._wait(holder)
                raise Refused(Code.RESOURCE_EXHAUSTED, "too many calls under way; wait for one to end")
            if caller.tenant is not None and (refusal := await self._claim(caller.tenant, evidence.clusters)):
                raise self._refuse(refusal, service=method.service, peer=peer.address)
            if method.streaming:
                await self._streamed(holder, method, context, evidence=evidence, peer=peer)
                return
            async with self._receiving.request(method.parse, context, holder) as message:
                await self._give(context, await method.inner(message, context), peer)

    def _holder(self, caller: Caller, evidence: Evidence, peer: Connection) -> str:
        """Under what name the call counts; callers of what is open to anyone share one, unless they are known."""
        found: Caller | Refusal = caller
        for audience in () if evidence.audience != "anyone" else _KNOWN:
            found = self._decide(replace(evidence, audience=audience))
            if isinstance(found, Caller):
                break
        if isinstance(found, Refusal):
            return _STRANGERS
        peer.belongs_to(found.label)
        return found.label

    async def _give(self, context: Context, answer: Any, peer: Connection) -> None:
        """One answer, which has to be taken in time. gRPC keeps it until then, whatever becomes of the call."""
        try:
            async with asyncio.timeout(self._seconds):
                await _write(context, answer)
        except TimeoutError as error:
            peer.abort()
            raise _Departed from error

    async def _recognized(self, evidence: Evidence, *, service: str, peer: str) -> Caller:
        """Who calls, and not too often."""
        if evidence.audience != "anyone" and (missing := self._waiting()):
            raise Refused(Code.UNAVAILABLE, f"the gateway is not ready: {missing[0]}")
        decision = self._decide(evidence)
        if isinstance(decision, Refusal):
            await self._spare(decision, peer=peer)
            raise self._refuse(decision, service=service, peer=peer)
        _caller.set(decision)
        await self._take(decision.label)
        return decision

    async def _streamed(
        self, holder: str, method: _Method, context: Context, *, evidence: Evidence, peer: Connection
    ) -> None:
        with self._slots.hold(holder) as held:
            if not held:
                self._observer.throttled(holder, "streams")
                raise Refused(Code.RESOURCE_EXHAUSTED, "too many open streams; close one first")
            stream: _Stream | None = None
            try:
                async with asyncio.timeout(None) as scope:
                    stream = _Stream(evidence, method.service, peer.address, scope)
                    self._streams.add(stream)
                    try:
                        await self._stream(holder, method, context, peer)
                    finally:
                        self._streams.discard(stream)
            except TimeoutError:
                if stream is not None and stream.ended is not None:
                    raise stream.ended from None
                raise

    async def _stream(self, holder: str, method: _Method, context: Context, peer: Connection) -> None:
        """Runs in a scope that `_end` can close from outside."""
        # Before the first message: gRPC sends no status past a message that is stuck with the headers, and a caller
        # that is to send learns that it may.
        await context.send_initial_metadata(())
        receiving = self._receiving
        if method.streams_in:
            answer = method.inner(receiving.each(method.parse, context, holder), context)
        else:
            answer = method.inner(await receiving.first(method.parse, context, holder), context)
        if isinstance(answer, AsyncGenerator):
            async with contextlib.aclosing(answer) as messages:
                async for message in messages:
                    await _write(context, message)
        elif (last := await answer) is not None:
            await self._give(context, last, peer)

    async def _take(self, label: str) -> None:
        if delay := self._rate.take(label):
            self._observer.throttled(label, "rate")
            await self._wait(label)
            milliseconds = str(int(delay * 1000) + 1)
            message = f"too many calls; try again in {milliseconds} ms"
            # gRPC's own clients wait for so long before they try again.
            raise Refused(Code.RESOURCE_EXHAUSTED, message, trailing=(("grpc-retry-pushback-ms", milliseconds),))

    async def _spare(self, refusal: Refusal, *, peer: str) -> None:
        """Who is refused too often waits for it, under the name of the certificate or else where the call is from."""
        name = f"refused {refusal.name or peer.rpartition(':')[0]}"
        if self._refusals.take(name):
            self._observer.throttled(f"certificate {refusal.name}", "refused")
            await self._wait(name)

    async def _wait(self, name: str) -> None:
        """Calls come in through one door, one at a time: whoever is refused and asks again at once would fill it."""
        with self._held.hold(name) as held:
            if held:
                await asyncio.sleep(_HOLD)

    def _refuse(self, refusal: Refusal, *, service: str, peer: str) -> Refused:
        self._observer.refused(service, refusal.reason)
        same = {"certificate": refusal.name, "service": service, "reason": refusal.reason}
        self._lines.warning("call refused", same, peer=peer)
        # Another cluster's call is not a stranger's: it is served as soon as the Tenant says so.
        code = Code.FAILED_PRECONDITION if refusal.reason == "cluster" else Code.PERMISSION_DENIED
        return Refused(code, refusal.message)


class _Departed(Exception):
    """The peer is gone, and what was being written to it with it."""


async def _write(context: Context, message: Any) -> None:
    try:
        await context.write(message)
    except grpc.aio.InternalError as error:
        raise _Departed from error


def _arity(streaming: bool) -> str:  # noqa: FBT001 - gRPC's own flag
    return "stream" if streaming else "unary"


def _said(context: Context, wanted: str) -> tuple[str, ...]:
    """What the caller's metadata has under this key."""
    metadata = context.invocation_metadata() or ()
    return tuple(str(value) for key, value in metadata if key == wanted)
