"""The gateway as a whole: the server, its services, the caches behind them, and in which order they start and end."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from datetime import UTC, datetime
from typing import Any

import grpc.aio
import structlog
from grpc_health.v1 import health, health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection

from app.errors import UsageError
from app.kube.client import KubeClient
from app.kube.store import EventType, Key
from app.serving.listening import bind
from app.tenancy.callspans import ServedSpans
from app.tenancy.gateway.admitting import Admission, Evidence
from app.tenancy.gateway.cluster import Clusters, cluster_refusal
from app.tenancy.gateway.credentials import ServingCredentials
from app.tenancy.gateway.failures import Code, Refused
from app.tenancy.gateway.front import Front
from app.tenancy.gateway.identity import Caller, Refusal, identify
from app.tenancy.gateway.interceptor import Guard
from app.tenancy.gateway.log_dedup import SparingLog
from app.tenancy.gateway.metrics import GatewayMetrics
from app.tenancy.gateway.options import GatewayOptions
from app.tenancy.gateway.reading import Readers
from app.tenancy.gateway.receiving import Receiving
from app.tenancy.gateway.services import AUDIENCES, add_services
from app.tenancy.gateway.sources import Sources
from app.tenancy.gateway.storing import Storing
from app.tenancy.model import Tenant

log = structlog.get_logger(__name__)

_DRAINED = 1.0
"""Seconds for gRPC to say goodbye after the last call."""
_IDENTITY_ONLY = 1
"""Bit set of compressions: none. A compressed message is measured before it is inflated, which is no bound."""


class Gateway:
    """`port` is known once `started` is set. Raises `UsageError` for TLS files or an address that cannot be used."""

    def __init__(
        self,
        client: KubeClient,
        *,
        options: GatewayOptions,
        observer: GatewayMetrics | None = None,
        spans: ServedSpans | None = None,
    ) -> None:
        self._client = client
        self._options = options
        self._observer = observer = observer or GatewayMetrics()
        self._credentials = ServingCredentials(options.tls)
        self._sources = Sources(client)
        self._lines = SparingLog()
        self._readers = Readers(options.limits)
        self._storing = Storing(options.limits, self._sources.pods)
        self._front = Front(
            self._credentials.context,
            limits=options.limits,
            handshake=options.handshake,
            lines=self._lines,
        )
        self._admission = Admission(
            self._decide,
            claim=Clusters(client).claim,
            waiting=self._sources.unsynced,
            limits=options.limits,
            observer=observer,
            lines=self._lines,
        )
        self._guard = Guard(
            self._admission,
            audiences=AUDIENCES,
            limits=options.limits,
            receiving=Receiving(options.limits, self._readers),
            connection=self._front.connection,
            observer=observer,
            spans=spans,
        )
        self._sources.tenants.subscribe(self._tenant_changed)
        self._health = health.aio.HealthServicer()
        self._serving = False
        self.started = asyncio.Event()
        self.port = 0

    def waiting(self) -> list[str]:
        """What readiness waits for, one line each."""
        found = [] if self._serving else ["the gateway does not listen yet"]
        if problem := self._credentials.problem():
            found.append(problem)
        return found + self._sources.waiting()

    def _tenant_changed(self, event: EventType, _: Key, old: Tenant | None, new: Tenant | None) -> None:
        self._guard.review()
        if event == "ADDED" and new is not None:
            self._observer.tenant_came(new.name)
        elif event == "DELETED" and old is not None:
            self._observer.tenant_gone(old.name)

    @property
    def not_after(self) -> datetime:
        """When the certificate ends that the next handshake meets."""
        return self._credentials.not_after

    async def run(self, stop: asyncio.Event) -> None:
        """Serves until `stop` is set: then streams are ended, calls under way get `drain` seconds."""
        with contextlib.closing(self._bound()) as listener:
            server = self._server()
            await self._tell_health(serving=False)
            await server.start()
            self._front.start(listener)
            self._serving = True
            self.started.set()
            log.info("gateway listens", host=self._options.host, port=self.port)
            try:
                async with asyncio.TaskGroup() as group:
                    tasks = [group.create_task(self._sources.run()), group.create_task(self._keep())]
                    await stop.wait()
                    self._front.close()
                    await self._health.enter_graceful_shutdown()
                    self._guard.end_all(Refused(Code.UNAVAILABLE, "the gateway is stopping"))
                    self._serving = False
                    await self._drained(server)
                    for task in tasks:
                        task.cancel()
            finally:
                self._serving = False
                self._front.close()
                await self._front.wait_closed()
                await server.stop(None)

    async def _drained(self, server: grpc.aio.Server) -> None:
        """Calls under way get `drain` seconds; connections that take nothing would have gRPC wait for longer."""
        stopping = asyncio.ensure_future(server.stop(self._options.drain))
        await asyncio.wait({stopping}, timeout=self._options.drain + _DRAINED)
        await self._front.wait_closed()
        await stopping

    def _bound(self) -> socket.socket:
        options = self._options
        try:
            listener = bind(options.host, options.port)
        except OSError as error:
            reason = f"cannot listen on {options.host}:{options.port}: {error.strerror or error}"
            raise UsageError(f"gateway: {reason}") from error
        self.port = listener.getsockname()[1]
        return listener

    async def _keep(self) -> None:
        """What time brings: certificates and pins that end, files that change, health."""
        while True:
            self._credentials.look()
            self._guard.review()
            self._lines.review()
            for counted in (self._admission, self._readers, self._storing, self._front):
                counted.forget_idle()
            await self._tell_health(serving=not self.waiting())
            await asyncio.sleep(self._options.tick)

    async def _tell_health(self, *, serving: bool) -> None:
        status = health_pb2.HealthCheckResponse.SERVING if serving else health_pb2.HealthCheckResponse.NOT_SERVING
        for service in (health.OVERALL_HEALTH, *AUDIENCES):
            await self._health.set(service, status)

    def _decide(self, evidence: Evidence) -> Caller | Refusal:
        found = identify(
            evidence.pem,
            audience=evidence.audience,
            tenant_ids=evidence.tenant_ids,
            tenants_named=self._sources.tenants_named,
            admin_names=[name.lower() for name in self._options.admin_names],
            now=datetime.now(UTC),
            admin_ca=self._credentials.admin_ca,
        )
        if isinstance(found, Refusal) or found.tenant is None:
            return found
        return cluster_refusal(found.tenant, evidence.clusters, certificate=found.certificate.name) or found

    def _server(self) -> grpc.aio.Server:
        server = grpc.aio.server(interceptors=[self._guard], options=_channel_options(self._options))
        add_services(
            server,
            self._client,
            self._sources,
            storing=self._storing,
            readers=self._readers,
            options=self._options,
            observer=self._observer,
            lines=self._lines,
        )
        health_pb2_grpc.add_HealthServicer_to_server(self._health, server)
        reflection.enable_server_reflection(tuple(AUDIENCES), server)
        server.add_insecure_port(self._front.target)  # of this process alone: TLS ends at the front
        return server


def _channel_options(options: GatewayOptions) -> list[tuple[str, Any]]:
    limits = options.limits
    keepalive, patience = int(options.keepalive * 1000), int(options.keepalive * 400)
    return [
        ("grpc.max_receive_message_length", limits.message_bytes),
        ("grpc.max_send_message_length", -1),
        # What comes in before anybody asks for it. Else it would grow with the speed of the line, up to megabytes.
        ("grpc.http2.lookahead_bytes", limits.unread_bytes),
        ("grpc.http2.bdp_probe", 0),
        ("grpc.server_handshake_timeout_ms", int(options.handshake * 1000)),
        ("grpc.max_connection_idle_ms", int(options.idle * 1000)),
        ("grpc.max_concurrent_streams", limits.streams_per_connection),
        ("grpc.compression_enabled_algorithms_bitset", _IDENTITY_ONLY),
        # Streams stay up for days: pings find a dead peer, and keep what lies between from forgetting us.
        ("grpc.keepalive_time_ms", keepalive),
        ("grpc.keepalive_timeout_ms", patience),
        ("grpc.http2.ping_timeout_ms", patience),
        ("grpc.keepalive_permit_without_calls", 1),
        ("grpc.http2.max_pings_without_data", 0),
        ("grpc.http2.min_ping_interval_without_data_ms", 10_000),
    ]
