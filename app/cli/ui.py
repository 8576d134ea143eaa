"""`berth ui`: parses the flags, and serves the page of clusters on this machine until Ctrl-C, or runs the role."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from app.cli.cluster import EXAMINING_DEADLINE
from app.cli.options import alone, epilog
from app.cli.roles import EXIT_STATUS, given, option_of
from app.doctor.aiming import Aim
from app.errors import Terminal, UsageError
from app.registry import UI, settings_of

if TYPE_CHECKING:
    from app.ui.serving import Named

_SETTINGS = settings_of(UI.name)
_EPILOG = epilog(
    *UI.examples,
    text=f"""Shows in a browser what berth status, berth doctor and berth why say. It reads with the rights of the
kubeconfig, changes nothing, and answers this machine alone. Several clusters have a switch on the page.

With --access callers it listens for others too, over TLS. Each caller logs in with a token of the cluster, or comes
through a front proxy, and sees the objects that the caller may get. Then it is a role as others are: it has a health
port, logs, and reads the variables BERTH_PORT, BERTH_LOG_LEVEL and so on. docs/ui.md has both.

{EXIT_STATUS}""",
)

ui_app = alone()


@ui_app.command(epilog=_EPILOG)
def ui(
    *,
    access: Annotated[Literal["kubeconfig", "callers"] | None, option_of(_SETTINGS, "access")] = None,
    bind_address: Annotated[str | None, option_of(_SETTINGS, "bind_address")] = None,
    port: Annotated[int | None, option_of(_SETTINGS, "port")] = None,
    health_check_port: Annotated[int | None, option_of(_SETTINGS, "health_check_port")] = None,
    tls_cert_file: Annotated[str | None, option_of(_SETTINGS, "tls_cert_file")] = None,
    tls_private_key_file: Annotated[str | None, option_of(_SETTINGS, "tls_private_key_file")] = None,
    front_proxy_ca: Annotated[str | None, option_of(_SETTINGS, "front_proxy_ca")] = None,
    front_proxy_names: Annotated[list[str] | None, option_of(_SETTINGS, "front_proxy_names")] = None,
    kubeconfig: Annotated[list[str] | None, option_of(_SETTINGS, "kubeconfig")] = None,
    context: Annotated[list[str] | None, option_of(_SETTINGS, "context")] = None,
    namespace: Annotated[str | None, option_of(_SETTINGS, "namespace")] = None,
    release: Annotated[str | None, option_of(_SETTINGS, "release")] = None,
    log_level: Annotated[str | None, option_of(_SETTINGS, "log_level")] = None,
) -> int:
    """Show in a browser what Berth does, what is wrong, and why an object is as it is."""
    chosen = _chosen(kubeconfig or [], context or [])
    if access == "callers" and len(chosen) > 1:
        raise UsageError("--access callers: want one cluster, that of the callers")
    flags = {
        "access": access,
        "bind_address": bind_address,
        "port": port,
        "health_check_port": health_check_port,
        "tls_cert_file": tls_cert_file,
        "tls_private_key_file": tls_private_key_file,
        "front_proxy_ca": front_proxy_ca,
        "front_proxy_names": front_proxy_names,
        "kubeconfig": chosen[0][0],
        "context": chosen[0][1],
        "namespace": namespace,
        "release": release,
        "log_level": log_level,
    }
    settings: Any = _SETTINGS.load(given(UI, flags), environment=access == "callers")
    if access == "callers":
        from app.runtime.process import run_role  # noqa: PLC0415

        return run_role(UI, settings)
    try:
        asyncio.run(_serve(settings, bind_address or "127.0.0.1", chosen, level=log_level or "warning"))
    except Terminal as error:
        raise UsageError(str(error)) from error
    return 0


async def _serve(settings: Any, host: str, chosen: list[tuple[str | None, str | None]], *, level: str) -> None:
    # Imported late, with all wings: they take longer to import than the flags to parse.
    from app import logs  # noqa: PLC0415
    from app.serving.listener import address, listen  # noqa: PLC0415
    from app.ui.serving import check_loopback, serve, spare_garbage  # noqa: PLC0415
    from app.ui.visitors import OnLaptop  # noqa: PLC0415

    logs.configure(level)
    spare_garbage()
    with listen("--port", check_loopback(host), settings.port) as listener:
        async with AsyncExitStack() as stack:
            await serve(
                await _clusters(chosen, settings, stack),
                OnLaptop(),
                listener=listener,
                ready=lambda: print(f"berth ui: {address(listener, 'http')}/  (Ctrl-C ends it)", flush=True),
            )


def _chosen(kubeconfigs: list[str], contexts: list[str]) -> list[tuple[str | None, str | None]]:
    """Each kubeconfig with the context that is shown of it."""
    if contexts and len(kubeconfigs) > 1:
        raise UsageError("--context: want one --kubeconfig with it, got several")
    if contexts:
        return [(kubeconfigs[0] if kubeconfigs else None, context) for context in contexts]
    return [(kubeconfig, None) for kubeconfig in kubeconfigs] or [(None, None)]


async def _clusters(chosen: list[tuple[str | None, str | None]], settings: Any, stack: AsyncExitStack) -> list[Named]:
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
        clusters[name] = Named(name, client, Aim(kubeconfig or "", context or ""), settings.namespace, settings.release)
    return list(clusters.values())
