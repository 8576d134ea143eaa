"""Counts what quotas bound, and writes it into their statuses: a real API server enforces no quota without that.

It counts a quota when its bounds change, and all of them from time to time: the API server itself counts up.
"""

from __future__ import annotations

from app.devtools.sandbox.kinds.quotas import counted, counted_resources, hard
from app.devtools.sandbox.standins.catalog import deletable_resources
from app.errors import ApiError
from app.kube.client import KubeClient
from app.kube.controller import Controller, Done, Result
from app.kube.resources import RESOURCE_QUOTAS, Resource
from app.kube.retry import every_item, get_or_none
from app.kube.store import EventType, Key, Store
from app.wire import JSON

_RESYNC = 60.0


class QuotaCounter:
    """`quotas` holds whole ResourceQuota objects; they only say when to look."""

    def __init__(self, client: KubeClient, quotas: Store[JSON]) -> None:
        self._client = client
        self.controller: Controller[Key] = Controller(
            "quotas", self._reconcile, stores=[quotas], keys=quotas.keys, resync=_RESYNC, workers=1
        )
        quotas.subscribe(self._changed)

    def _changed(self, _: EventType, key: Key, __: JSON | None, new: JSON | None) -> None:
        if new is not None and hard(new) != (new["spec"].get("hard") or {}):
            self.controller.enqueue(key)

    async def _reconcile(self, key: Key) -> Result:
        namespace, name = key
        # Read before its objects: one that is created meanwhile changes the quota, and the status is refused.
        quota = await get_or_none(self._client, RESOURCE_QUOTAS, name, namespace=namespace)
        if quota is None:
            return Done()
        wanted = counted_resources(quota)
        served = [one for one in await deletable_resources(self._client) if (one.group, one.plural) in wanted]
        objects = {(one.group, one.plural): await _all(self._client, one, namespace) for one in served}
        status = counted(quota, objects)
        if status != quota.get("status"):
            try:
                await self._client.replace(
                    RESOURCE_QUOTAS, name, {**quota, "status": status}, namespace=namespace, subresource="status"
                )
            except ApiError as error:
                if not error.not_found:
                    raise
        return Done()


async def _all(client: KubeClient, resource: Resource, namespace: str) -> list[JSON]:
    """Every object of a kind in the namespace. Items of lists do not say their kind."""
    items = every_item(lambda token: client.list_page(resource, namespace=namespace, continue_token=token))
    return [{**item, "kind": resource.kind} async for item in items]
