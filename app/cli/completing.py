"""What the shell offers for a word: names that Berth knows, and names out of the cluster of the command line.

Where nothing is offered, the shell offers files. A cluster that cannot be read in time is no error: nothing is offered.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from typing import TYPE_CHECKING

import typer

from app.errors import UsageError

if TYPE_CHECKING:
    from app.kube.client import KubeClient

SECONDS = 2.0
"""For the whole of what a cluster is asked."""
_MOST = 500
"""Names that are offered."""
Completion = Callable[[str], list[str]]


def among(words: Iterable[str]) -> Completion:
    """Offers those of the words that begin as what is typed."""
    choices = tuple(words)
    return lambda incomplete: _beginning(choices, incomplete)


def checks(incomplete: str) -> list[str]:
    """The checks of the doctor."""
    from app.doctor.examining import CHECKS  # noqa: PLC0415  not needed where nothing is completed

    return _beginning((check.name for check in CHECKS), incomplete)


def codes(incomplete: str) -> list[str]:
    """The codes of the doctor's findings."""
    from app.doctor.catalog import FINDINGS  # noqa: PLC0415  as above

    return _beginning(FINDINGS, incomplete.upper())


def objects(context: typer.Context, incomplete: str) -> list[str]:
    """KIND/ of the kinds that can be asked about; names of those that are there, where the kind is typed."""
    from app.why.inquiry import JUDGES  # noqa: PLC0415  as above
    from app.why.kinds import resources_of  # noqa: PLC0415

    kind, slash, _ = incomplete.partition("/")
    if not slash:
        return _beginning(sorted({f"{resource.kind.lower()}/" for resource in JUDGES}), incomplete)
    try:
        resource = resources_of(kind, JUDGES)[0]
    except UsageError:
        return []

    async def names(client: KubeClient) -> list[str]:
        namespace = (context.params.get("namespace") or client.default_namespace) if resource.namespaced else None
        page = await client.list_page(resource, namespace=namespace, limit=_MOST)
        return [f"{kind}/{obj['metadata']['name']}" for obj in page.items]

    return _beginning(_ask(context, names), incomplete)


def namespaces(context: typer.Context, incomplete: str) -> list[str]:
    """The namespaces of the cluster."""

    async def names(client: KubeClient) -> list[str]:
        from app.kube.resources import NAMESPACES  # noqa: PLC0415  as above

        page = await client.list_page(NAMESPACES, limit=_MOST)
        return [obj["metadata"]["name"] for obj in page.items]

    return _beginning(_ask(context, names), incomplete)


def contexts(context: typer.Context, incomplete: str) -> list[str]:
    """The contexts of the kubeconfig; no cluster is asked."""
    from app.kube.credentials import context_names  # noqa: PLC0415  as above

    try:
        return _beginning(context_names(context.params.get("kubeconfig")), incomplete)
    except Exception:  # noqa: BLE001  as in `_ask`
        return []


def tenants(context: typer.Context, incomplete: str) -> list[str]:
    """The tenants of the cluster."""

    async def names(client: KubeClient) -> list[str]:
        from app.tenancy.tenants.changes import list_tenants  # noqa: PLC0415  as above

        return [tenant["metadata"]["name"] for tenant in await list_tenants(client)]

    return _beginning(_ask(context, names), incomplete)


def hosts(context: typer.Context, incomplete: str) -> list[str]:
    """The hosts of the tenant that the command line names, without those that are typed already."""

    async def names(client: KubeClient) -> list[str]:
        from app.tenancy.tenants.changes import existing_tenant  # noqa: PLC0415  as above

        tenant = await existing_tenant(client, str(context.params["name"]))
        typed = context.params.get("hosts") or ()
        return [host for host in tenant["spec"].get("hosts") or () if host not in typed]

    return _beginning(_ask(context, names), incomplete)


def _beginning(words: Iterable[str], incomplete: str) -> list[str]:
    return [word for word in words if word.startswith(incomplete)]


def _ask(context: typer.Context, work: Callable[[KubeClient], Awaitable[list[str]]]) -> list[str]:
    async def run() -> list[str]:
        from app.kube.transport import connect  # noqa: PLC0415  as above

        async with asyncio.timeout(SECONDS):
            kubeconfig, name = context.params.get("kubeconfig"), context.params.get("context")
            async with await connect(kubeconfig=kubeconfig, context=name, deadline=SECONDS) as client:
                return await work(client)

    try:
        return asyncio.run(run())
    except Exception:  # noqa: BLE001  a message would be printed into the command line that is being typed
        return []
