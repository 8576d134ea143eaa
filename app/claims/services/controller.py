"""The controller `network-services`: Services with the annotation in, EndpointSlices and Events out.

All state is in the cluster. A Service is one key: however many of its Pods change, it is looked at once.

A network status is an annotation. So the right to write annotations of a Pod is the right to send traffic for the
Services that select it to any address that an API server takes in an EndpointSlice.
"""

from __future__ import annotations

import asyncio
from collections.abc import Container, Sequence

from app.claims.services import metrics
from app.claims.services.addresses import Range
from app.claims.services.caches import Caches
from app.claims.services.saying import Saying
from app.claims.services.syncing import ServiceSync
from app.claims.services.waking import Waking
from app.kube.client import KubeClient
from app.kube.controller import Controller
from app.kube.events import EventRecorder
from app.kube.running import start
from app.kube.store import Key
from app.networks.model import RESOURCE_NAME

NAME = "network-services"


class ServicesController:
    """`run` it while this process leads; it runs once. `resync` is in seconds.

    `keys` are the annotations that name the resource of an attachment; `home` is the namespace of default networks.
    `unconfined` and `excluded` are as of `Caches`.
    """

    def __init__(
        self,
        client: KubeClient,
        *,
        workers: int = 16,
        resync: float | None = 600.0,
        events: EventRecorder | None = None,
        keys: Sequence[str] = (RESOURCE_NAME,),
        home: str = "kube-system",
        unconfined: Container[str] = (),
        excluded: tuple[Range, ...] = (),
    ) -> None:
        self._caches = caches = Caches(client, keys=keys, home=home, unconfined=unconfined, excluded=excluded)
        self._controller: Controller[Key] = Controller(
            NAME,
            ServiceSync(client, caches, Saying(events)).reconcile,
            stores=caches.stores,
            keys=caches.keys,
            workers=workers,
            resync=resync,
        )
        Waking(caches, self._controller.enqueue)

    async def run(self) -> None:
        """Until cancelled; what is under way then gets a few seconds to end."""
        metrics.create_series()
        try:
            async with asyncio.TaskGroup() as group:
                start(group, self._caches.reflectors, (self._controller,))
        finally:
            metrics.forget_all()

    def waiting(self) -> list[str]:
        """What readiness waits for, one line each."""
        return self._caches.waiting()
