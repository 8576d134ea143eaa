"""The sandbox in the foreground: starts it, says what to type next, stops it on a signal."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Mapping
from pathlib import Path

from rich.console import Console

from app import logs
from app.errors import UsageError
from app.runtime.sandbox import Running, Sandbox

EXAMPLE = (
    "kubectl apply -f examples/attachments/foo-network.yaml",
    "kubectl apply -f examples/webhook-demo.yaml",
    "kubectl get pod webhook-demo -o yaml | grep resources -A4",
)


async def run_sandbox(
    *, directory: Path, kubeconfigs: Mapping[str, Path], stand_ins: bool, log_level: str, console: Console
) -> int:
    """Run until SIGINT or SIGTERM; returns the exit status."""
    logs.configure(log_level)
    _make_directory(directory)
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    console.print("Starting the sandbox …")
    async with Sandbox(
        directory, kubeconfigs=kubeconfigs, stand_ins=stand_ins, log_level=log_level
    ).running() as clusters:
        _describe(console, clusters, stand_ins=stand_ins, given=bool(kubeconfigs))
        await stop.wait()
        console.print("\nStopping …")
    console.print("Stopped.")
    return 0


def _make_directory(directory: Path) -> None:
    try:
        directory.mkdir(parents=True, exist_ok=True, mode=0o700)
    except OSError as error:
        raise UsageError(f"--dir {directory}: {error.strerror}") from error


def _describe(console: Console, clusters: list[Running], *, stand_ins: bool, given: bool) -> None:
    for cluster in clusters:
        console.print(
            f"[bold]{cluster.name}[/]  {cluster.url}  nodes: {', '.join(cluster.nodes) if stand_ins else 'its own'}"
            f"  webhook: https://127.0.0.1:{cluster.webhook_port}  health: http://127.0.0.1:{cluster.health_port}",
            soft_wrap=True,
        )
    # The example is a tenant's; where API servers are given there may be no tenant among them.
    home = next((cluster for cluster in clusters if cluster.name == "tenant1"), clusters[0])
    console.print("\nThe API servers are given." if given else "\nThese API servers are stand-ins for development.")
    console.print("Ready. Type in another terminal:\n", style="bold green")
    for command in (f"export KUBECONFIG={home.kubeconfig.resolve()}", *EXAMPLE):
        console.print(f"  {command}", soft_wrap=True, highlight=False, markup=False)
    console.print("\nThe files are in Berth's repository. Ctrl-C stops everything.")
