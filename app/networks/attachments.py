"""Finds attachments: in the cache, else with one live GET. The only module of this wing that calls the API server.

Callers have validated namespace and name. Waiters for one attachment share one GET; nothing is remembered of a
miss, so that an attachment counts from the moment it exists.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Protocol

from app.errors import ApiError, Transient
from app.kube.client import KubeClient
from app.kube.resources import NETWORK_ATTACHMENTS
from app.networks.model import Attachment, project

GET_TIMEOUT = 5.0
"""Seconds for one live GET; below the deadline of a review, so that the answer can still name what was missing."""


class AttachmentStore(Protocol):
    """The cache as this wing sees it."""

    def get(self, namespace: str, name: str) -> Attachment | None: ...


class Attachments:
    """Attachments by namespace and name. Without a client (manifests) what is not cached does not exist."""

    def __init__(
        self,
        store: AttachmentStore,
        *,
        client: Callable[[], KubeClient | None],
        resource_name_keys: Sequence[str],
        get_timeout: float = GET_TIMEOUT,
    ) -> None:
        self.cached = store.get
        self._client = client
        self._keys = tuple(resource_name_keys)
        self._get_timeout = get_timeout
        self._flights: dict[tuple[str, str], asyncio.Task[Attachment | Transient | None]] = {}

    async def find(self, namespace: str, name: str) -> Attachment | None:
        """The attachment, or None where there is none. Raises Transient where that cannot be told."""
        found = self.cached(namespace, name)
        if found is not None:
            return found
        client = self._client()
        if client is None:
            return None
        key = (namespace, name)
        flight = self._flights.get(key)
        if flight is None:
            flight = asyncio.create_task(self._get(client, namespace, name))
            self._flights[key] = flight
            flight.add_done_callback(lambda _: self._flights.pop(key, None))
        # A waiter whose deadline passes must not take the others' GET with it.
        outcome = await asyncio.shield(flight)
        if isinstance(outcome, Transient):
            raise Transient(str(outcome), delay=outcome.delay)
        return outcome

    async def _get(self, client: KubeClient, namespace: str, name: str) -> Attachment | Transient | None:
        """The outcome of one GET. Faults are returned, not raised: there may be no waiter left to retrieve them."""
        where = f"network attachment definition '{namespace}/{name}'"
        try:
            async with asyncio.timeout(self._get_timeout):
                obj = await client.get(NETWORK_ATTACHMENTS, name, namespace=namespace)
        except ApiError as error:
            if error.not_found:
                return None
            return Transient(f"could not read {where}: {error}", delay=error.delay)
        except Transient as error:
            return Transient(f"could not read {where}: {error}", delay=error.delay)
        except TimeoutError:
            return Transient(f"could not read {where}: no answer within {self._get_timeout:g} s")
        return project(obj, self._keys)
