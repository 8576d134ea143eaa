"""`berth sandbox`, a development control plane with Berth in it, and `berth demo`, which plays the examples in one."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, cast

import typer
from rich.console import Console

from app import logs
from app.cli.options import alone, devtool, epilog
from app.errors import UsageError

if TYPE_CHECKING:
    from app.devtools.demo.catalog import Part

_SANDBOX_EPILOG = epilog(
    "berth sandbox",
    "berth sandbox --dir /tmp/berth",
    "berth sandbox --bare   # then: helm install berth charts/berth",
    "berth sandbox --kubeconfig icp=real.kubeconfig",
)
_Level = Literal["debug", "info", "warning", "error"]
_DEMO_EPILOG = epilog(
    "berth demo",
    "berth demo companions",
    "berth demo --step",
    text="Exits 0 when every step held, 1 at the first that did not.",
)


def _parts() -> tuple[Part, ...]:
    """The parts of the demo. Raises UsageError in a container image."""
    return cast("tuple[Part, ...]", devtool("app.devtools.demo.catalog:PARTS"))


sandbox_app, demo_app = alone(), alone()


@sandbox_app.command(epilog=_SANDBOX_EPILOG)
def sandbox(
    directory: Annotated[
        Path, typer.Option("--dir", help="Directory of kubeconfigs and certificates.", show_default=True)
    ] = Path(".sandbox"),
    kubeconfig: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=FILE",
            help="Use this API server as cluster NAME (icp, tenant1, tenant2) instead of a stand-in; repeatable.",
        ),
    ] = None,
    stand_ins: Annotated[
        bool, typer.Option(help="Stand in for scheduler, kubelets and garbage collector; off for a whole cluster.")
    ] = True,
    bare: Annotated[
        bool,
        typer.Option(
            "--bare", help="Leave Berth out, to install it; Pods of its image run as processes of this machine."
        ),
    ] = False,
    log_level: Annotated[_Level, typer.Option(help="Lowest level that is logged.")] = "warning",
) -> int:
    """Run an infra and two tenant clusters on this machine, with Berth in each, until Ctrl-C."""
    running = devtool("app.devtools.clusters.foreground:run_sandbox")(
        directory=directory,
        kubeconfigs=_by_name(kubeconfig or []),
        stand_ins=stand_ins,
        bare=bare,
        log_level=log_level,
        console=Console(),
    )
    return cast("int", asyncio.run(running))


@demo_app.command(epilog=_DEMO_EPILOG)
def demo(
    name: Annotated[
        str | None,
        typer.Argument(
            metavar="[NAME]",
            help="The part to play, of those that --list names (default: all).",
            autocompletion=lambda incomplete: [part.name for part in _parts() if part.name.startswith(incomplete)],
            show_default=False,
        ),
    ] = None,
    by_step: Annotated[
        bool, typer.Option("--step", help="Wait for a key between steps; s goes to the next part, q ends.")
    ] = False,
    listed: Annotated[bool, typer.Option("--list", help="List the parts and exit.")] = False,
    log_level: Annotated[_Level, typer.Option(help="Lowest level that is logged.")] = "error",
) -> int:
    """Start a sandbox and play the examples in it, step by step; exits 0 only if every step holds."""
    parts = _parts()
    names = [part.name for part in parts]
    if listed:
        for part in parts:
            typer.echo(f"{part.name.ljust(max(map(len, names)))}  {part.title}")
        return 0
    if name not in (None, *names):
        raise UsageError(f"there is no part {name!r} of the demo: want {', '.join(names)}")
    console = Console()
    ask = devtool("app.devtools.demo.keys:key_waiter")(console) if by_step else None
    logs.configure(log_level)
    # What comes next is imported first, which takes a second or two.
    console.print("Starting a sandbox: an infra and two tenant clusters, with Berth in each …")
    run_demo = devtool("app.devtools.demo.play:run_demo")
    return cast(
        "int",
        asyncio.run(
            run_demo(console, parts=[part for part in parts if name in (None, part.name)], log_level=log_level, ask=ask)
        ),
    )


def _by_name(pairs: list[str]) -> dict[str, Path]:
    paths: dict[str, Path] = {}
    for pair in pairs:
        name, _, path = pair.partition("=")
        if not name or not path:
            raise UsageError(f"--kubeconfig: want NAME=FILE, got {pair!r}")
        if not Path(path).is_file():
            raise UsageError(f"--kubeconfig {name}: no such file: {path}")
        paths[name] = Path(path)
    return paths
