"""Lists for callers: read from the API server page by page, and no larger than one message may be."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from typing import TypeVar

from google.protobuf.message import Message

from app.kube.client import Page
from app.kube.resources import Resource
from app.kube.retry import every_item
from app.kube.turns import Turns
from app.tenancy.gateway.backend import Backend
from app.tenancy.gateway.failures import Code, Refused
from app.wire import JSON

M = TypeVar("M", bound=Message)
_PAGE = 25
"""Objects that are read at a time: each may have a megabyte and more."""
_AT_ONCE = 4
"""Lists of all tenants together; one of each."""


class Lists:
    """Those of one service."""

    def __init__(self, backend: Backend) -> None:
        self._client = backend.client
        self._turns = backend.turns
        self._limit = backend.limits.message_bytes
        self._lists = Turns(total=_AT_ONCE, each=1)

    def objects(self, resource: Resource, *, namespace: str, selector: str = "") -> AsyncIterator[JSON]:
        """All objects of a namespace, as many as there are."""

        async def page(token: str) -> Page:
            async with self._turns.of(namespace):
                return await self._client.list_page(
                    resource, namespace=namespace, label_selector=selector, limit=_PAGE, continue_token=token
                )

        return every_item(page)

    async def messages(
        self, resource: Resource, make: Callable[[JSON], M], *, namespace: str, selector: str = "", hint: str = ""
    ) -> list[M]:
        """What `make` makes of each object. RESOURCE_EXHAUSTED with the `hint` for more than a message may have."""
        made: list[M] = []
        size = 0
        async with self._lists.of(namespace):
            async for item in self.objects(resource, namespace=namespace, selector=selector):
                made.append(make(item))
                size += made[-1].ByteSize()
                if size > self._limit:
                    text = f"the list has more than {self._limit} bytes, the most that a message may have{hint}"
                    raise Refused(Code.RESOURCE_EXHAUSTED, text)
        return made
