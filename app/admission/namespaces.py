"""Finds what a wing keeps of a namespace: in the cache, else with one GET."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar

from app.errors import Transient
from app.kube.client import KubeClient
from app.kube.lookup import GET_TIMEOUT, Lookup
from app.kube.resources import NAMESPACES
from app.kube.store import Store
from app.wire import JSON

T = TypeVar("T")


class Namespaces(Generic[T]):
    """Namespaces as `project` shows them. Never guesses: one that cannot be read is an error."""

    def __init__(
        self,
        store: Store[T],
        project: Callable[[JSON], T],
        *,
        client: Callable[[], KubeClient | None],
        get_timeout: float = GET_TIMEOUT,
    ) -> None:
        self._client = client
        self._lookup = Lookup(NAMESPACES, store, project, client=client, called="namespace", timeout=get_timeout)

    def cached(self, namespace: str) -> T | None:
        """None where the cache does not have the namespace."""
        return self._lookup.cached("", namespace)

    async def find(self, namespace: str) -> T:
        """As `cached`, but reads what the cache lacks. Raises Transient where that fails.

        A namespace that does not exist is such a case: a Pod is being created in it, so the read came too early.
        """
        found = await self._lookup.find("", namespace)
        if found is None:
            why = "it was not found" if self._client() else "there is no connection to the cluster yet"
            raise Transient(f"could not read namespace {namespace}: {why}")
        return found
