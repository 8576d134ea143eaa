"""How the commands of `berth tenant` reach the infra cluster."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Annotated, TypeVar

import typer

from app.errors import Terminal, UsageError
from app.kube.names import check_dns_label

if TYPE_CHECKING:
    from app.kube.client import KubeClient

T = TypeVar("T")


def _namespace(flag: str, *, unsaid: bool = False) -> Callable[[str], str]:
    """A check of the name that a flag gives; `unsaid`: it may be left open."""

    def check(name: str) -> str:
        if unsaid and not name:
            return name
        try:
            return check_dns_label(name)
        except ValueError as error:
            raise UsageError(f"{flag}: {error}") from error

    return check


Kubeconfig = Annotated[
    str | None,
    typer.Option("--kubeconfig", help="The infra cluster (default: in-cluster, $KUBECONFIG)", show_default=False),
]
Context = Annotated[str | None, typer.Option("--context", help="Context of the kubeconfig", show_default=False)]
Namespace = Annotated[
    str,
    typer.Option(
        "--namespace",
        callback=_namespace("--namespace", unsaid=True),
        help="Namespace of the gateway's Secrets (default: the one that has its CA, else universe)",
        show_default=False,
    ),
]
AgentNamespace = Annotated[
    str,
    typer.Option(
        "--agent-namespace",
        callback=_namespace("--agent-namespace"),
        help="Namespace of the agent in the tenant's cluster, for secret.yaml",
    ),
]


def run_in_cluster(work: Callable[[KubeClient], Awaitable[T]], kubeconfig: str | None, context: str | None) -> T:
    """Do the work with a client. What will not pass by itself is a UsageError: the user has to act."""

    async def run() -> T:
        # Imported late: the official client takes longer to import than the flags to parse.
        from app.kube.transport import connect  # noqa: PLC0415

        async with await connect(kubeconfig=kubeconfig, context=context) as client:
            return await work(client)

    try:
        return asyncio.run(run())
    except Terminal as error:
        raise UsageError(str(error)) from error
