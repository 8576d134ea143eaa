"""Finds the tenant of a namespace: in the cache, else with one GET. No other module of `placement` makes requests.

Never guesses: a namespace that cannot be read does not count as one without a tenant. Waiters for one namespace share
one GET. Its result is not stored, because the cache follows the label.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Protocol

from app.errors import Transient
from app.kube.client import KubeClient
from app.kube.resources import NAMESPACES
from app.placement.model import TENANT_LABEL, TENANT_NAMESPACE_PREFIX
from app.wire import JSON

GET_TIMEOUT = 5.0
"""Seconds for one live GET; below the deadline of a review, so that the answer can still say what was missing."""


class NamespaceStore(Protocol):
    """The cache as this wing sees it: the projections of `tenant_of`, under ("", name)."""

    def get(self, namespace: str, name: str) -> str | None: ...


def tenant_of(obj: JSON) -> str:
    """What the cache keeps of a Namespace: its tenant, "" for a namespace of no tenant.

    Without the label, the `tenant-` prefix of the name decides.
    """
    labels = obj["metadata"].get("labels")
    labeled = labels.get(TENANT_LABEL) if isinstance(labels, dict) else None
    if labeled:
        return str(labeled)
    name = str(obj["metadata"].get("name") or "")
    return name.removeprefix(TENANT_NAMESPACE_PREFIX) if name.startswith(TENANT_NAMESPACE_PREFIX) else ""


class Namespaces:
    """The tenants of namespaces."""

    def __init__(
        self,
        store: NamespaceStore,
        *,
        client: Callable[[], KubeClient | None],
        get_timeout: float = GET_TIMEOUT,
    ) -> None:
        self._store = store
        self._client = client
        self._get_timeout = get_timeout
        self._flights: dict[str, asyncio.Task[str | Transient]] = {}

    def cached(self, namespace: str) -> str | None:
        """The tenant, "" for a namespace of no tenant, None where the cache does not have the namespace."""
        return self._store.get("", namespace)

    async def find(self, namespace: str) -> str:
        """As `cached`, but reads what the cache lacks. Raises Transient where that cannot be told.

        A namespace that does not exist is such a case: a Pod is being created in it, so the read came too early.
        """
        found = self.cached(namespace)
        if found is not None:
            return found
        client = self._client()
        if client is None:
            raise Transient(f"could not read namespace {namespace}: there is no connection to the cluster yet")
        flight = self._flights.get(namespace)
        if flight is None:
            flight = asyncio.create_task(self._get(client, namespace))
            self._flights[namespace] = flight
            flight.add_done_callback(lambda _: self._flights.pop(namespace, None))
        # A waiter whose deadline passes must not take the others' GET with it.
        outcome = await asyncio.shield(flight)
        if isinstance(outcome, Transient):
            raise Transient(str(outcome), delay=outcome.delay)
        return outcome

    async def _get(self, client: KubeClient, namespace: str) -> str | Transient:
        """The outcome of one GET. Faults are returned, not raised: there may be no waiter left to retrieve them."""
        try:
            async with asyncio.timeout(self._get_timeout):
                return tenant_of(await client.get(NAMESPACES, namespace))
        except Transient as error:
            return Transient(f"could not read namespace {namespace}: {error}", delay=error.delay)
        except TimeoutError:
            return Transient(f"could not read namespace {namespace}: no answer within {self._get_timeout:g} s")
