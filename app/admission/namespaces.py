"""Finds what a wing keeps of a namespace: in the cache, else with one GET."""

from __future__ import annotations

from typing import Generic, TypeVar

from app.errors import Denied, Transient
from app.kube.lookup import Lookup

T = TypeVar("T")


class Namespaces(Generic[T]):
    """Namespaces as a lookup shows them. Never guesses: one that cannot be read or is missing is an error."""

    def __init__(self, lookup: Lookup[T]) -> None:
        self._lookup = lookup

    def cached(self, namespace: str) -> T | None:
        """None where the cache does not have the namespace."""
        return self._lookup.cached("", namespace)

    async def find(self, namespace: str) -> T:
        """As `cached`, but reads what the cache lacks. Raises Transient where that fails, Denied where there is none.

        The GET is not answered from a cache of the API server, and the server looks the namespace up before it asks a
        webhook. So a namespace that is not found is gone, as for the server's own plugin NamespaceLifecycle.
        """
        found = await self._lookup.find("", namespace)
        if found is not None:
            return found
        if not self._lookup.connected:
            raise Transient(f"could not read namespace {namespace}: there is no connection to the cluster yet")
        raise Denied(
            f"metadata.namespace: namespace {namespace} was not found; create it first, or name one that exists",
            reason="NamespaceNotFound",
            code=404,
        )
