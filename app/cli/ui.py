"""`berth ui`: parses the flags, connects to the clusters, and serves the page until Ctrl-C."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, NamedTuple

import typer

from app.cli.cluster import EXAMINING_DEADLINE, Home, Release
from app.cli.options import alone, epilog
from app.doctor.aiming import Aim
from app.errors import Terminal, UsageError
from app.wiring import CLUSTER_RULE

if TYPE_CHECKING:
    from app.ui.serving import Named

_EPILOG = epilog(
    "berth ui",
    "berth ui --port 8080",
    "berth ui --kubeconfig infra.kubeconfig --kubeconfig tenant1.kubeconfig",
    "berth ui --context infra --context tenant1",
    text="""Shows in a browser what berth status, berth doctor and berth why say. It reads with the rights of the
kubeconfig, changes nothing, and answers this machine alone. Several clusters have a switch on the page.

With --access callers it listens for others too, over TLS. Each caller logs in with a token of the cluster, or comes
through a front proxy, and sees the objects that the caller may get. docs/ui.md has both.""",
)

ui_app = alone()


@ui_app.command(epilog=_EPILOG)
def ui(
    *,
    bind_address: Annotated[
        str | None, typer.Option(help="Address to listen on (default: 127.0.0.1; with --access callers: all)")
    ] = None,
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port to listen on; 0 takes a free one")] = 8088,
    namespace: Home = None,
    release: Release = "berth",
    kubeconfigs: Annotated[
        list[str] | None,
        typer.Option(
            "--kubeconfig",
            metavar="FILE",
            help=f"Kubeconfig of a cluster to show; repeatable (default: {CLUSTER_RULE})",
            show_default=False,
        ),
    ] = None,
    contexts: Annotated[
        list[str] | None,
        typer.Option("--context", help="A context of the kubeconfig to show; repeatable", show_default=False),
    ] = None,
    access: Annotated[
        Literal["kubeconfig", "callers"],
        typer.Option(help="Whose rights count: those of the kubeconfig, or of each caller (over TLS)"),
    ] = "kubeconfig",
    tls_cert_file: Annotated[
        str | None, typer.Option(help="With --access callers: certificate to serve", show_default=False)
    ] = None,
    tls_private_key_file: Annotated[
        str | None, typer.Option(help="With --access callers: its key", show_default=False)
    ] = None,
    front_proxy_ca: Annotated[
        str | None,
        typer.Option(help="With --access callers: CA of front proxies that name callers in X-Remote-User"),
    ] = None,
    front_proxy_names: Annotated[
        list[str] | None,
        typer.Option("--front-proxy-name", help="Common name that a front proxy's certificate may have; repeatable"),
    ] = None,
) -> None:
    """Show in a browser what Berth does, what is wrong, and why an object is as it is."""
    tls = Tls(tls_cert_file, tls_private_key_file, front_proxy_ca, tuple(front_proxy_names or ()))
    tls.check(needed=access == "callers")
    chosen = _chosen(kubeconfigs or [], contexts or [])
    if access == "callers" and len(chosen) > 1:
        raise UsageError("--access callers: want one cluster, that of the callers")
    try:
        asyncio.run(_serve(bind_address, port, _Berth(namespace or "", release), chosen, tls))
    except Terminal as error:
        raise UsageError(str(error)) from error


class _Berth(NamedTuple):
    """Where Berth is looked for."""

    namespace: str
    release: str


class Tls(NamedTuple):
    """The files of a page for callers; `certificate` is None on a laptop."""

    certificate: str | None
    key: str | None
    proxy_ca: str | None
    proxy_names: tuple[str, ...]

    def check(self, *, needed: bool) -> None:
        """Raise UsageError where files are missing, or are of no use."""
        if needed and not (self.certificate and self.key):
            raise UsageError("--access callers: want --tls-cert-file and --tls-private-key-file: tokens need TLS")
        if not needed and any(self):
            raise UsageError("--tls-cert-file, --front-proxy-ca and the like: want --access callers with them")
        if bool(self.proxy_ca) != bool(self.proxy_names):
            raise UsageError("--front-proxy-ca: want --front-proxy-name with it, for a CA may have other clients too")


async def _serve(
    host: str | None, port: int, berth: _Berth, chosen: list[tuple[str | None, str | None]], tls: Tls
) -> None:
    # Imported late, with all wings: they take longer to import than the flags to parse.
    from app import logs  # noqa: PLC0415
    from app.serving.listener import address, listen  # noqa: PLC0415
    from app.ui.serving import certificate_of, check_loopback, serve, spare_garbage  # noqa: PLC0415
    from app.ui.visitors import InCluster, OnLaptop  # noqa: PLC0415

    logs.configure("warning")
    spare_garbage()
    certificate = None
    if tls.certificate and tls.key:
        certificate = certificate_of(tls.certificate, tls.key, tls.proxy_ca)
        host = host or "::"
    where = host if certificate and host else check_loopback(host or "127.0.0.1")
    scheme = "https" if certificate else "http"
    with listen("--port", where, port) as listener:
        async with AsyncExitStack() as stack:
            clusters = await _clusters(chosen, berth, stack)
            await serve(
                clusters,
                InCluster(clusters[0].client, proxies=tls.proxy_names) if certificate else OnLaptop(),
                listener=listener,
                certificate=certificate,
                ready=lambda: print(f"berth ui: {address(listener, scheme)}/  (Ctrl-C ends it)", flush=True),
            )


def _chosen(kubeconfigs: list[str], contexts: list[str]) -> list[tuple[str | None, str | None]]:
    """Each kubeconfig with the context that is shown of it."""
    if contexts and len(kubeconfigs) > 1:
        raise UsageError("--context: want one --kubeconfig with it, got several")
    if contexts:
        return [(kubeconfigs[0] if kubeconfigs else None, context) for context in contexts]
    return [(kubeconfig, None) for kubeconfig in kubeconfigs] or [(None, None)]


async def _clusters(chosen: list[tuple[str | None, str | None]], berth: _Berth, stack: AsyncExitStack) -> list[Named]:
    from app.kube.transport import connect  # noqa: PLC0415
    from app.ui.serving import Named  # noqa: PLC0415

    clusters = dict[str, Named]()
    for kubeconfig, context in chosen:
        stem = Path(kubeconfig).name.removesuffix(".kubeconfig") if kubeconfig else "cluster"
        name = first = context or stem
        count = 1
        while name in clusters:
            count += 1
            name = f"{first}-{count}"
        client = await stack.enter_async_context(
            await connect(kubeconfig=kubeconfig, context=context, deadline=EXAMINING_DEADLINE)
        )
        clusters[name] = Named(name, client, Aim(kubeconfig or "", context or ""), berth.namespace, berth.release)
    return list(clusters.values())
