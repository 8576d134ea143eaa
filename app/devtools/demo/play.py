"""Plays the demo, or one part of it, in a sandbox of its own."""

from __future__ import annotations

import asyncio
import contextlib
import tempfile
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import Protocol

from rich.console import Console

from app.devtools.clusters.page import page_of
from app.devtools.clusters.sandbox import Sandbox, Whole
from app.devtools.demo.calling import Caller
from app.devtools.demo.catalog import PARTS, Part
from app.devtools.demo.claiming import Claiming
from app.devtools.demo.companions import Companions
from app.devtools.demo.injection import Injection
from app.devtools.demo.kubectl import Kubectl
from app.devtools.demo.reserving import Reserving
from app.devtools.demo.stage import Quit, Stage, Step
from app.devtools.demo.wrapping import Wrapping
from app.devtools.signals import ended_by
from app.kube.client import KubeClient
from app.kube.transport import connect


class _Played(Protocol):
    @property
    def steps(self) -> Sequence[Step]: ...


async def run_demo(
    console: Console, *, parts: Sequence[Part], log_level: str, ask: Callable[[], Awaitable[str]] | None = None
) -> int:
    """Start a sandbox in a temporary directory, play the parts, stop the sandbox; 0 only if every step held.

    `ask` is awaited between steps, as in `Stage`. SIGTERM and SIGHUP end it as an interrupt does: nothing is left of
    the sandbox.
    """
    task = asyncio.current_task()
    received = ended_by(lambda: task.cancel() if task else False)
    try:
        with tempfile.TemporaryDirectory(prefix="berth-demo-") as name:
            directory = Path(name)
            async with Sandbox(directory, log_level=log_level).running() as whole, page_of(whole) as page:
                for cluster in whole.clusters:
                    console.print(f"  {cluster.name}: nodes {', '.join(cluster.nodes)}")
                console.print(f"  in a browser: {page}", soft_wrap=True)
                if ask is not None:
                    console.print(f"  to look inside: export KUBECONFIG={directory}/kubeconfig", soft_wrap=True)
                seen = await _play(console, parts, whole, directory, ask)
    except asyncio.CancelledError:
        if not received:
            raise
        return 128 + received[0]
    _end(console, seen)
    return 0


async def _play(
    console: Console, parts: Sequence[Part], whole: Whole, directory: Path, ask: Callable[[], Awaitable[str]] | None
) -> list[Part]:
    """The parts that were played, the last one perhaps not to its end."""
    seen: list[Part] = []
    async with contextlib.AsyncExitStack() as stack:
        clients = {
            cluster.name: await stack.enter_async_context(await connect(kubeconfig=str(cluster.kubeconfig)))
            for cluster in whole.clusters
        }
        admin = directory / "admin"
        caller = Caller(whole.gateway, ca=admin / "ca.crt", certificate=admin / "admin.crt", key=admin / "admin.key")
        stage = Stage(console, ask)
        played = _played(stage, clients, caller)
        stage.total = sum(len(played[part.name].steps) for part in parts)
        with contextlib.suppress(Quit):
            for part in parts:
                seen.append(part)
                await stage.play(part.title, played[part.name].steps)
    return seen


def _played(stage: Stage, clients: Mapping[str, KubeClient], caller: Caller) -> dict[str, _Played]:
    """By the names of the parts. tenant1 is the cluster of the current context."""
    infra, tenant1, tenant2 = (Kubectl(stage, client, context=name) for name, client in clients.items())
    own = Kubectl(stage, tenant1.client)
    return {
        "injection": Injection(own),
        "claims": Claiming(own),
        "appwrappers": Wrapping(own),
        "rmd": Reserving(own),
        "companions": Companions(infra=infra, tenant1=tenant1, tenant2=tenant2, caller=caller),
    }


def _end(console: Console, seen: Sequence[Part]) -> None:
    """What was seen, and what comes next."""
    width = max(len(part.name) for part in PARTS)
    console.print("\n[bold green]You have seen:[/]")
    for part in seen:
        console.print(f"  {part.name.ljust(width)}  {part.seen}", highlight=False, soft_wrap=True)
    console.print("\nNext, the same clusters to type in yourself:\n")
    console.print("  berth sandbox", style="cyan", highlight=False)
    console.print('\nREADME.md, "By hand, with kubectl", has what to type there.', highlight=False)
