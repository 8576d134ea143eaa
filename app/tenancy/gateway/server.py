"""The gateway as a whole: the server, its services, the caches behind them, and in which order they start and end."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from datetime import datetime

import grpc.aio
import structlog
from grpc_health.v1 import health, health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection

from app.errors import UsageError
from app.kube.client import KubeClient
from app.kube.store import EventType, Key
from app.serving.listening import bind
from app.tenancy.callspans import ServedSpans
from app.tenancy.gateway.admitting import Admission
from app.tenancy.gateway.backend import Backend
from app.tenancy.gateway.credentials import ServingCredentials
from app.tenancy.gateway.failures import Code, Refused
from app.tenancy.gateway.front import Front
from app.tenancy.gateway.interceptor import Guard
from app.tenancy.gateway.metrics import GatewayMetrics
from app.tenancy.gateway.options import GatewayOptions, channel_options
from app.tenancy.gateway.services import AUDIENCES, add_services
from app.tenancy.model import Tenant

log = structlog.get_logger(__name__)

_DRAINED = 1.0
"""Seconds for gRPC to say goodbye after the last call."""


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
        self._options = options
        self._credentials = ServingCredentials(options.tls)
        self._observer = observer = observer or GatewayMetrics()
        self._backend = backend = Backend(client, options=options, observer=observer)
        self._sources, self._storing = backend.sources, backend.storing
        self._front = Front(
            self._credentials.context,
            limits=options.limits,
            handshake=options.handshake,
            lines=backend.lines,
        )
        self._admission = Admission(backend, admin_ca=lambda: self._credentials.admin_ca)
        self._guard = Guard(
            backend, self._admission, audiences=AUDIENCES, connection=self._front.connection, spans=spans
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
            self._backend.observer.tenant_came(new.name)
        elif event == "DELETED" and old is not None:
            self._backend.observer.tenant_gone(old.name)

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
            for counted in (self._backend, self._admission, self._front):
                counted.forget_idle()
            await self._tell_health(serving=not self.waiting())
            await asyncio.sleep(self._options.tick)

    async def _tell_health(self, *, serving: bool) -> None:
        status = health_pb2.HealthCheckResponse.SERVING if serving else health_pb2.HealthCheckResponse.NOT_SERVING
        for service in (health.OVERALL_HEALTH, *AUDIENCES):
            await self._health.set(service, status)

    def _server(self) -> grpc.aio.Server:
        server = grpc.aio.server(interceptors=[self._guard], options=channel_options(self._options))
        add_services(server, self._backend)
        health_pb2_grpc.add_HealthServicer_to_server(self._health, server)
        reflection.enable_server_reflection(tuple(AUDIENCES), server)
        server.add_insecure_port(self._front.target)  # of this process alone: TLS ends at the front
        return server
