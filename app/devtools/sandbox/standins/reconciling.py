"""How stand-ins reconcile the objects of a store."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from app.errors import ApiError
from app.kube.controller import Controller, Done, RequeueAfter, Result
from app.kube.store import EventType, Key, Store
from app.wire import JSON

_SOON = 0.2


def reconciling(
    name: str,
    reconcile: Callable[[Key], Awaitable[float | None]],
    *stores: Store[JSON],
    wakes: Callable[[JSON | None], bool] = lambda _new: True,
    workers: int = 2,
    resync: float = 600.0,
) -> Controller[Key]:
    """A controller of the objects in the first store. A change enqueues an object if `wakes` is true of its new state.

    The new state of a deleted object is None. `reconcile` returns the seconds after which it is called again, None for
    no further call. It is not called again for an object that the API server does not find. After a conflict it is
    called again as soon as the cache has what another client wrote.
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
        name, once, stores=stores, keys=stores[0].keys, workers=workers, resync=resync
    )

    def changed(_event: EventType, key: Key, _old: JSON | None, new: JSON | None) -> None:
        if wakes(new):
            controller.enqueue(key)

    stores[0].subscribe(changed)
    return controller
