"""Finds what a wing keeps of a namespace: in the cache, else with one GET."""

from __future__ import annotations

from typing import Generic, TypeVar

from app.errors import Transient
from app.kube.lookup import Lookup

T = TypeVar("T")


class Namespaces(Generic[T]):
    """Namespaces as a lookup shows them. Never guesses: one that cannot be read is an error."""

    def __init__(self, lookup: Lookup[T]) -> None:
        self._lookup = lookup

    def cached(self, namespace: str) -> T | None:
        """None where the cache does not have the namespace."""
        return self._lookup.cached("", namespace)

    async def find(self, namespace: str) -> T:
        """As `cached`, but reads what the cache lacks. Raises Transient where that fails.

        A namespace that does not exist is such a case: a Pod is being created in it, so the read came too early.
        """
        found = await self._lookup.find("", namespace)
        if found is None:
            why = "it was not found" if self._lookup.connected else "there is no connection to the cluster yet"
            raise Transient(f"could not read namespace {namespace}: {why}")
        return found
