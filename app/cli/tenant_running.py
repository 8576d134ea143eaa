"""What the commands of `berth tenant` have alike: arguments, the client of the infra cluster, the question."""

from __future__ import annotations

import sys
from collections.abc import Awaitable, Callable, Iterable
from typing import TYPE_CHECKING, Annotated, TypeVar

import typer

from app.cli import cluster, completing
from app.errors import Terminal, UsageError
from app.tenancy.model import name_problem

if TYPE_CHECKING:
    from app.kube.client import KubeClient
    from app.placement.model import PlacementOptions

T = TypeVar("T")

NewName = Annotated[str, typer.Argument(metavar="NAME", help="Name of the tenant", show_default=False)]
Name = Annotated[
    str,
    typer.Argument(metavar="NAME", help="Name of the tenant", show_default=False, autocompletion=completing.tenants),
]
Kubeconfig = Annotated[str | None, cluster.kubeconfig_option("The infra cluster (default: in-cluster, $KUBECONFIG)")]
Yes = Annotated[bool, typer.Option("--yes/--no-yes", "-y", help="Do not ask", show_default=False)]


def in_infra(work: Callable[[KubeClient], Awaitable[T]], kubeconfig: str | None, context: str | None) -> T:
    """Do the work in the cluster. What will not pass by itself is a UsageError: the user has to act."""
    try:
        return cluster.in_cluster(work, kubeconfig, context)
    except Terminal as error:
        raise UsageError(str(error)) from error


async def placement(client: KubeClient) -> PlacementOptions:
    """By which labels nodes are DPUs of hosts and tenants, as the roles in the cluster have it; else the defaults."""
    from app.doctor.cluster import Cluster  # noqa: PLC0415  with all wings: `berth tenant list` needs none of it
    from app.doctor.locating import locate  # noqa: PLC0415
    from app.placement.settings import PlacementSettings  # noqa: PLC0415

    cluster = Cluster(client, namespace="")
    try:
        await locate(cluster)
        return (await cluster.settings(PlacementSettings, role="controller", otherwise="webhook")).placement
    finally:
        await cluster.close()


def check_name(name: str) -> None:
    """Raise UsageError for what cannot be the name of a tenant."""
    problem = name_problem(name)
    if problem:
        raise UsageError(f"NAME: {problem}")


def print_lines(lines: Iterable[str]) -> None:
    for line in lines:
        print(line)


def confirmed(question: str, refused: str, *, yes: bool) -> bool:
    """Ask on the terminal, unless `yes`; where the answer is no, `refused` is printed.

    Raises UsageError where there is no terminal.
    """
    if yes:
        return True
    if not (sys.stdin is not None and sys.stdin.isatty()):
        raise UsageError(f"{refused}: there is no terminal to confirm on; use --yes")
    if typer.confirm(question):
        return True
    print(refused)
    return False
