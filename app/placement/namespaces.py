"""Finds the tenant of a namespace: in the cache, else with one GET. Nothing else of `placement` makes requests."""

from __future__ import annotations

from collections.abc import Callable

from app.errors import Transient
from app.kube.client import KubeClient
from app.kube.lookup import GET_TIMEOUT, Lookup
from app.kube.resources import NAMESPACES
from app.kube.store import Store
from app.placement.model import TENANT_LABEL, TENANT_NAMESPACE_PREFIX
from app.wire import JSON


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
    """The tenants of namespaces. Never guesses: a namespace that cannot be read does not count as one without."""

    def __init__(
        self, store: Store[str], *, client: Callable[[], KubeClient | None], get_timeout: float = GET_TIMEOUT
    ) -> None:
        self._client = client
        self._lookup = Lookup(NAMESPACES, store, tenant_of, client=client, called="namespace", timeout=get_timeout)

    def cached(self, namespace: str) -> str | None:
        """The tenant, "" for a namespace of no tenant, None where the cache does not have the namespace."""
        return self._lookup.cached("", namespace)

    async def find(self, namespace: str) -> str:
        """As `cached`, but reads what the cache lacks. Raises Transient where that cannot be told.

        A namespace that does not exist is such a case: a Pod is being created in it, so the read came too early.
        """
        tenant = await self._lookup.find("", namespace)
        if tenant is None:
            why = "it was not found" if self._client() else "there is no connection to the cluster yet"
            raise Transient(f"could not read namespace {namespace}: {why}")
        return tenant
