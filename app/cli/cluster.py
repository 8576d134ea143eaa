"""What commands that talk to a cluster have alike: their options, and the client.

`-n` is everywhere the namespace of objects, `--berth-namespace` that of the release.
"""

from __future__ import annotations

import asyncio
import signal
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterable
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

from app.cli import completing
from app.doctor.aiming import Aim
from app.errors import ApiError, Terminal, Transient, UsageError
from app.kube.names import check_dns_label
from app.wiring import CLUSTER_RULE

if TYPE_CHECKING:
    from app.doctor.cluster import Cluster
    from app.kube.client import KubeClient

EXAMINING_DEADLINE = 35.0
"""Seconds for one request: an API server waits up to 30 for a webhook before it reports what is wrong with it."""
_SILENCE = 2.0
"""Seconds after which a command without an answer says what it waits for."""
_UNANSWERED = (0, 401)
"""Statuses of a cluster that cannot be asked: no answer, and a user that it does not know."""
T = TypeVar("T")


def dns_label(flag: str) -> Callable[[str | None], str | None]:
    """A check of the namespace that a flag gives."""

    def check(name: str | None) -> str | None:
        try:
            return check_dns_label(name) if name else name
        except ValueError as error:
            raise UsageError(f"{flag}: {error}") from error

    return check


def namespace_option(*names: str, text: str) -> typer.models.OptionInfo:
    """A flag for a namespace. The first long name is that in messages."""
    option: typer.models.OptionInfo = typer.Option(
        *names,
        help=text,
        callback=dns_label(next(name for name in names if name.startswith("--"))),
        autocompletion=completing.namespaces,
        show_default=False,
    )
    return option


Kubeconfig = Annotated[
    str | None,
    typer.Option(
        "--kubeconfig",
        metavar="FILE",
        help=f"Kubeconfig of the cluster (default: {CLUSTER_RULE})",
        show_default=False,
    ),
]
Context = Annotated[
    str | None,
    typer.Option(
        "--context",
        help="Context of the kubeconfig (default: its current one)",
        autocompletion=completing.contexts,
        show_default=False,
    ),
]
Home = Annotated[
    str | None, namespace_option("--berth-namespace", text="Namespace of Berth (default: found by its labels)")
]
Release = Annotated[str, typer.Option("--release-name", help="Name of the release")]
Scope = Annotated[
    str | None,
    namespace_option(
        "-n", "--namespace", text="Only objects of this namespace, with rights in it alone (default: the whole cluster)"
    ),
]
Mine = Annotated[
    bool,
    typer.Option("--mine", help="As -n with the namespace of the kubeconfig's context", show_default=False),
]


class Unanswered(Transient):
    """The API server gives no answer, or does not know the user."""

    def __str__(self) -> str:
        return f"the API server could not be asked: {super().__str__()}"


@asynccontextmanager
async def connected(
    kubeconfig: str | None, context: str | None, *, deadline: float | None = None
) -> AsyncIterator[KubeClient]:
    """A client of the cluster. Raises UsageError for a kubeconfig that cannot be used.

    Where the cluster cannot be asked, Unanswered says which kubeconfig and context named it.
    """
    # Imported late: the official client takes longer to import than the flags to parse. Signals may come meanwhile.
    from app.kube.transport import connect  # noqa: PLC0415

    options = {} if deadline is None else {"deadline": deadline}
    async with await connect(kubeconfig=kubeconfig, context=context, **options) as client:
        telling = asyncio.create_task(_tell_silence(client))
        try:
            yield client
        except ApiError as error:
            if error.status not in _UNANSWERED:
                raise
            raise Unanswered(f"{error} ({client.source})") from error
        finally:
            telling.cancel()


async def _tell_silence(client: KubeClient) -> None:
    """Say, aside, what is waited for, if nothing is answered: a server that is stopped accepts connections."""
    await asyncio.sleep(_SILENCE)
    if not client.heard:
        print(f"note: the API server at {client.server} has not answered yet ({client.source})", file=sys.stderr)


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
        async with connected(kubeconfig, context, deadline=deadline) as client:
            return await work(client)

    return asyncio.run(run())


@asynccontextmanager
async def examining(
    kubeconfig: str | None,
    context: str | None,
    *,
    namespace: str | None,
    release: str,
    roles: Iterable[str] = (),
    scope: str | None = None,
    mine: bool = False,
) -> AsyncIterator[Callable[[], Cluster]]:
    """A function that makes what doctor, status and why read, each time without anything that was read before.

    `namespace` is that of Berth; `scope` the one whose objects are asked about, with `mine` that of the context.
    """
    # Imported late: the official client takes longer to import than the flags to parse.
    from app.doctor.cluster import Cluster  # noqa: PLC0415

    if mine and scope:
        raise UsageError("--mine is the namespace of the context, and --namespace names one: use one of them")
    async with connected(kubeconfig, context, deadline=EXAMINING_DEADLINE) as client:
        if mine:
            scope = client.default_namespace
        if scope:
            await _check_namespace(client, scope)
        yield lambda: Cluster(
            client,
            namespace=namespace or "",
            release=release,
            roles=frozenset(roles),
            aim=Aim(kubeconfig or "", context or ""),
            sought=bool(namespace),
            scope=scope or "",
        )


async def tell_home(cluster: Cluster) -> None:
    """Say, aside, that the scope is the namespace of Berth: `-n` once named the release."""
    home = cluster.namespace
    if cluster.scope == home and not cluster.sought and await cluster.expected_roles():
        text = f"-n {home} is about the objects in the namespace of Berth: --berth-namespace {home} names the release"
        print(f"note: {text}", file=sys.stderr)


async def _check_namespace(client: KubeClient, name: str) -> None:
    """Raises UsageError for a namespace that is not there: of a wrong name, all would be well for ever."""
    from app.kube.resources import NAMESPACES  # noqa: PLC0415
    from app.kube.retry import get_or_none  # noqa: PLC0415

    try:
        found = await get_or_none(client, NAMESPACES, name)
    except ApiError as error:
        if error.status != 403:
            raise
        return
    if found is None:
        raise UsageError(f"--namespace: there is no namespace {name} in the cluster ({client.source})")


def answered(examination: Coroutine[Any, Any, T]) -> T:
    """What the examination of a cluster returns. Raises UsageError for what stays wrong until it is changed."""
    try:
        return asyncio.run(examination)
    except Terminal as error:
        raise UsageError(str(error)) from error
