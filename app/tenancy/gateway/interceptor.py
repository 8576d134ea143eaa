"""Intercepts every call: has it admitted, receives its request, sends its answer, ends streams that may not go on.

Every error of a call becomes one gRPC status here.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import grpc
import grpc.aio

from app.errors import ApiError
from app.kube.walls import fault, wall
from app.tenancy.gateway.admitting import Admission, Evidence, Slots
from app.tenancy.gateway.failures import Code, Refused, code_of, message_of
from app.tenancy.gateway.front import Connection
from app.tenancy.gateway.identity import Audience, Refusal
from app.tenancy.gateway.reading import Context, Receiving, passing
from app.tenancy.messages import LARGEST_MESSAGE

if TYPE_CHECKING:  # it needs OpenTelemetry, which need not be installed
    from app.tracing.spans import Spans


@dataclass(frozen=True, slots=True)
class _Method:
    """What a service has under one name; `inner` takes messages, `handler.request_deserializer` makes them."""

    service: str
    name: str
    handler: Any

    @property
    def inner(self) -> Any:
        handler = self.handler
        return handler.unary_unary or handler.unary_stream or handler.stream_unary or handler.stream_stream

    @property
    def streaming(self) -> bool:
        return bool(self.handler.request_streaming or self.handler.response_streaming)


@dataclass(slots=True, eq=False)
class _Call:
    """One call that is served; `scope` can be closed from outside where it is a stream."""

    method: _Method
    context: Context
    evidence: Evidence
    scope: asyncio.Timeout | None = None
    ended: Refused | None = None

    def end(self, refused: Refused) -> None:
        if self.ended is None and self.scope is not None:
            self.ended = refused
            self.scope.reschedule(asyncio.get_running_loop().time())


class Guard(grpc.aio.ServerInterceptor):
    """`audiences` maps the names of services to their audiences; calls of any other service are refused.

    `connection` knows the one that gRPC calls by a name.
    """

    def __init__(
        self,
        admission: Admission,
        *,
        audiences: Mapping[str, Audience],
        connection: Callable[[str], Connection | None],
        spans: Spans | None = None,
    ) -> None:
        backend = admission.backend
        limits = backend.limits
        self._admission, self._audiences, self._connection, self._spans = admission, audiences, connection, spans
        self._observer = backend.observer
        self._receiving = Receiving(limits, backend.readers)
        self._seconds = limits.exchange
        self._bounds = ((LARGEST_MESSAGE, str(limits.message_bytes)),)
        self._slots = Slots(limits.streams_per_tenant, backend.observer.streams)
        self._streams: set[_Call] = set()

    async def intercept_service(
        self,
        continuation: Callable[[grpc.HandlerCallDetails], Awaitable[grpc.RpcMethodHandler[Any, Any] | None]],
        handler_call_details: grpc.HandlerCallDetails,
    ) -> grpc.RpcMethodHandler[Any, Any] | None:
        handler: Any = await continuation(handler_call_details)
        if handler is None:  # no such method: gRPC says so
            return None
        _, service, name = handler_call_details.method.split("/", 2)
        method = _Method(service, name, handler)

        async def guarded(_requests: object, context: Context) -> None:
            await self._guarded(method, context)

        # Every method is served as streams of bytes, which look the same on the wire: of a request that it knows to be
        # one message, gRPC would take in all before it calls the handler, and hand it over parsed.
        made: grpc.RpcMethodHandler[Any, Any] = grpc.stream_stream_rpc_method_handler(
            guarded, response_serializer=passing(handler.response_serializer)
        )
        return made

    def review(self) -> None:
        """Ask again who holds each open stream, and end those whose holder may not have it any more.

        A stream that may stay is a contact: an agent that has nothing to send is connected too.
        """
        for stream in tuple(self._streams):
            with wall("streams", service=stream.evidence.service):
                self._review(stream)

    def _review(self, stream: _Call) -> None:
        decision = self._admission.decide(stream.evidence)
        if isinstance(decision, Refusal):
            stream.end(self._admission.refuse(decision, stream.evidence))
        elif decision.tenant is not None:
            self._admission.backend.contacts.accepted(decision.tenant.name)

    def end_all(self, refused: Refused) -> None:
        for stream in tuple(self._streams):
            stream.end(refused)

    async def _guarded(self, method: _Method, context: Context) -> None:
        started, code = time.monotonic(), "OK"
        try:
            await self._serve(method, context)
        except (Refused, ApiError) as error:
            refused = error if isinstance(error, Refused) else Refused(code_of(error), message_of(error))
            code = refused.code.name
            await context.abort(refused.code, str(refused), refused.trailing)
        except (asyncio.CancelledError, _Departed) as departed:
            code = "CANCELLED"
            raise asyncio.CancelledError from departed
        except grpc.aio.AbortError:
            code = "ABORTED"
            raise
        except Exception:  # noqa: BLE001  the wall of a route: one call's bug must not stop the others
            fault("calls", "call failed", service=method.service, method=method.name)
            code = "INTERNAL"
            await context.abort(Code.INTERNAL, "internal error of the gateway")
        finally:
            seconds = time.monotonic() - started
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
        evidence = Evidence(connection, method.service, audience, tuple(context.invocation_metadata() or ()))
        async with self._admission.call(evidence) as holder:
            if method.streaming:
                await self._streamed(_Call(method, context, evidence), holder)
                return
            parse = method.handler.request_deserializer
            async with self._receiving.request(parse, context, holder) as message:
                # It may have waited for its turn, or for its request to come in.
                if isinstance(decision := self._admission.decide(evidence), Refusal):
                    raise self._admission.refuse(decision, evidence)
                await self._taken(_write(context, await method.inner(message, context)), connection)

    async def _taken(self, sending: Awaitable[object], connection: Connection) -> None:
        """What is sent has to be taken in time. gRPC keeps it until then, whatever becomes of the call."""
        try:
            async with asyncio.timeout(self._seconds):
                await sending
        except TimeoutError as error:
            connection.abort()
            raise _Departed from error

    async def _streamed(self, call: _Call, holder: str) -> None:
        with self._slots.hold(holder) as held:
            if not held:
                self._observer.throttled(holder, "streams")
                raise Refused(Code.RESOURCE_EXHAUSTED, "too many open streams; close one first")
            # Before the first message and before the stream can be ended: gRPC sends no status past a message that is
            # stuck with the headers, and takes none while they are under way. A caller may send once it has them.
            await self._taken(call.context.send_initial_metadata(self._bounds), call.evidence.connection)
            try:
                async with asyncio.timeout(None) as call.scope:
                    self._streams.add(call)
                    try:
                        await self._stream(call, holder)
                    finally:
                        self._streams.discard(call)
            except TimeoutError:
                if call.ended is not None:
                    raise call.ended from None
                raise

    async def _stream(self, call: _Call, holder: str) -> None:
        method, context, receiving = call.method, call.context, self._receiving
        parse = method.handler.request_deserializer
        if method.handler.request_streaming:
            answer = method.inner(receiving.each(parse, context, holder), context)
        else:
            answer = method.inner(await receiving.first(parse, context, holder), context)
        if isinstance(answer, AsyncGenerator):
            async with contextlib.aclosing(answer) as messages:
                async for message in messages:
                    await _write(context, message)
        elif (last := await answer) is not None:
            await self._taken(_write(context, last), call.evidence.connection)


class _Departed(Exception):
    """The peer is gone, and what was being written to it with it."""


async def _write(context: Context, message: Any) -> None:
    try:
        await context.write(message)
    except grpc.aio.InternalError as error:
        raise _Departed from error
