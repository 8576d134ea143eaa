"""`berth doctor`: parses the flags, has the checks run, prints what they found, and exits by the worst of it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.text import Text

from app.cli.options import paragraphs
from app.doctor.model import Finding, Severity
from app.doctor.rendering import Form, render
from app.doctor.running import examine, pick, worst
from app.errors import ApiError, Terminal, Transient, UsageError
from app.registry import BY_NAME

if TYPE_CHECKING:
    from app.kube.transport import AioKubeClient

EPILOG = paragraphs("""Examples:

  berth doctor

  berth doctor --namespace kube-system --release-name network-resources-injector

  berth doctor --only registrations --only certificate -o json

Exit status: 0 nothing worse than information, 1 it could not run, 2 the command line is wrong, 3 warnings, 4 errors.

Changes nothing: it reads, asks what may be done, and tries with dry runs. What it has no right to read is a finding
too; an administrator of the cluster sees everything.""")
WARNINGS, ERRORS = 3, 4
_DEADLINE = 35.0
"""Seconds for one request: an API server waits up to 30 for a webhook before it tells what is wrong with it."""
_STATUS = {Severity.ok: 0, Severity.info: 0, Severity.warning: WARNINGS, Severity.error: ERRORS}


def doctor(
    *,
    namespace: Annotated[
        str | None,
        typer.Option("-n", "--namespace", help="Namespace of Berth (default: found by its labels)", show_default=False),
    ] = None,
    release: Annotated[str, typer.Option("--release-name", help="Name of the release")] = "berth",
    roles: Annotated[
        list[str] | None,
        typer.Option(
            "--role", help="A role that has to be here; repeatable (default: as installed)", show_default=False
        ),
    ] = None,
    only: Annotated[
        list[str] | None,
        typer.Option("--only", metavar="CHECK", help="Run this check; repeatable (default: all)", show_default=False),
    ] = None,
    output: Annotated[Form, typer.Option("-o", "--output", help="Form of the answer")] = "text",
    kubeconfig: Annotated[
        str | None,
        typer.Option("--kubeconfig", help="The cluster (default: in-cluster, $KUBECONFIG)", show_default=False),
    ] = None,
    context: Annotated[
        str | None, typer.Option("--context", help="Context of the kubeconfig", show_default=False)
    ] = None,
) -> int:
    """Find what is wrong with Berth in a cluster, what follows from it, and the command that fixes it."""
    for role in roles or []:
        if role not in BY_NAME:
            raise UsageError(f"--role: there is no role {role!r}: want one of {', '.join(BY_NAME)}")
    try:
        findings = asyncio.run(
            _examine(
                namespace=namespace,
                release=release,
                roles=frozenset(roles or ()),
                only=only or [],
                kubeconfig=kubeconfig,
                context=context,
            )
        )
    except Terminal as error:
        raise UsageError(str(error)) from error
    except ApiError as error:
        # Before any check: none of them would have more to say.
        raise Transient(f"the API server could not be asked: {error}") from error
    # Rich leaves colors out by itself where standard output is no terminal.
    console = Console(highlight=False, soft_wrap=True)
    for line in render(findings, output):
        console.print(Text(line.text, line.style))
    return _STATUS[worst(findings)]


async def _examine(
    *,
    namespace: str | None,
    release: str,
    roles: frozenset[str],
    only: list[str],
    kubeconfig: str | None,
    context: str | None,
) -> list[Finding]:
    # Imported late: the official client takes longer to import than the flags to parse.
    from app.doctor.checks import CHECKS  # noqa: PLC0415
    from app.doctor.cluster import Cluster  # noqa: PLC0415
    from app.doctor.locating import locate  # noqa: PLC0415
    from app.kube.impersonation import Impersonation  # noqa: PLC0415
    from app.kube.transport import connect  # noqa: PLC0415

    @asynccontextmanager
    async def impersonating(user: str, groups: tuple[str, ...]) -> AsyncIterator[AioKubeClient]:
        who = Impersonation(user, groups)
        async with await connect(kubeconfig=kubeconfig, context=context, impersonate=who) as client:
            yield client

    checks = pick(CHECKS, only)
    async with await connect(kubeconfig=kubeconfig, context=context, deadline=_DEADLINE) as client:
        found = await locate(client, release, namespace=namespace or "")
        cluster = Cluster(
            client,
            namespace=found.namespace,
            release=found.release,
            roles=roles,
            impersonating=impersonating,
        )
        try:
            return await examine(cluster, checks)
        finally:
            await cluster.close()
