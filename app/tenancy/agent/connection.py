"""The one channel to the gateway: replaced when the certificate on disk changes, shared by streams and calls.

Owns the pauses between tries of a stream, and what readiness says of the gateway. Sessions and stubs are handed in.

The gateway is called with the identity of this cluster: the UID of its namespace kube-system, which is made once and
shared by no two clusters. It is read once for each run. The gateway is not called before, for what comes from an
unknown cluster could be another tenant's.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import grpc
import grpc.aio
import structlog

from app.errors import ApiError
from app.kube.client import KubeClient
from app.kube.resources import NAMESPACES
from app.kube.retry import Backoff
from app.kube.walls import fault
from app.serving.tls import Pair, read_certificates
from app.tenancy.agent import metrics, outages
from app.tenancy.agent.outages import UNKNOWN, Cause, Outage, Outages
from app.tenancy.agent.settings import AgentOptions, AgentSettings
from app.tenancy.model import CLUSTER_KEY
from app.text import rpc_fault

if TYPE_CHECKING:  # it needs OpenTelemetry, which need not be installed
    from app.tracing.spans import Spans


log = structlog.get_logger(__name__)
NAMESPACE = "kube-system"
Stream = Literal["workloads", "rules", "resources"]
StubClass = Callable[[grpc.aio.Channel], Any]
_SETTLED = 30.0
"""Seconds after which a stream counts as sound, so that the next one is tried soon after it."""
_CALL_SECONDS = 15.0
_GRACE = 5.0
"""Seconds that calls on a replaced channel get to end."""
_RECEIVE_LIMIT = 64 * 1024 * 1024
"""Bytes of one answer; a list of all Secrets of a tenant comes in one."""


@dataclass(frozen=True, slots=True)
class Link:
    """What a session gets: a channel, the metadata to send, and `up()` to say that its stream is current."""

    channel: grpc.aio.Channel
    metadata: tuple[tuple[str, str], ...]
    up: Callable[[], None]


Session = Callable[[Link], Awaitable[None]]


def read_files(settings: AgentSettings) -> tuple[bytes, bytes, bytes]:
    """The trusted CA, the key and the certificate of one moment, in PEM.

    Raises OSError or ValueError, with the file in the text, where they do not fit, as during a rotation.
    """
    source = Path(settings.gateway_ca)
    ca = source.read_bytes()
    read_certificates(ca, source=source)
    pair = Pair.read(Path(settings.tls_cert_file), Path(settings.tls_private_key_file))
    return ca, pair.key, pair.certificate


class Connection:
    """`run()` keeps the channel, `keep()` a stream over it; both run until cancelled.

    Streams and calls say which `cluster` they come from; until that is known there are none.
    """

    def __init__(self, options: AgentOptions, *, cluster: ClusterIdentity, calls: Spans | None = None) -> None:
        self._options = options
        self._cluster = cluster
        self._calls = calls
        self._channel: grpc.aio.Channel | None = None
        self._opened = asyncio.Event()
        self._renewed = asyncio.Event()
        self._problems: dict[str, str] = {}
        self._codes: dict[str, str] = {}
        self._closing: set[asyncio.Task[None]] = set()
        self._outages = Outages(patience=options.patience)
        self._listeners: defaultdict[Stream, list[Callable[[], None]]] = defaultdict(list)

    def subscribe(self, stream: Stream, listener: Callable[[], None]) -> None:
        """Calls `listener` when this stream is lost, and when there is another cause of that."""
        self._listeners[stream].append(listener)

    def waiting(self) -> list[str]:
        """Why the gateway cannot be relied on, one line each; empty while every stream is up."""
        reasons = [f"cluster: {self._cluster.problem}"] if self._cluster.problem else []
        return reasons + [f"gateway {name}: {problem}" for name, problem in self._problems.items()]

    def outage(self, stream: Stream) -> Outage:
        """Since when and why this stream is not up; to be asked only while it is not."""
        self._outages.note(stream, self._cause(stream))
        return self._outages[stream]

    async def run(self) -> None:
        held: tuple[bytes, bytes, bytes] | None = None
        self._problems["certificate"] = "not read yet"
        try:
            while True:
                try:
                    files = await asyncio.to_thread(read_files, self._options.settings)
                except (OSError, ValueError) as error:
                    changed = self._problems.get("certificate") != str(error)
                    self._problems["certificate"] = str(error)
                    if changed:
                        log.warning("certificate for the gateway cannot be used", problem=str(error))
                        for stream in tuple(self._listeners):
                            self._note(stream)
                else:
                    self._problems.pop("certificate", None)
                    if files != held:
                        self._open(files)
                        held = files
                await asyncio.sleep(self._options.certificate_poll)
        finally:
            channel, self._channel = self._channel, None
            self._opened.clear()
            if channel is not None:
                await channel.close()
            await asyncio.gather(*self._closing, return_exceptions=True)

    async def keep(self, stream: Stream, session: Session) -> None:
        """Run `session` again and again, with a growing pause after each that ended."""
        backoff = Backoff(base=self._options.backoff_base, cap=self._options.backoff_cap)
        loop = asyncio.get_running_loop()
        self._problems[stream] = "not connected yet"
        self._outages.note(stream, self._cause(stream))
        while True:
            await self._cluster.known.wait()
            await self._opened.wait()
            started = loop.time()
            reason, detail = await self._once(stream, session)
            self._problems[stream], self._codes[stream] = detail, reason
            if reason != "renewed":
                self._note(stream)
            metrics.STREAM_UP.labels(stream).set(0)
            metrics.STREAMS_ENDED.labels(stream, reason).inc()
            if reason == "renewed":
                continue
            if loop.time() - started >= _SETTLED:
                backoff.reset()
            delay = backoff.next()
            log.info("stream to the gateway ended", stream=stream, reason=detail, delay_s=round(delay, 3))
            await asyncio.sleep(delay)

    async def call(self, stub: StubClass, method: str, request: Any) -> Any:
        """One unary call; raises GatewayUnavailable or GatewayRefused."""
        if self._channel is None or not self._cluster.uid:
            raise outages.GatewayUnavailable("gateway: no channel: " + "; ".join(self.waiting()))
        # A stub is named after its service.
        span = self._calls.calling(stub.__name__.removesuffix("Stub"), method) if self._calls is not None else None
        metadata = self._metadata() + (span.metadata if span is not None else ())
        code = "CANCELLED"
        try:
            send = getattr(stub(self._channel), method)
            answer = await send(request, timeout=_CALL_SECONDS, metadata=metadata)
            code = "OK"
        except grpc.aio.AioRpcError as error:
            code = error.code().name
            metrics.CALLS.labels(method, outages.word(error.code())).inc()
            raise outages.fault(error) from None
        except asyncio.CancelledError:
            # A channel that is closed cancels its calls, which must not look like the end of this task.
            if (task := asyncio.current_task()) is not None and task.cancelling():
                raise
            metrics.CALLS.labels(method, "cancelled").inc()
            raise outages.GatewayUnavailable("gateway: the channel was closed") from None
        finally:
            if span is not None:
                span.end(code)
        metrics.CALLS.labels(method, "ok").inc()
        return answer

    async def _once(self, stream: Stream, session: Session) -> tuple[str, str]:
        assert self._channel is not None  # noqa: S101  `_opened` is set with it and it is never taken away
        link = Link(self._channel, self._metadata(), lambda: self._up(stream))
        running = asyncio.ensure_future(session(link))
        renewed = asyncio.ensure_future(self._renewed.wait())
        try:
            await asyncio.wait({running, renewed}, return_when=asyncio.FIRST_COMPLETED)
            if not running.done():
                return "renewed", "the certificate was renewed"
            running.result()
        except grpc.aio.AioRpcError as error:
            code = outages.word(error.code())
            details = rpc_fault(error.details() or "")
            return code, f"{code}: {details}" if details else code
        except asyncio.CancelledError:
            if (task := asyncio.current_task()) is not None and task.cancelling():
                raise
            return "renewed", "the channel was closed"
        except Exception:  # noqa: BLE001  the wall of a background task: a bug in one stream must not end the others
            fault(f"stream-{stream}", "stream to the gateway failed", stream=stream)
            return "internal", "internal error"
        else:
            return "eof", "the gateway ended the stream"
        finally:
            for task_ in (running, renewed):
                task_.cancel()
            await asyncio.gather(running, renewed, return_exceptions=True)

    def _metadata(self) -> tuple[tuple[str, str], ...]:
        cluster = (CLUSTER_KEY, self._cluster.uid)
        tenant = self._options.settings.tenant
        return (cluster, ("tenant-id", tenant)) if tenant else (cluster,)

    def _note(self, stream: Stream) -> None:
        """Call the listeners where the stream is lost, or is down for another cause than before."""
        if stream not in self._problems:
            return
        cause = self._cause(stream)
        if self._outages.note(stream, cause):
            if cause.refused:
                log.warning("the gateway refuses this agent", stream=stream, reason=cause.text)
            for listener in self._listeners[stream]:
                listener()

    def _cause(self, stream: Stream) -> Cause:
        if self._cluster.problem:
            return Cause("", self._cluster.problem)
        if certificate := self._problems.get("certificate"):
            return Cause("", f"the certificate for the gateway cannot be used: {certificate}")
        code, problem = self._codes.get(stream, ""), self._problems.get(stream, "")
        return Cause(code, problem.removeprefix(f"{code}: ")) if code and problem else UNKNOWN

    def _up(self, stream: Stream) -> None:
        self._outages.over(stream)
        if self._problems.pop(stream, None) is not None:
            log.info("stream to the gateway is up", stream=stream)
            metrics.STREAM_UP.labels(stream).set(1)

    def _open(self, files: tuple[bytes, bytes, bytes]) -> None:
        old, options = self._channel, self._options
        self._channel = grpc.aio.secure_channel(
            options.settings.gateway,
            grpc.ssl_channel_credentials(*files),
            options=[
                ("grpc.ssl_target_name_override", options.settings.gateway_name),
                ("grpc.keepalive_time_ms", int(options.keepalive * 1000)),
                ("grpc.keepalive_timeout_ms", int(options.keepalive * 500)),
                # A ping that measures bandwidth may be under way; it stands for the one of keepalive, with this limit.
                ("grpc.http2.ping_timeout_ms", int(options.keepalive * 500)),
                ("grpc.keepalive_permit_without_calls", 1),
                ("grpc.http2.max_pings_without_data", 0),
                ("grpc.initial_reconnect_backoff_ms", int(options.backoff_base * 1000)),
                ("grpc.min_reconnect_backoff_ms", int(options.connect * 1000)),
                ("grpc.max_reconnect_backoff_ms", int(options.backoff_cap * 500)),
                ("grpc.max_receive_message_length", _RECEIVE_LIMIT),
                # Channels of one process to one address would share a connection, and with it the old certificate.
                ("grpc.use_local_subchannel_pool", 1),
                ("grpc.enable_http_proxy", 0),
            ],
        )
        self._opened.set()
        self._renewed.set()
        self._renewed = asyncio.Event()
        if old is not None:
            log.info("certificate for the gateway renewed")
            closing = asyncio.create_task(old.close(_GRACE))
            self._closing.add(closing)
            closing.add_done_callback(self._closing.discard)


class ClusterIdentity:
    """`uid` is "" and `problem` says why until it is `known`. Pauses between tries grow to `cap` seconds."""

    def __init__(self, client: KubeClient, *, base: float, cap: float) -> None:
        self._client = client
        self._backoff = Backoff(base=base, cap=cap)
        self.known = asyncio.Event()
        self.uid = ""
        self.problem = f"namespace {NAMESPACE} was not read yet"

    async def run(self) -> None:
        while True:
            try:
                namespace = await self._client.get(NAMESPACES, NAMESPACE)
                uid, reason = namespace["metadata"].get("uid"), "it has no UID"
            except ApiError as error:
                uid, reason = None, str(error)
            if isinstance(uid, str) and uid:
                self.uid, self.problem = uid, ""
                self.known.set()
                return
            problem = f"namespace {NAMESPACE} tells this cluster from others and must be readable (verb get): {reason}"
            if problem != self.problem:
                log.warning("this cluster cannot be identified", problem=problem)
            self.problem = problem
            await asyncio.sleep(self._backoff.next())
