"""Helpers for reads of objects that may not exist, for lists of many pages, and for writes that may meet a conflict."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import TypeVar

from app.errors import ApiError
from app.kube.backoff import Backoff
from app.kube.client import KubeClient, Page
from app.kube.resources import Resource
from app.wire import JSON

ATTEMPTS = 12
Sleep = Callable[[float], Awaitable[None]]
T = TypeVar("T")


async def get_or_none(
    client: KubeClient, resource: Resource, name: str, *, namespace: str | None = None
) -> JSON | None:
    """The object, None where there is none. Raises ApiError for every other answer."""
    try:
        return await client.get(resource, name, namespace=namespace)
    except ApiError as error:
        if error.not_found:
            return None
        raise


async def delete_if_there(client: KubeClient, resource: Resource, name: str, *, uid: str) -> None:
    """Delete the object of this UID; an object that is gone is no error."""
    try:
        await client.delete(resource, name, uid=uid)
    except ApiError as error:
        if not error.not_found:
            raise


async def every_item(page: Callable[[str], Awaitable[Page]]) -> AsyncIterator[JSON]:
    """All items of a list, one page of it in memory. `page` reads the one that a token continues, "" for the first."""
    token = ""
    while True:
        found = await page(token)
        for item in found.items:
            yield item
        token = found.continue_token
        if not token:
            return


async def until_no_conflict(
    attempt: Callable[[], Awaitable[T]],
    *,
    sleep: Sleep,
    attempts: int = ATTEMPTS,
    lost: Callable[[ApiError], bool] = lambda error: error.conflict,
) -> T:
    """Run `attempt` until no rival came between its reads and its writes, as `lost` says; raise the last loss."""
    backoff = Backoff(base=0.05, cap=2.0)
    while True:
        try:
            return await attempt()
        except ApiError as error:
            if not lost(error) or backoff.attempts + 1 >= attempts:
                raise
            await sleep(backoff.next(at_least=error.delay))
