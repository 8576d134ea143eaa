"""The gateway as a whole: the server, its services, the caches behind them, and in which order they start and end."""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import gc
import socket
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime
from typing import TYPE_CHECKING, Any, get_args

import grpc.aio
import structlog
from google.protobuf import descriptor_pool
from grpc_health.v1 import health, health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection

from app.errors import UsageError
from app.kube.client import KubeClient
from app.kube.kit import declare
from app.kube.running import stand
from app.kube.store import EventType, Key
from app.serving.listener import bind, listen
from app.serving.metrics import follow
from app.settings.reconciling import Drained, RoleContext, Runnable
from app.settings.source import settings_as
from app.tenancy.gateway.admitting import Admission
from app.tenancy.gateway.backend import Backend
from app.tenancy.gateway.caches import Sources
from app.tenancy.gateway.failures import Code, Refused
from app.tenancy.gateway.front import Front, ServingCredentials
from app.tenancy.gateway.identity import Audience, Reason
from app.tenancy.gateway.interceptor import Guard
from app.tenancy.gateway.metrics import create_series
from app.tenancy.gateway.resource_service import UniverseResourceService
from app.tenancy.gateway.rules import AdminWorkloadRuleService, WorkloadRuleService
from app.tenancy.gateway.settings import GatewaySettings, Limits
from app.tenancy.gateway.workload_service import WorkloadService
from app.tenancy.model import Tenant
from app.tenancy.proto import (
    admin_grpc,
    admin_pb,
    resource_grpc,
    resource_pb,
    rule_grpc,
    rule_pb,
    workload_grpc,
    workload_pb,
)

if TYPE_CHECKING:  # it needs OpenTelemetry, which need not be installed
    from app.tracing.spans import Spans


_M_ARENA_MAX = -8
"""From malloc.h of glibc."""

log = structlog.get_logger(__name__)

_DRAINED = 1.0
"""Seconds for gRPC to close its connections after the last call."""
AUDIENCES: dict[str, Audience] = {
    workload_pb.DESCRIPTOR.services_by_name["WorkloadService"].full_name: "tenant",
    rule_pb.DESCRIPTOR.services_by_name["WorkloadRuleService"].full_name: "tenant",
    resource_pb.DESCRIPTOR.services_by_name["UniverseResourceService"].full_name: "tenant",
    admin_pb.DESCRIPTOR.services_by_name["AdminWorkloadRuleService"].full_name: "admin",
    health.SERVICE_NAME: "anyone",
    reflection.SERVICE_NAME: "anyone",
}
"""The services of a gateway, and the callers of each."""
_IDENTITY_ONLY = 1
"""Bit set of compressions: none. A compressed message is measured before it is inflated, which is no bound."""


def methods() -> dict[str, tuple[str, ...]]:
    """The names of the methods, by the name of their service."""
    pool = descriptor_pool.Default()
    return {name: tuple(method.name for method in pool.FindServiceByName(name).methods) for name in AUDIENCES}


class Gateway:
    """`port` is known once `started` is set. `settled` is called once, when the gateway is first ready.

    Raises `UsageError` for TLS files or an address that cannot be used.
    """

    def __init__(
        self,
        backend: Backend,
        *,
        settings: GatewaySettings,
        spans: Spans | None = None,
        settled: Callable[[], object] = lambda: None,
    ) -> None:
        self._settings, self._limits = settings, backend.limits
        self._settled: Callable[[], object] | None = settled
        self._credentials = ServingCredentials(settings)
        self._backend, self._sources = backend, backend.sources
        self._front = Front(self._credentials.context, limits=self._limits, lines=backend.lines)
        self._admission = Admission(backend, admin_ca=lambda: self._credentials.admin_ca)
        self._guard = Guard(self._admission, audiences=AUDIENCES, connection=self._front.connection, spans=spans)
        self._sources.tenants.subscribe(self._tenant_changed)
        self._health = health.aio.HealthServicer()
        self._serving = False
        self.started = asyncio.Event()
        self.port = 0

    def waiting(self) -> list[str]:
        """What readiness waits for, one line each."""
        reasons = [] if self._serving else ["the gateway does not listen yet"]
        if problem := self._credentials.problem():
            reasons.append(problem)
        return reasons + self._sources.waiting()

    def _tenant_changed(self, event: EventType, _: Key, old: Tenant | None, new: Tenant | None) -> None:
        # Contacts of each tenant are noted every minute: a review of all streams for each would be quadratic.
        if _decisive(old) != _decisive(new):
            self._guard.review()
        if event == "ADDED" and new is not None:
            self._backend.observer.tenant_came(new.name)
        elif event == "DELETED" and old is not None:
            self._backend.observer.tenant_gone(old.name)

    @property
    def not_after(self) -> datetime:
        """When the certificate ends that the next handshake meets."""
        return self._credentials.not_after

    async def run(self, stop: asyncio.Event) -> None:
        """Serves until `stop` is set: then streams are ended, calls under way get `drain_seconds`."""
        with contextlib.closing(self._bound()) as listener:
            server = self._server()
            await self._tell_health(serving=False)
            await server.start()
            self._front.start(listener)
            self._serving = True
            self.started.set()
            log.info("gateway listens", host=self._settings.bind_address, port=self.port)
            try:
                async with asyncio.TaskGroup() as group:
                    loops = {"gateway-caches": self._sources.run, "gateway-clock": self._keep, "contacts": self._note}
                    tasks = [stand(group, name, run) for name, run in loops.items()]
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
        """Calls under way get `drain_seconds`; connections that take nothing would have gRPC wait for longer."""
        drain = self._settings.drain_seconds
        stopping = asyncio.ensure_future(server.stop(drain))
        await asyncio.wait({stopping}, timeout=drain + _DRAINED)
        await self._front.wait_closed()
        await stopping

    def _bound(self) -> socket.socket:
        host, port = self._settings.bind_address, self._settings.port
        try:
            listener = bind(host, port)
        except OSError as error:
            reason = error.strerror or str(error)
            raise UsageError(f"gateway: cannot listen on {host}:{port}: {reason}") from error
        self.port = listener.getsockname()[1]
        return listener

    async def _keep(self) -> None:
        """What depends on the clock: certificates and pins that end, files that change, health."""
        while True:
            self._credentials.look()
            self._guard.review()
            for counted in (self._backend, self._admission, self._front):
                counted.forget_idle()
            ready = not self.waiting()
            if ready and self._settled is not None:
                self._settled()
                self._settled = None
            await self._tell_health(serving=ready)
            await asyncio.sleep(self._limits.tick)

    async def _note(self) -> None:
        """What is noted on Tenants; apart from `_keep`, because an API server may be slow."""
        while True:
            await self._backend.contacts.write()
            await asyncio.sleep(self._limits.tick)

    async def _tell_health(self, *, serving: bool) -> None:
        status = health_pb2.HealthCheckResponse.SERVING if serving else health_pb2.HealthCheckResponse.NOT_SERVING
        for service in (health.OVERALL_HEALTH, *AUDIENCES):
            await self._health.set(service, status)

    def _server(self) -> grpc.aio.Server:
        server = grpc.aio.server(interceptors=[self._guard], options=channel_options(self._limits))
        backend = self._backend
        workload_grpc.add_WorkloadServiceServicer_to_server(WorkloadService(backend), server)
        rule_grpc.add_WorkloadRuleServiceServicer_to_server(WorkloadRuleService(backend), server)
        admin_grpc.add_AdminWorkloadRuleServiceServicer_to_server(AdminWorkloadRuleService(backend), server)
        resource_grpc.add_UniverseResourceServiceServicer_to_server(UniverseResourceService(backend), server)
        health_pb2_grpc.add_HealthServicer_to_server(self._health, server)
        reflection.enable_server_reflection(tuple(AUDIENCES), server)
        server.add_insecure_port(self._front.target)  # of this process alone: TLS ends at the front
        return server


def _decisive(tenant: Tenant | None) -> Tenant | None:
    """The tenant without what decides nothing about its callers."""
    return None if tenant is None else replace(tenant, link=replace(tenant.link, contact=None, refused=None))


def channel_options(limits: Limits) -> list[tuple[str, Any]]:
    """The options of the gRPC server."""
    keepalive, patience = int(limits.keepalive * 1000), int(limits.keepalive * 400)
    return [
        ("grpc.max_receive_message_length", limits.message_bytes),
        ("grpc.max_send_message_length", -1),
        # What comes in before it is asked for. Else it would grow with the speed of the line, up to megabytes.
        ("grpc.http2.lookahead_bytes", limits.unread_bytes),
        ("grpc.http2.bdp_probe", 0),
        ("grpc.server_handshake_timeout_ms", int(limits.handshake * 1000)),
        ("grpc.max_connection_idle_ms", int(limits.idle * 1000)),
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


def build(context: RoleContext) -> Runnable:
    settings = settings_as(context.settings, GatewaySettings)
    if context.alone:
        _share_one_heap()
        # The gateway binds its port later, and an error would not name the flag.
        listen("--port", settings.bind_address, settings.port).close()
    spans = context.spans()
    create_series(methods(), get_args(Reason))
    declare(Sources)

    settled = _keep_loaded if context.alone else lambda: None

    def serving(client: KubeClient) -> Runnable:
        gateway = Gateway(Backend(Sources(client), settings=settings), settings=settings, spans=spans, settled=settled)
        if context.alone:
            follow(lambda: gateway.not_after)
        return Drained(gateway)

    return context.connected(serving)


def _keep_loaded() -> None:
    """Modules and first caches stay. A full collection walks through all that is not frozen, and stops every call."""
    gc.collect()
    gc.freeze()


def _share_one_heap() -> None:
    """One heap for all threads, where the C library is glibc; to be called before there are any.

    By default each thread gets its own, and what a flood of connections left in one is not used for the next flood:
    the process would grow by a hundred MiB with each. The gateway's threads hardly meet in the allocator.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(_M_ARENA_MAX, 1)
