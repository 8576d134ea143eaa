"""Retries: growing pauses with full jitter, writes that may meet a conflict; reads of what may not exist, or has pages.

Full jitter (uniform between zero and the grown limit) keeps many replicas that failed together from coming back
together.
"""

from __future__ import annotations

import random as _random
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from typing import TypeVar

from app.errors import ApiError
from app.kube.client import KubeClient, Page
from app.kube.resources import Resource
from app.wire import JSON

ATTEMPTS = 12
Sleep = Callable[[float], Awaitable[None]]
T = TypeVar("T")


@dataclass(slots=True)
class Backoff:
    """A growing delay, after so many `attempts`; `random` returns floats in [0, 1)."""

    base: float = 0.8
    cap: float = 30.0
    random: Callable[[], float] = _random.random
    attempts: int = 0

    @property
    def limit(self) -> float:
        """What the next delay is below, in seconds."""
        # The exponent is bounded because 2.0**1024 overflows, and a fault may last for weeks.
        return min(self.cap, self.base * 2.0 ** min(self.attempts, 64))

    def next(self, *, at_least: float | None = None) -> float:
        """The next delay in seconds, never below `at_least` (a server's Retry-After); counts one attempt."""
        delay = self.random() * self.limit
        self.attempts += 1
        return max(delay, at_least or 0.0)

    def reset(self, attempts: int = 0) -> None:
        """Start again from the small delays, or from those after `attempts` tries."""
        self.attempts = attempts


async def get_or_none(
    client: KubeClient, resource: Resource, name: str, *, namespace: str | None = None
) -> JSON | None:
    """The object, None where there is none. Raises ApiError for every other answer."""
    return await if_there(client.get(resource, name, namespace=namespace))


async def if_there(request: Awaitable[T]) -> T | None:
    """The answer to a request, None where its object does not exist. Raises ApiError for every other answer."""
    try:
        return await request
    except ApiError as error:
        if error.not_found:
            return None
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
