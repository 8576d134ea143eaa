"""`berth status`: parses the flags, has the cluster read, and draws the screen, once or until Ctrl-C."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated

import typer

from app.cli.cluster import Context, Home, Kubeconfig, Mine, Release, Scope, answered, examining, tell_home
from app.cli.options import alone, epilog, output_option, show
from app.explain.rendering import STRUCTURED, Line
from app.status.model import Away, Status
from app.status.rendering import Form, fitted, one_of_many, render, unreachable

if TYPE_CHECKING:
    from rich.console import Console

    from app.doctor.cluster import Cluster

_EPILOG = epilog(
    "berth status",
    "berth status --mine   # what is yours, with your rights",
    "berth status --watch",
    "berth status -o wide   # whole texts, commands, all items",
    "berth status --kubeconfig tenant1.kubeconfig -o json",
    text="""Exit status: 0 all is well, 1 it could not run, 2 the command line is wrong, 3 warnings, 4 errors, of the
screen or of the doctor. With --watch it runs until Ctrl-C, and exits 130.

The screen has the first line of each problem, once for all objects that have it. With -o wide it has the whole texts
and the commands of all problems, all items, and kinds and names of the objects behind them.

With -n or --mine it shows the objects of one namespace, for which the ClusterRole view there is enough.

Changes nothing. What it has no right to read is a line of the screen, and hides nothing else; an administrator of the
cluster sees everything. With --watch a terminal shows the newest screen; a file or a pipe gets each screen that
differs from the one before, in JSON one document a line, in YAML each behind a line of dashes. The members of the
JSON: docs/reference/status.md.""",
)

status_app = alone()


@status_app.command(epilog=_EPILOG)
def status(
    *,
    namespace: Scope = None,
    mine: Mine = False,
    output: Annotated[Form, output_option()] = "text",
    watch: Annotated[bool, typer.Option("-w", "--watch", help="Show changes until Ctrl-C")] = False,
    interval: Annotated[
        float, typer.Option(metavar="SECONDS", min=1.0, max=3600.0, help="With --watch: pause between two reads")
    ] = 5.0,
    home: Home = None,
    release: Release = "berth",
    kubeconfig: Kubeconfig = None,
    context: Context = None,
) -> int:
    """Show on one screen what Berth does in a cluster: roles, agents, tenants, companions, attachments."""

    async def run() -> int:
        async with examining(kubeconfig, context, namespace=home, release=release, scope=namespace, mine=mine) as fresh:
            if watch:
                await _watch(fresh, output, interval)
                return 0
            status = await _once(fresh)
        show(render(status, output))
        return status.severity.exit_status

    return answered(run())


async def _once(fresh: Callable[[], Cluster]) -> Status:
    # Imported late, with all wings: they take longer to import than the flags to parse.
    from app.status.gathering import diagnose, gather  # noqa: PLC0415

    # The reads of both are done once.
    cluster = fresh()
    try:
        status, diagnosis = await asyncio.gather(gather(cluster), diagnose(cluster))
        await tell_home(cluster)
    finally:
        await cluster.close()
    return replace(status, diagnosis=diagnosis)


async def _watch(fresh: Callable[[], Cluster], output: Form, interval: float) -> None:
    """Runs until it is interrupted."""
    from rich.console import Console  # noqa: PLC0415

    from app.status.gathering import Watch  # noqa: PLC0415

    watching, console = Watch(fresh, interval), Console(highlight=False)
    if output not in STRUCTURED and console.is_terminal and not console.is_dumb_terminal:
        await _draw(watching.screens(), console, output)
    async with aclosing(watching.changes()) as changes:
        async for screen in changes:
            if output in STRUCTURED:
                show(one_of_many(screen, output))
            else:
                show([*(render(screen, output) if isinstance(screen, Status) else [unreachable(screen)]), Line("")])


async def _draw(screens: AsyncGenerator[Status | Away], console: Console, output: Form) -> None:
    """Each screen is drawn over the one before, in one write. The last stays when the terminal is given back."""
    from rich.live import Live  # noqa: PLC0415
    from rich.text import Text  # noqa: PLC0415

    lines: list[Line] = []
    try:
        with Live(console=console, screen=True, auto_refresh=False) as live:
            async with aclosing(screens):
                async for screen in screens:
                    if isinstance(screen, Status):
                        top, lines = [], list(render(screen, output))
                    else:
                        top = [unreachable(screen), Line("")]
                    visible = fitted([*top, *lines], console.height)
                    live.update(Text("\n").join(Text(*line) for line in visible), refresh=True)
    finally:
        show(lines)
