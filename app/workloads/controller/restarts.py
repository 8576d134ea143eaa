"""Remembers when lost companions were created again, so that the pauses between grow."""

from __future__ import annotations

import time
from collections.abc import Callable

from app.workloads.model import ObjectKey

_CALM = 600.0
"""Seconds without a loss after which the pauses of a companion start small again."""


class Restarts:
    """When a companion that was lost may be made anew: at once, and then after pauses from `pause` to `cap` seconds."""

    def __init__(self, *, pause: float, cap: float = 300.0, clock: Callable[[], float] = time.monotonic) -> None:
        self._pause = pause
        self._cap = cap
        self._clock = clock
        self._made: dict[ObjectKey, tuple[int, float]] = {}

    def wait(self, companion: ObjectKey) -> float:
        """Seconds until it may be made anew; 0 now."""
        times, last = self._made.get(companion, (0, 0.0))
        if not times:
            return 0.0
        return max(0.0, last + min(self._cap, self._pause * 2.0 ** min(times - 1, 32)) - self._clock())

    def made(self, companion: ObjectKey) -> None:
        """It is being made anew now."""
        now = self._clock()
        # Not every companion is forgotten by its end; those calm for long enough count no more. Oldest first.
        while self._made and now - next(iter(self._made.values()))[1] > self._cap + _CALM:
            del self._made[next(iter(self._made))]
        times, _ = self._made.pop(companion, (0, now))
        self._made[companion] = (times + 1, now)

    def forget(self, companion: ObjectKey) -> None:
        self._made.pop(companion, None)
