"""What commands that talk to a cluster have alike: their options, and the client."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterable
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

from app.errors import ApiError, Terminal, Transient, UsageError
from app.kube.names import check_dns_label

if TYPE_CHECKING:
    from app.doctor.cluster import Cluster
    from app.kube.client import KubeClient

EXAMINING_DEADLINE = 35.0
"""Seconds for one request: an API server waits up to 30 for a webhook before it reports what is wrong with it."""
T = TypeVar("T")
Context = Annotated[str | None, typer.Option("--context", help="Context of the kubeconfig", show_default=False)]


def kubeconfig_option(text: str) -> typer.models.OptionInfo:
    option: typer.models.OptionInfo = typer.Option("--kubeconfig", help=text, show_default=False)
    return option


def dns_label(flag: str, *, optional: bool = False) -> Callable[[str], str]:
    """A check of the namespace that a flag gives."""

    def check(name: str) -> str:
        try:
            return name if optional and not name else check_dns_label(name)
        except ValueError as error:
            raise UsageError(f"{flag}: {error}") from error

    return check


Home = Annotated[
    str | None,
    typer.Option(
        "-n",
        "--namespace",
        help="Namespace of Berth (default: found by its labels)",
        callback=dns_label("--namespace", optional=True),
    ),
]
Release = Annotated[str, typer.Option("--release-name", help="Name of the release")]
Examined = Annotated[str | None, kubeconfig_option("The cluster (default: in-cluster, $KUBECONFIG)")]


def in_cluster(
    work: Callable[[KubeClient], Awaitable[T]],
    kubeconfig: str | None,
    context: str | None,
    *,
    stop: asyncio.Event | None = None,
    deadline: float | None = None,
) -> T:
    """Do the work with a client. SIGTERM and SIGINT set `stop`, if there is one.

    `deadline` is that of a request in seconds, by default that of all roles.
    """

    async def run() -> T:
        if stop is not None:  # the first process of a container gets no default action for these signals
            for number in (signal.SIGTERM, signal.SIGINT):
                asyncio.get_running_loop().add_signal_handler(number, stop.set)
        # Imported late: the official client takes longer to import than the flags to parse. Signals may come meanwhile.
        from app.kube.transport import DEADLINE, connect  # noqa: PLC0415

        async with await connect(kubeconfig=kubeconfig, context=context, deadline=deadline or DEADLINE) as client:
            return await work(client)

    return asyncio.run(run())


@asynccontextmanager
async def examining(
    kubeconfig: str | None, context: str | None, *, namespace: str | None, release: str, roles: Iterable[str] = ()
) -> AsyncIterator[Callable[[], Cluster]]:
    """A function that makes what the doctor and the status read, each time without anything that was read before.

    Raises Terminal for a kubeconfig that cannot be used.
    """
    # Imported late: the official client takes longer to import than the flags to parse.
    from app.doctor.cluster import Cluster  # noqa: PLC0415
    from app.kube.transport import connect  # noqa: PLC0415

    named = {"--kubeconfig": kubeconfig, "--context": context}
    options = tuple(word for flag, value in named.items() if value for word in (flag, value))
    async with await connect(kubeconfig=kubeconfig, context=context, deadline=EXAMINING_DEADLINE) as client:
        yield lambda: Cluster(
            client,
            namespace=namespace or "",
            release=release,
            roles=frozenset(roles),
            options=options,
            sought=bool(namespace),
        )


def answered(examination: Coroutine[Any, Any, T], kubeconfig: str | None = None, context: str | None = None) -> T:
    """What the examination of a cluster returns. Raises UsageError or Transient where the cluster cannot be asked."""
    try:
        return asyncio.run(examination)
    except Terminal as error:
        raise UsageError(str(error)) from error
    except ApiError as error:
        # Before any part of it: none of them would have more to say.
        raise Transient(f"the API server could not be asked: {error} ({named_by(kubeconfig, context)})") from error


def named_by(kubeconfig: str | None, context: str | None) -> str:
    """How the cluster was named: by the flags, by $KUBECONFIG, or as a Pod or kubectl would find it."""
    place = kubeconfig or os.environ.get("KUBECONFIG")
    text = f"kubeconfig {place}" if place else "in-cluster, or ~/.kube/config"
    return f"{text}, {f'context {context}' if context else 'its current context'}"
