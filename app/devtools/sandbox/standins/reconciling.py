"""How stand-ins follow the objects of a cluster and reconcile them."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable

from app.errors import ApiError
from app.kube.client import KubeClient
from app.kube.controller import Controller, Done, RequeueAfter, Result
from app.kube.reflector import Reflector, Scope
from app.kube.resources import Resource, controller_of
from app.kube.store import EventType, Key, Store
from app.wire import JSON

_SOON = 0.2


class Watched:
    """Caches of whole objects, managed fields left out: one for each kind that is asked for before `run`."""

    def __init__(self, client: KubeClient) -> None:
        self._client = client
        self._stores: dict[Resource, Store[JSON]] = {}

    def store(self, resource: Resource) -> Store[JSON]:
        return self._stores.setdefault(resource, Store(_without_managed_fields))

    async def run(self) -> None:
        """Runs until cancelled; faults of the API server are waited out."""
        async with asyncio.TaskGroup() as group:
            for resource, store in self._stores.items():
                group.create_task(Reflector(self._client, Scope(resource), store).run())


def _without_managed_fields(obj: JSON) -> JSON:
    return {**obj, "metadata": {name: value for name, value in obj["metadata"].items() if name != "managedFields"}}


def reconciling(
    name: str,
    reconcile: Callable[[Key], Awaitable[float | None]],
    *stores: Store[JSON],
    keys: Callable[[], Iterable[Key]] | None = None,
    owned: Store[JSON] | None = None,
    kind: str = "",
    wakes: Callable[[JSON | None], bool] = lambda _new: True,
    workers: int = 2,
    resync: float = 600.0,
) -> Controller[Key]:
    """A controller of the objects in the first store, or of `keys`.

    A change enqueues an object if `wakes` is true of its new state, which is None after its deletion. A change of an
    object in `owned` enqueues the one of this kind that controls it.

    `reconcile` returns the seconds after which it is called again, None for no further call. It is not called again for
    an object that the API server does not find. After a conflict it is called again as soon as the cache has what
    another client wrote.
    """

    async def once(key: Key) -> Result:
        try:
            seconds = await reconcile(key)
        except ApiError as error:
            if not (error.conflict or error.not_found):
                raise
            seconds = _SOON if error.conflict else None
        return Done() if seconds is None else RequeueAfter(seconds)

    controller: Controller[Key] = Controller(
        name, once, stores=stores, keys=keys or stores[0].keys, workers=workers, resync=resync
    )

    def changed(_event: EventType, key: Key, _old: JSON | None, new: JSON | None) -> None:
        if wakes(new):
            controller.enqueue(key)

    def owned_changed(_event: EventType, _key: Key, old: JSON | None, new: JSON | None) -> None:
        metadata: JSON = (new or old or {}).get("metadata") or {}
        owner = controller_of(metadata)
        if owner.get("kind") == kind:
            controller.enqueue((metadata["namespace"], owner["name"]))

    stores[0].subscribe(changed)
    if owned is not None:
        owned.subscribe(owned_changed)
    return controller


async def delete(client: KubeClient, resource: Resource, obj: JSON) -> None:
    """Ask for the end of this very object and its dependents; one that is gone already is no fault."""
    metadata = obj["metadata"]
    place = {"namespace": metadata.get("namespace"), "uid": metadata["uid"]}
    try:
        await client.delete(resource, metadata["name"], **place, propagation_policy="Background")
    except ApiError as error:
        if not (error.not_found or error.conflict):
            raise


async def write_status(
    client: KubeClient, resource: Resource, obj: JSON, status: JSON, *, version: str | None = None
) -> JSON | None:
    """Write what differs from the status that the object has; None where nothing does. A field of None is removed.

    With a `version`, the API server answers with a conflict where the object has another one.
    """
    before, metadata = obj.get("status") or {}, obj["metadata"]
    changed = {name: value for name, value in status.items() if before.get(name) != value}
    if not changed:
        return None
    return await client.patch(
        resource,
        metadata["name"],
        {"metadata": {"uid": metadata["uid"]}, "status": changed},
        patch_type="merge",
        namespace=metadata.get("namespace"),
        subresource="status",
        version=version,
    )
