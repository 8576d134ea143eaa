"""Keeps a store equal to one object by repeated GETs, for a role that may get the object and may not list it.

It runs beside a reflector of the same store and polls only while the API server refuses the reflector. Once the
reflector may list, only the reflector writes to the store.
"""

from __future__ import annotations

import asyncio

import structlog

from app.errors import ApiError
from app.kube.client import KubeClient
from app.kube.reflector import Reflector
from app.kube.store import PoisonError

log = structlog.get_logger(__name__)

INTERVAL = 5.0
"""Seconds between two looks."""
_WAITING = 0.5


class Poller:
    """Feeds the reflector's store with the object `namespace`/`name` alone.

    `healthy` is True while the reflector is refused and we are not: then the store holds what the last look found,
    which is nothing where there is no such object. A passing fault leaves that as it is.
    """

    def __init__(
        self, client: KubeClient, reflector: Reflector, *, namespace: str, name: str, interval: float = INTERVAL
    ) -> None:
        self._client = client
        self._reflector = reflector
        self._namespace = namespace
        self._name = name
        self._interval = interval
        self._allowed = False

    @property
    def healthy(self) -> bool:
        return self._reflector.refused and self._allowed

    async def run(self) -> None:
        """Runs until cancelled."""
        while True:
            if self._reflector.refused:
                await self._look()
                await asyncio.sleep(self._interval)
            else:
                self._allowed = False
                await asyncio.sleep(min(_WAITING, self._interval))

    async def _look(self) -> None:
        resource, store = self._reflector.resource, self._reflector.store
        heard = store.last_contact
        try:
            found = [await self._client.get(resource, self._name, namespace=self._namespace)]
        except ApiError as error:
            if not error.not_found:
                self._allowed = self._allowed and error.status not in (401, 403)
                log.info("poll failed", kind=resource.kind, name=self._name, error=str(error))
                return
            found = []
        if store.last_contact != heard:
            # The reflector was let in meanwhile, and what it holds may be newer than our answer.
            return
        store.touch()
        try:
            store.replace_all(found)
        except PoisonError as error:
            log.warning("object skipped", kind=resource.kind, error=str(error))
        store.mark_synced()
        if not self._allowed:
            log.warning("may neither list nor watch; polling", kind=resource.kind, name=self._name)
        self._allowed = True
