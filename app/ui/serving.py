"""Serves the page until it is told to stop: on a laptop over HTTP on loopback, in a cluster over TLS."""

from __future__ import annotations

import asyncio
import gc
import ipaddress
import signal
import socket
import ssl
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass

from app.doctor.aiming import AIMLESS, Aim
from app.errors import UsageError
from app.kube.client import KubeClient
from app.kube.walls import standing
from app.serving.asgi import Server
from app.serving.tls import ServingCertificate
from app.serving.tls_options import server_context
from app.ui.catalog import VIEWS
from app.ui.footprints import Results
from app.ui.site import Site
from app.ui.stores import Stores
from app.ui.view import Source
from app.ui.visitors import Access

_GRACE = 2
"""Seconds for answers under way when it stops. Streams have no end, so it waits for no more."""


@dataclass(frozen=True, slots=True)
class Named:
    """A cluster to show: its name on the page, its client, and how commands of `berth` name it."""

    name: str
    client: KubeClient
    aim: Aim = AIMLESS
    namespace: str = ""
    release: str = "berth"


def check_loopback(host: str) -> str:
    """The address, if it is of this machine alone. Raises UsageError: the page has the rights of a kubeconfig."""
    try:
        local = host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        local = False
    if not local:
        raise UsageError(
            f"--bind-address: want a loopback address such as 127.0.0.1, got {host!r}: who reaches the page has the "
            "rights of the kubeconfig"
        )
    return host


def spare_garbage() -> None:
    """Have the process look for garbage less often: what is kept of large clusters is none, and would be half the time.

    For a process that serves the page and nothing else.
    """
    gc.freeze()
    gc.set_threshold(20_000, 20, 100)


def certificate_of(certificate: str, key: str, proxy_ca: str | None) -> ServingCertificate:
    """What is served over TLS, as the files are at a time; clients that a CA of front proxies proves may show it.

    Raises UsageError for files that cannot be served.
    """
    return ServingCertificate(
        certificate,
        key,
        new_context=lambda: server_context(ask_client_certificate=proxy_ca is not None)[0],
        client_cas=[proxy_ca] if proxy_ca else (),
    )


@asynccontextmanager
async def sources_of(clusters: Sequence[Named]) -> AsyncIterator[list[Source]]:
    """What is known of these clusters, while the block runs."""
    async with AsyncExitStack() as stack:
        sources = []
        for cluster in clusters:
            stores, results = Stores(cluster.client), Results()
            stores.subscribe(results.changed)
            await stack.enter_async_context(stores.running())
            sources.append(Source(cluster.name, stores, results, cluster.aim, cluster.namespace, cluster.release))
        yield sources


async def serve(
    clusters: Sequence[Named],
    access: Access,
    *,
    listener: socket.socket,
    certificate: ServingCertificate | None = None,
    ready: Callable[[], object] = lambda: None,
    stop: asyncio.Event | None = None,
) -> None:
    """Until `stop` is set, or SIGINT or SIGTERM comes if there is none; `ready` is called when it answers."""
    stopping = stop or asyncio.Event()
    if stop is None:
        for number in (signal.SIGINT, signal.SIGTERM):
            asyncio.get_running_loop().add_signal_handler(number, stopping.set)
    async with sources_of(clusters) as sources:
        context = certificate.context if certificate is not None else None
        server = make_server(Site(sources, access, VIEWS), context=context)
        serving = asyncio.create_task(server.serve(sockets=[listener]))
        following = asyncio.create_task(standing("certificate", certificate.watch)) if certificate is not None else None
        waiting = asyncio.create_task(stopping.wait())
        try:
            while not server.started and not serving.done():  # noqa: ASYNC110 - uvicorn sets a flag
                await asyncio.sleep(0.01)
            ready()
            await asyncio.wait([serving, waiting], return_when=asyncio.FIRST_COMPLETED)
        finally:
            waiting.cancel()
            if following is not None:
                following.cancel()
            server.should_exit = True
            await serving


def make_server(site: Site, *, context: ssl.SSLContext | None = None) -> Server:
    """A server of the site. It leaves signals alone."""
    from app.admission.server import make_server as bounded  # noqa: PLC0415  it loads uvicorn

    return bounded(site.app, context=context, grace_seconds=_GRACE)
