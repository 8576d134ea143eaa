"""Finds the tenant of a namespace: in the cache, else with one GET. Nothing else of `placement` makes requests."""

from __future__ import annotations

from app.errors import Transient
from app.kube.lookup import Lookup


class Namespaces:
    """The tenants of namespaces. Never guesses: a namespace that cannot be read does not count as one without."""

    def __init__(self, lookup: Lookup[str]) -> None:
        self._lookup = lookup

    def cached(self, namespace: str) -> str | None:
        """The tenant, "" for a namespace of no tenant, None where the cache does not have the namespace."""
        return self._lookup.cached("", namespace)

    async def find(self, namespace: str) -> str:
        """As `cached`, but reads what the cache lacks. Raises Transient where that cannot be told.

        A namespace that does not exist is such a case: a Pod is being created in it, so the read came too early.
        """
        tenant = await self._lookup.find("", namespace)
        if tenant is None:
            why = "it was not found" if self._lookup.connected else "there is no connection to the cluster yet"
            raise Transient(f"could not read namespace {namespace}: {why}")
        return tenant
