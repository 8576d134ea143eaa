"""The sandbox in the foreground: starts it, says what to type next, stops it on a signal."""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import os
import signal
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TextIO

from rich.console import Console

from app import logs
from app.devtools.clusters.claims import DEVICES, RESOURCE
from app.devtools.clusters.page import page_of
from app.devtools.clusters.plans import EVERY_WING, INFRA
from app.devtools.clusters.quota import CPUS, NAMESPACE, QUEUE
from app.devtools.clusters.sandbox import PATHS, Running, Sandbox, Whole
from app.devtools.signals import ended_by
from app.errors import UsageError

EXAMPLE = (
    "kubectl apply -f examples/attachments/foo-network.yaml",
    "kubectl apply -f examples/webhook-demo.yaml",
    "kubectl get pod webhook-demo -o yaml | grep -A4 resources:",
)
_MARK = ".berth-sandbox"
"""The lock of a directory, and the names in it that are of a sandbox: one that was killed leaves both."""
_CONTEXTS = f"Each cluster is a context of this file: kubectl --context {INFRA} get nodes"
_ADDRESSES = "Ports of nodes are at 127.0.0.1 here: write it in place of the addresses in examples/helm."
INSTALL = "helm install berth charts/berth --namespace berth-system --create-namespace"


async def run_sandbox(
    *,
    directory: Path,
    kubeconfigs: Mapping[str, Path],
    stand_ins: bool,
    bare: bool = False,
    log_level: str,
    console: Console,
) -> int:
    """Run until SIGINT, SIGTERM or SIGHUP; returns the exit status. Kubeconfigs and keys are removed at the end."""
    logs.configure(log_level)
    stop = asyncio.Event()
    ended_by(stop.set, signal.SIGINT)
    console.print("Starting the sandbox …")
    sandbox = Sandbox(directory, kubeconfigs=kubeconfigs, stand_ins=stand_ins, bare=bare, log_level=log_level)
    with _claimed(directory):
        try:
            async with sandbox.running() as whole:
                await _until(stop, whole, console=console, stand_ins=stand_ins, given=bool(kubeconfigs))
        finally:
            sandbox.clear()
    _say(console, "Stopped.")
    return 0


def _say(console: Console, text: str) -> None:
    """The terminal may be gone by now."""
    with contextlib.suppress(OSError):
        console.print(text)


async def _until(stop: asyncio.Event, whole: Whole, *, console: Console, stand_ins: bool, given: bool) -> None:
    async with page_of(whole) as page:
        _describe(console, whole, page=page, stand_ins=stand_ins, given=given)
        await stop.wait()
        _say(console, "\nStopping …")


@contextlib.contextmanager
def _claimed(directory: Path) -> Iterator[None]:
    """The directory, made if need be, for this sandbox alone: another would pull the certificates from under it.

    An empty one is removed at the end. Raises UsageError where something goes by the name of a file of the sandbox and
    no sandbox has made it: that would be overwritten now, and removed at the end.
    """
    try:
        directory.mkdir(parents=True, exist_ok=True, mode=0o700)
        mark = (directory / _MARK).open("a+", encoding="utf-8")
    except OSError as error:
        raise UsageError(f"--dir {directory}: {error.strerror}") from error
    with mark:
        try:
            fcntl.flock(mark, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            raise UsageError(f"--dir {directory}: a sandbox is running here; stop it or take another --dir") from error
        mark.seek(0)
        ours = mark.read().splitlines()
        try:
            if theirs := [name for name in _there(directory) if name not in ours]:
                raise UsageError(
                    f"--dir {directory}: {', '.join(theirs)}: no sandbox has made this, and one would overwrite it; "
                    "take another --dir"
                )
            ours = _marked(mark, PATHS)
            try:
                yield
            finally:
                ours = _marked(mark, _there(directory))
        finally:
            with contextlib.suppress(OSError):
                if not ours:
                    (directory / _MARK).unlink()
                    directory.rmdir()


def _there(directory: Path) -> list[str]:
    return [name for name in PATHS if os.path.lexists(directory / name)]


def _marked(mark: TextIO, names: Sequence[str]) -> list[str]:
    mark.truncate(0)
    mark.writelines(f"{name}\n" for name in names)
    mark.flush()
    return [*names]


def _describe_bare(console: Console, home: Running) -> None:
    console.print("\nNothing of Berth is in these clusters. Pods of its image run as processes of this machine.")
    console.print("Ready. Type in another terminal:\n", style="bold green")
    for command in (_export(home), INSTALL):
        console.print(f"  {command}", soft_wrap=True, highlight=False, markup=False)
    console.print(f"\n{_CONTEXTS}\n{_ADDRESSES}\nCtrl-C stops everything.", highlight=False)


def _describe(console: Console, whole: Whole, *, page: str, stand_ins: bool, given: bool) -> None:
    for cluster in whole.clusters:
        webhook = f"  webhook: https://{cluster.webhook}" if cluster.webhook else ""
        nodes = ", ".join(cluster.nodes) if stand_ins else "its own"
        console.print(f"[bold]{cluster.name}[/]  {cluster.url}  nodes: {nodes}{webhook}", soft_wrap=True)
    console.print(f"[bold]page[/]  {page}  (what Berth does here, in a browser: berth ui)", soft_wrap=True)
    home = whole.cluster("tenant1")
    if not whole.gateway:
        _describe_bare(console, home)
        return
    admin = home.kubeconfig.resolve().parent / "admin"
    console.print(
        f"[bold]gateway[/]  {whole.gateway}  (gRPC, mutual TLS; the cloud admin's files are in {admin})", soft_wrap=True
    )
    console.print(
        "\nSome of the API servers are given." if given else "\nThese API servers are stand-ins for development."
    )
    if stand_ins:
        where = f"LocalQueue {QUEUE} of namespace {NAMESPACE} in {EVERY_WING}"
        console.print(f"A stand-in for Kueue gives {CPUS} CPUs to {where}.", soft_wrap=True)
        console.print(f"A stand-in for RMD on each host of {EVERY_WING} gives cache ways.", soft_wrap=True)
        devices = f"A stand-in for a driver has {DEVICES} devices for {RESOURCE} on each of these hosts"
        console.print(f"{devices}, and one for Multus attaches networks.", soft_wrap=True)
    console.print("Ready. Type in another terminal:\n", style="bold green")
    for command in (_export(home), *EXAMPLE):
        console.print(f"  {command}", soft_wrap=True, highlight=False, markup=False)
    console.print(f"\n{_CONTEXTS}", highlight=False)
    console.print("The files are in Berth's repository. Ctrl-C stops everything.")


def _export(home: Running) -> str:
    return f"export KUBECONFIG={home.kubeconfig.resolve().with_name('kubeconfig')}"
