"""What the checks share: the client, where Berth is looked for, and reads that are done once for all of them.

Nothing here judges. Reads are kept for the run, errors too: checks run at the same time, and ask for the same.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Hashable
from contextlib import AbstractAsyncContextManager
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, TypeVar

from app.errors import ApiError
from app.kube.resources import Resource
from app.kube.retry import every_item
from app.wire import JSON

if TYPE_CHECKING:
    from app.kube.transport import AioKubeClient

Impersonating = Callable[[str, tuple[str, ...]], AbstractAsyncContextManager["AioKubeClient"]]
"""A client that acts as this user in these groups."""
PAGE = 500
T = TypeVar("T")


class Cluster:
    """`namespace` and `release` are those of Berth; `roles` those that the user expects here (empty: as installed)."""

    def __init__(
        self,
        client: AioKubeClient,
        *,
        namespace: str,
        release: str = "berth",
        roles: frozenset[str] = frozenset(),
        impersonating: Impersonating,
        clock: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self.client = client
        self.namespace = namespace
        self.release = release
        self.roles = roles
        self.impersonating = impersonating
        """`async with cluster.impersonating(user, groups) as client:`; refusals come with the first request (403)."""
        self.now = clock
        self._kept: dict[Hashable, asyncio.Task[Any]] = {}

    async def get(self, resource: Resource, name: str, *, namespace: str | None = None) -> JSON | None:
        """The object, None where there is none; asked once. Raises ApiError for every other answer."""
        return await self.once(
            ("get", resource, namespace, name), lambda: self._get(resource, name, namespace=namespace)
        )

    async def listed(
        self, resource: Resource, *, namespace: str | None = None, label_selector: str = ""
    ) -> list[JSON] | None:
        """All of few objects, None where the API server does not know the kind; asked once.

        Kinds of which there are many (Pods) are read with `paged`.
        """
        return await self.once(
            ("list", resource, namespace, label_selector),
            lambda: self._list(resource, namespace=namespace, label_selector=label_selector),
        )

    def paged(
        self, resource: Resource, *, namespace: str | None = None, label_selector: str = "", field_selector: str = ""
    ) -> AsyncIterator[JSON]:
        """One object after the other, a page in memory at a time; not kept. An unknown kind raises ApiError (404)."""
        return every_item(
            lambda token: self.client.list_page(
                resource,
                namespace=namespace,
                label_selector=label_selector,
                field_selector=field_selector,
                limit=PAGE,
                continue_token=token,
            )
        )

    async def once(self, key: Hashable, work: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """The result of `work`, or its error. All callers with the same key share it."""
        if key not in self._kept:
            self._kept[key] = asyncio.create_task(work())
        kept: Awaitable[T] = asyncio.shield(self._kept[key])
        return await kept

    async def close(self) -> None:
        """Cancel the reads that are still running."""
        for task in self._kept.values():
            task.cancel()
        await asyncio.gather(*self._kept.values(), return_exceptions=True)

    async def _get(self, resource: Resource, name: str, *, namespace: str | None) -> JSON | None:
        try:
            return await self.client.get(resource, name, namespace=namespace)
        except ApiError as error:
            if error.not_found:
                return None
            raise

    async def _list(self, resource: Resource, *, namespace: str | None, label_selector: str) -> list[JSON] | None:
        try:
            return [item async for item in self.paged(resource, namespace=namespace, label_selector=label_selector)]
        except ApiError as error:
            if error.not_found:
                return None
            raise
