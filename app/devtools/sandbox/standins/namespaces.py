"""What is done for whole namespaces: a deleted one is emptied and let go; others get an account and counted quotas.

Lists the API server itself and not a cache, for here "empty" must be true. Needs no knowledge of kinds.
"""

from __future__ import annotations

from app.devtools.sandbox.kinds.quotas import bounded_resources, counted, hard
from app.devtools.sandbox.standins.catalog import deletable_resources, every_object
from app.devtools.sandbox.standins.reconciling import Watched, delete, reconciling
from app.kube.client import KubeClient
from app.kube.resources import NAMESPACES, RESOURCE_QUOTAS, SERVICE_ACCOUNTS
from app.kube.store import Key
from app.wire import JSON

_AGAIN = 0.3
_RESYNC = 60.0
_ACCOUNT = "default"


class NamespaceCollector:
    """Deletes what is in a namespace that ends."""

    def __init__(self, client: KubeClient, watched: Watched) -> None:
        self._client = client
        self._namespaces = watched.store(NAMESPACES)
        self.controller = reconciling("namespaces", self._reconcile, self._namespaces, workers=1)

    async def _reconcile(self, key: Key) -> float | None:
        namespace = self._namespaces.get(*key)
        if namespace is None or not namespace["metadata"].get("deletionTimestamp"):
            return None
        finalizers = (namespace.get("spec") or {}).get("finalizers", [])
        if "kubernetes" not in finalizers:
            return None
        if await self._delete_all(key[1]):
            return _AGAIN
        # With the last finalizer the API server lets the namespace go.
        kept = [one for one in finalizers if one != "kubernetes"]
        body = {**namespace, "spec": {**namespace["spec"], "finalizers": kept}}
        await self._client.replace(NAMESPACES, key[1], body, subresource="finalize")
        return None

    async def _delete_all(self, namespace: str) -> int:
        """Deletes what is there; the answer is how many objects there were, also those already on their way out."""
        count = 0
        for resource in await deletable_resources(self._client):
            if resource.namespaced:
                async for item in every_object(self._client, resource, namespace):
                    count += 1
                    if not item["metadata"].get("deletionTimestamp"):
                        await delete(self._client, resource, item)
        return count


class DefaultAccount:
    """Makes the ServiceAccount `default` of each namespace: `kubectl create token default` needs one."""

    def __init__(self, client: KubeClient, watched: Watched) -> None:
        self._client = client
        self._namespaces, self._accounts = watched.store(NAMESPACES), watched.store(SERVICE_ACCOUNTS)
        self.controller = reconciling(
            "default-accounts", self._reconcile, self._namespaces, self._accounts, wakes=_lasts, workers=1
        )
        self._accounts.subscribe(lambda _event, key, _old, _new: self.controller.enqueue(("", key[0])))

    async def _reconcile(self, key: Key) -> None:
        name = key[1]
        if _lasts(self._namespaces.get(*key)) and self._accounts.get(name, _ACCOUNT) is None:
            await self._client.create(SERVICE_ACCOUNTS, SERVICE_ACCOUNTS.body({"name": _ACCOUNT}), namespace=name)


def _lasts(namespace: JSON | None) -> bool:
    return namespace is not None and not namespace["metadata"].get("deletionTimestamp")


class QuotaCounter:
    """Counts what quotas bound, and writes it into their statuses: a real API server enforces no quota without that.

    It counts a quota when its bounds change, and all of them from time to time: the API server itself counts up.
    """

    def __init__(self, client: KubeClient, watched: Watched) -> None:
        self._client = client
        quotas = watched.store(RESOURCE_QUOTAS)  # only says when to look
        self.controller = reconciling(
            "quotas", self._reconcile, quotas, wakes=_is_not_counted, workers=1, resync=_RESYNC
        )

    async def _reconcile(self, key: Key) -> None:
        namespace, name = key
        # Read before its objects: one that is created meanwhile changes the quota, and the status is refused.
        quota = await self._client.get(RESOURCE_QUOTAS, name, namespace=namespace)
        wanted = bounded_resources(quota)
        objects = {
            (one.group, one.plural): [
                {**item, "kind": one.kind} async for item in every_object(self._client, one, namespace)
            ]
            for one in await deletable_resources(self._client)
            if (one.group, one.plural) in wanted
        }
        status = counted(quota, objects)
        if status != quota.get("status"):
            body = {**quota, "status": status}
            await self._client.replace(RESOURCE_QUOTAS, name, body, namespace=namespace, subresource="status")


def _is_not_counted(quota: JSON | None) -> bool:
    return quota is not None and hard(quota) != (quota["spec"].get("hard") or {})
