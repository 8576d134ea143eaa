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
from dataclasses import dataclass
from typing import Any

import grpc
import grpc.aio
import structlog

from app.errors import ApiError
from app.tenancy.callspans import ServedSpans
from app.tenancy.gateway.failures import Code, Refused, refusal_of
from app.tenancy.gateway.identity import Audience, Caller, Refusal
from app.tenancy.gateway.limits import Rate, Slots
from app.tenancy.gateway.observer import GatewayObserver
from app.tenancy.gateway.options import Limits
from app.tenancy.gateway.receiving import Read, Receiving
from app.tenancy.gateway.sparing import SparingLog
from app.tenancy.model import CLUSTER_KEY, Tenant

log = structlog.get_logger(__name__)

Context = grpc.aio.ServicerContext[Any, Any]
Behavior = Callable[[Any, Context], Any]
TENANT_ID = "tenant-id"
_HOLD = 0.5
"""Seconds for which a call over the rate waits before it is refused."""
_MOST_HELD = 1000
"""Calls of one caller that wait so; more are refused at once."""
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


@dataclass(slots=True, eq=False)
class _Stream:
    evidence: Evidence
    service: str
    peer: str
    scope: asyncio.Timeout
    ended: Refused | None = None


class Guard(grpc.aio.ServerInterceptor):
    """`audiences` maps the names of services to whom they are for; any other service is for nobody.

    `claim` has the last word on a tenant's call, where more than the caches is needed for it. `waiting` says what is
    missing before callers can be told from each other.
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
        _, service, method = handler_call_details.method.split("/", 2)
        kind = f"{_arity(handler.request_streaming)}_{_arity(handler.response_streaming)}"
        streaming = handler.request_streaming or handler.response_streaming
        read = self._receiving.reader(handler.request_deserializer, many=handler.request_streaming)
        behavior = self._guarded(getattr(handler, kind), read, service=service, method=method, streaming=streaming)
        make = getattr(grpc, f"{kind}_rpc_method_handler")
        # Bytes come in: nothing that a caller sent is parsed before it is known who the caller is.
        made: grpc.RpcMethodHandler[Any, Any] = make(behavior, response_serializer=handler.response_serializer)
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

    def _guarded(self, inner: Behavior, read: Read, *, service: str, method: str, streaming: bool) -> Behavior:
        async def guarded(argument: Any, context: Context) -> Any:
            started, code = time.monotonic(), "OK"
            try:
                evidence = self._evidence(context, service)
                caller = await self._admitted(evidence, service=service, peer=context.peer())
                message = await read(argument, caller.label)
                if not streaming:
                    return await inner(message, context)
                return await self._streamed(caller, inner, message, context, evidence=evidence, service=service)
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
                log.exception("call failed", service=service, method=method)
                code = "INTERNAL"
                await context.abort(Code.INTERNAL, "internal error of the gateway")
            finally:
                seconds = time.monotonic() - started
                self._observer.called(service, method, code, seconds)
                if self._spans is not None and not streaming and self._audiences.get(service) != "anyone":
                    metadata = tuple(context.invocation_metadata() or ())
                    self._spans.served(service, method, code, seconds=seconds, metadata=metadata)

        return guarded

    def _evidence(self, context: Context, service: str) -> Evidence:
        return Evidence(
            _certificate(context),
            _said(context, TENANT_ID),
            self._audiences.get(service, "admin"),
            _said(context, CLUSTER_KEY),
        )

    async def _admitted(self, evidence: Evidence, *, service: str, peer: str) -> Caller:
        """Who calls, where that one may, and not too often."""
        if evidence.audience != "anyone" and (missing := self._waiting()):
            raise Refused(Code.UNAVAILABLE, f"the gateway is not ready: {missing[0]}")
        decision = self._decide(evidence)
        if isinstance(decision, Refusal):
            await self._spare(decision, peer=peer)
            raise self._refuse(decision, service=service, peer=peer)
        _caller.set(decision)
        await self._take(decision.label)
        if decision.tenant is not None and (refusal := await self._claim(decision.tenant, evidence.clusters)):
            raise self._refuse(refusal, service=service, peer=peer)
        return decision

    async def _streamed(
        self, caller: Caller, inner: Behavior, argument: Any, context: Context, *, evidence: Evidence, service: str
    ) -> Any:
        with self._slots.hold(caller.label) as held:
            if not held:
                self._observer.throttled(caller.label, "streams")
                raise Refused(Code.RESOURCE_EXHAUSTED, "too many open streams; close one first")
            return await self._stream(inner, argument, context, evidence=evidence, service=service)

    async def _stream(
        self, inner: Behavior, argument: Any, context: Context, *, evidence: Evidence, service: str
    ) -> Any:
        """Runs the stream in a scope that `_end` can close from outside."""
        stream: _Stream | None = None
        try:
            async with asyncio.timeout(None) as scope:
                stream = _Stream(evidence, service, context.peer(), scope)
                self._streams.add(stream)
                try:
                    # Before the first message: gRPC sends no status past a message that is stuck with the headers, and
                    # a caller that is to send learns that it may.
                    await context.send_initial_metadata(())
                    answer = inner(argument, context)
                    if not isinstance(answer, AsyncGenerator):
                        return await answer
                    async with contextlib.aclosing(answer) as messages:
                        async for message in messages:
                            await _write(context, message)
                finally:
                    self._streams.discard(stream)
        except TimeoutError:
            if stream is not None and stream.ended is not None:
                raise stream.ended from None
            raise
        return None

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


def _certificate(context: Context) -> bytes | None:
    found = context.auth_context().get("x509_pem_cert")
    return next(iter(found), None) if found else None


def _said(context: Context, wanted: str) -> tuple[str, ...]:
    """What the caller's metadata has under this key."""
    metadata = context.invocation_metadata() or ()
    return tuple(str(value) for key, value in metadata if key == wanted)
