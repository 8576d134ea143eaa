"""Intercepts every call: has it admitted, receives its request, sends its answer, ends streams that may not go on.

Every error of a call becomes one gRPC status here.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any

import grpc
import grpc.aio
import structlog

from app.errors import ApiError
from app.tenancy.callspans import ServedSpans
from app.tenancy.gateway.admitting import Admission, Evidence, Slots
from app.tenancy.gateway.backend import Backend
from app.tenancy.gateway.failures import Code, Refused, refusal_of
from app.tenancy.gateway.front import Connection
from app.tenancy.gateway.identity import Audience, Refusal
from app.tenancy.gateway.reading import Context, Parse, Receiving
from app.tenancy.model import CLUSTER_KEY

log = structlog.get_logger(__name__)

Behavior = Callable[[object, Context], Awaitable[None]]
TENANT_ID = "tenant-id"


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
    """`audiences` maps the names of services to their audiences; calls of any other service are refused.

    `connection` knows the one that gRPC calls by a name.
    """

    def __init__(
        self,
        backend: Backend,
        admission: Admission,
        *,
        audiences: Mapping[str, Audience],
        connection: Callable[[str], Connection | None],
        spans: ServedSpans | None = None,
    ) -> None:
        self._admission = admission
        self._spans = spans
        self._audiences = audiences
        self._observer = backend.observer
        self._receiving = Receiving(backend.limits, backend.readers)
        self._connection = connection
        self._seconds = backend.limits.exchange
        self._slots = Slots(backend.limits.streams_per_tenant, backend.observer.streams)
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
        for stream in tuple(self._streams):
            decision = self._admission.decide(stream.evidence)
            if isinstance(decision, Refusal):
                self._end(stream, self._admission.refuse(decision, service=stream.service, peer=stream.peer))

    def end_all(self, refused: Refused) -> None:
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
        connection = self._connection(context.peer())
        if connection is None:
            raise Refused(Code.UNAVAILABLE, "the connection is closed")
        audience = self._audiences.get(method.service, "admin")
        evidence = Evidence(connection.pem, _said(context, TENANT_ID), audience, _said(context, CLUSTER_KEY))
        async with self._admission.call(evidence, service=method.service, connection=connection) as holder:
            if method.streaming:
                await self._streamed(holder, method, context, evidence=evidence, connection=connection)
                return
            async with self._receiving.request(method.parse, context, holder) as message:
                await self._taken(_write(context, await method.inner(message, context)), connection)

    async def _taken(self, sending: Awaitable[object], connection: Connection) -> None:
        """What is sent has to be taken in time. gRPC keeps it until then, whatever becomes of the call."""
        try:
            async with asyncio.timeout(self._seconds):
                await sending
        except TimeoutError as error:
            connection.abort()
            raise _Departed from error

    async def _streamed(
        self, holder: str, method: _Method, context: Context, *, evidence: Evidence, connection: Connection
    ) -> None:
        with self._slots.hold(holder) as held:
            if not held:
                self._observer.throttled(holder, "streams")
                raise Refused(Code.RESOURCE_EXHAUSTED, "too many open streams; close one first")
            # Before the first message and before the stream can be ended: gRPC sends no status past a message that is
            # stuck with the headers, and takes none while they are under way. They also tell a caller that it may send.
            await self._taken(context.send_initial_metadata(()), connection)
            stream: _Stream | None = None
            try:
                async with asyncio.timeout(None) as scope:
                    stream = _Stream(evidence, method.service, connection.address, scope)
                    self._streams.add(stream)
                    try:
                        await self._stream(holder, method, context, connection)
                    finally:
                        self._streams.discard(stream)
            except TimeoutError:
                if stream is not None and stream.ended is not None:
                    raise stream.ended from None
                raise

    async def _stream(self, holder: str, method: _Method, context: Context, connection: Connection) -> None:
        """Runs in a scope that `_end` can close from outside."""
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
            await self._taken(_write(context, last), connection)


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
