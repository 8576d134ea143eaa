"""Plays the whole demo in a sandbox of its own."""

from __future__ import annotations

import contextlib
import tempfile
from pathlib import Path

from rich.console import Console

from app import logs
from app.devtools.clusters.sandbox import Sandbox
from app.devtools.demo.calling import Caller
from app.devtools.demo.claiming import Claiming
from app.devtools.demo.companions import Companions
from app.devtools.demo.injection import Injection
from app.devtools.demo.keys import key_waiter
from app.devtools.demo.reserving import Reserving
from app.devtools.demo.stage import Stage
from app.devtools.demo.wrapping import Wrapping
from app.kube.transport import connect


async def run_demo(console: Console, *, log_level: str = "error", by_step: bool = False) -> int:
    """Start a sandbox in a temporary directory, play the demo, stop the sandbox; 0 only if every step held.

    `by_step` waits for a key between steps. Raises UsageError where standard input is no terminal then.
    """
    logs.configure(log_level)
    stage = Stage(console, key_waiter(console) if by_step else None)
    with tempfile.TemporaryDirectory(prefix="berth-demo-") as name:
        directory = Path(name)
        console.print("Starting a sandbox: an infra and two tenant clusters, with Berth in each …")
        async with Sandbox(directory, log_level=log_level).running() as whole, contextlib.AsyncExitStack() as stack:
            for cluster in whole.clusters:
                console.print(f"  {cluster.name}: nodes {', '.join(cluster.nodes)}")
            if by_step:
                console.print(f"  to look inside: export KUBECONFIG={directory}/kubeconfig", soft_wrap=True)
            infra, tenant1, tenant2 = [
                await stack.enter_async_context(await connect(kubeconfig=str(cluster.kubeconfig)))
                for cluster in whole.clusters
            ]
            stage.act("In tenant1: a Pod gets the resources that its networks need")
            await Injection(tenant1, stage).play()
            stage.act("In tenant1: which address each device of a Pod has, and a Service on its second network")
            await Claiming(tenant1, stage).play()
            stage.act("In tenant1: AppWrappers wait for their queue, run, and recover")
            await Wrapping(tenant1, stage).play()
            stage.act("In tenant1: cache ways and P-states for the cores of a Pod, by RMD")
            await Reserving(tenant1, stage).play()
            stage.act("Over three clusters: companions on the right DPU")
            admin = directory / "admin"
            caller = Caller(
                whole.gateway, ca=admin / "ca.crt", certificate=admin / "admin.crt", key=admin / "admin.key"
            )
            await Companions(stage, infra=infra, tenant1=tenant1, tenant2=tenant2, caller=caller).play()
    console.print(f"\n[bold green]The demo is done: all {stage.steps} steps held.[/]")
    return 0
