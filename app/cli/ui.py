"""`berth ui`: parses the flags, connects to the clusters, and serves the page until Ctrl-C."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from app.cli.cluster import EXAMINING_DEADLINE, Home, Release, kubeconfig_option
from app.cli.options import alone, epilog
from app.errors import Terminal, UsageError

if TYPE_CHECKING:
    from app.ui.serving import Named

_EPILOG = epilog(
    "berth ui",
    "berth ui --port 8080",
    "berth ui --kubeconfig infra.kubeconfig --kubeconfig tenant1.kubeconfig",
    "berth ui --context infra --context tenant1",
    text="""Shows in a browser what berth status, berth doctor and berth why say. It reads with the rights of the
kubeconfig, changes nothing, and answers this machine alone. Several clusters have a switch on the page.""",
)

ui_app = alone()


@ui_app.command(epilog=_EPILOG)
def ui(
    *,
    bind_address: Annotated[str, typer.Option(help="Loopback address to listen on")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port to listen on; 0 takes a free one")] = 8088,
    namespace: Home = None,
    release: Release = "berth",
    kubeconfigs: Annotated[
        list[str] | None, kubeconfig_option("A cluster to show; repeatable (default: in-cluster, $KUBECONFIG)")
    ] = None,
    contexts: Annotated[
        list[str] | None,
        typer.Option("--context", help="A context of the kubeconfig to show; repeatable", show_default=False),
    ] = None,
) -> None:
    """Show in a browser what Berth does, what is wrong, and why an object is as it is."""
    try:
        asyncio.run(_serve(bind_address, port, namespace or "", release, kubeconfigs or [], contexts or []))
    except Terminal as error:
        raise UsageError(str(error)) from error


async def _serve(
    host: str, port: int, namespace: str, release: str, kubeconfigs: list[str], contexts: list[str]
) -> None:
    # Imported late, with all wings: they take longer to import than the flags to parse.
    from app import logs  # noqa: PLC0415
    from app.serving.listener import address, listen  # noqa: PLC0415
    from app.ui.serving import check_loopback, serve  # noqa: PLC0415
    from app.ui.visitors import OnLaptop  # noqa: PLC0415

    logs.configure("warning")
    listener = listen("--port", check_loopback(host), port)
    clusters = await _clusters(_chosen(kubeconfigs, contexts), namespace, release)
    try:
        await serve(
            clusters,
            OnLaptop(),
            listener=listener,
            ready=lambda: print(f"berth ui: {address(listener, 'http')}/  (Ctrl-C ends it)", flush=True),
        )
    finally:
        for cluster in clusters:
            await cluster.client.close()


def _chosen(kubeconfigs: list[str], contexts: list[str]) -> list[tuple[str | None, str | None]]:
    """Each kubeconfig with the context that is shown of it."""
    if contexts and len(kubeconfigs) > 1:
        raise UsageError("--context: want one --kubeconfig with it, got several")
    if contexts:
        return [(kubeconfigs[0] if kubeconfigs else None, context) for context in contexts]
    return [(kubeconfig, None) for kubeconfig in kubeconfigs] or [(None, None)]


async def _clusters(chosen: list[tuple[str | None, str | None]], namespace: str, release: str) -> list[Named]:
    from app.kube.transport import connect  # noqa: PLC0415
    from app.ui.serving import Named  # noqa: PLC0415

    clusters = dict[str, Named]()
    for kubeconfig, context in chosen:
        flags = {"--kubeconfig": kubeconfig, "--context": context}
        options = tuple(word for flag, value in flags.items() if value for word in (flag, value))
        stem = Path(kubeconfig).name.removesuffix(".kubeconfig") if kubeconfig else "cluster"
        name = first = context or stem
        count = 1
        while name in clusters:
            count += 1
            name = f"{first}-{count}"
        client = await connect(kubeconfig=kubeconfig, context=context, deadline=EXAMINING_DEADLINE)
        clusters[name] = Named(name, client, options, namespace, release)
    return list(clusters.values())
