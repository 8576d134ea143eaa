"""Counts what quotas bound, and writes it into their statuses: a real API server enforces no quota without that.

It counts a quota when its bounds change, and all of them from time to time: the API server itself counts up.
"""

from __future__ import annotations

from app.devtools.sandbox.kinds.quotas import counted, counted_resources, hard
from app.devtools.sandbox.standins.catalog import deletable_resources, every_object
from app.devtools.sandbox.standins.reconciling import reconciling
from app.kube.client import KubeClient
from app.kube.resources import RESOURCE_QUOTAS
from app.kube.store import Key, Store
from app.wire import JSON

_RESYNC = 60.0


class QuotaCounter:
    """`quotas` holds whole ResourceQuota objects; they only say when to look."""

    def __init__(self, client: KubeClient, quotas: Store[JSON]) -> None:
        self._client = client
        self.controller = reconciling(
            "quotas", self._reconcile, quotas, wakes=_is_not_counted, workers=1, resync=_RESYNC
        )

    async def _reconcile(self, key: Key) -> None:
        namespace, name = key
        # Read before its objects: one that is created meanwhile changes the quota, and the status is refused.
        quota = await self._client.get(RESOURCE_QUOTAS, name, namespace=namespace)
        wanted = counted_resources(quota)
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
