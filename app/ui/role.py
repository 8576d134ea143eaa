"""Builds the role that serves the page in a cluster: to callers, each with the rights of its own."""

from __future__ import annotations

import asyncio
import socket

from app.errors import UsageError
from app.kube.client import KubeClient
from app.serving.listener import address, listen
from app.serving.tls import ServingCertificate
from app.settings.reconciling import Drained, RoleContext, Runnable
from app.settings.source import settings_as
from app.ui.serving import Named, certificate_of, serve, spare_garbage
from app.ui.settings import UiSettings
from app.ui.visitors import InCluster


def build(context: RoleContext) -> Runnable:
    """Raises UsageError for files that cannot be served, and for a port that is taken."""
    settings = settings_as(context.settings, UiSettings)
    if not (settings.tls_cert_file and settings.tls_private_key_file):
        raise UsageError("--access: want callers: the role serves no one else")
    certificate = certificate_of(settings.tls_cert_file, settings.tls_private_key_file, settings.front_proxy_ca)
    listener = listen("--port", settings.bind_address, settings.port)
    context.listening["page"] = address(listener, "https")
    if context.alone:
        spare_garbage()
    return context.connected(lambda client: Drained(_Serving(client, settings, listener, certificate)))


class _Serving:
    """The page of the cluster that it runs in."""

    def __init__(
        self, client: KubeClient, settings: UiSettings, listener: socket.socket, certificate: ServingCertificate
    ) -> None:
        self._cluster = Named("cluster", client, namespace=settings.namespace, release=settings.release)
        self._access = InCluster(client, proxies=settings.front_proxy_names)
        self._listener, self._certificate = listener, certificate
        self._answers = False

    def waiting(self) -> list[str]:
        problem = self._certificate.problem()
        return ["page: not started"] * (not self._answers) + [f"TLS: {problem}"] * bool(problem)

    async def run(self, stop: asyncio.Event) -> None:
        await serve(
            [self._cluster],
            self._access,
            listener=self._listener,
            certificate=self._certificate,
            ready=self._ready,
            stop=stop,
        )

    def _ready(self) -> None:
        self._answers = True
