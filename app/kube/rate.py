"""Limits rates by name with token buckets: a burst, and a rate per second in the long run. No I/O."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Generic, TypeVar

K = TypeVar("K")


class Rate(Generic[K]):
    """A bucket for each name: `burst` at once, `per_second` for long.

    Beyond `names` of them the one that was asked longest ago is forgotten, which fills it again. Without that bound,
    call `forget_idle` from time to time.
    """

    def __init__(
        self,
        *,
        per_second: float,
        burst: float,
        names: int | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._per_second, self._burst, self._names, self._clock = per_second, float(burst), names, clock
        self._buckets: dict[K, tuple[float, float]] = {}

    def __len__(self) -> int:
        """How many names are remembered."""
        return len(self._buckets)

    def take(self, name: K, amount: float = 1.0) -> float:
        """0 where so much more is allowed now, and has been taken; else the seconds until it will be.

        More than a whole burst is allowed when the bucket is full, and paid for afterwards.
        """
        tokens, needed = self._tokens(name), min(amount, self._burst)
        granted = tokens >= needed
        self._put(name, tokens - amount if granted else tokens)
        return 0.0 if granted else (needed - tokens) / self._per_second

    def spend(self, name: K, amount: float) -> float:
        """Take so much, allowed or not, because it has happened: the seconds until more is allowed, 0 for now."""
        tokens = self._tokens(name) - amount
        self._put(name, tokens)
        return max(0.0, -tokens / self._per_second)

    async def turn(self, name: K, amount: float = 1.0) -> None:
        """Return when so much more is allowed, which has then been taken."""
        while delay := self.take(name, amount):  # noqa: ASYNC110 - another task may take it first
            await asyncio.sleep(delay)

    def forget_idle(self) -> None:
        """Drop the buckets that are full again: names come and go."""
        self._buckets = {name: kept for name, kept in self._buckets.items() if self._tokens(name) < self._burst}

    def _tokens(self, name: K) -> float:
        tokens, at = self._buckets.get(name, (self._burst, 0.0))
        return min(self._burst, tokens + (self._clock() - at) * self._per_second)

    def _put(self, name: K, tokens: float) -> None:
        self._buckets.pop(name, None)  # the order is that of the last question
        self._buckets[name] = (tokens, self._clock())
        if self._names is not None and len(self._buckets) > self._names:
            del self._buckets[next(iter(self._buckets))]
