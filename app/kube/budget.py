"""How often something may be done, for each of very many keys: so many at once, then one every so many seconds."""

from __future__ import annotations

import time
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)
_KEYS = 4096


class Budget(Generic[K]):
    """Token buckets. Beyond `keys` of them the one that was asked longest ago is forgotten, which fills it again."""

    def __init__(
        self, *, burst: int, seconds: float, keys: int = _KEYS, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._burst, self._seconds, self._limit = burst, seconds, keys
        self._clock = clock
        self._buckets: dict[K, tuple[float, float]] = {}

    def take(self, key: K) -> bool:
        """Whether `key` may do it once more now; if so, it has."""
        now = self._clock()
        tokens, since = self._buckets.pop(key, (float(self._burst), now))
        tokens = min(float(self._burst), tokens + (now - since) / self._seconds)
        granted = tokens >= 1.0
        self._buckets[key] = (tokens - 1.0 if granted else tokens, now)
        if len(self._buckets) > self._limit:
            del self._buckets[next(iter(self._buckets))]
        return granted
