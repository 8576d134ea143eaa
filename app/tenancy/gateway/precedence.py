"""Lets what may wait, events and their writes, give way to the calls of tenants that have used the gateway less.

Nothing waits where a tenant is alone, and nothing for long: a stream goes on while others always have calls under way.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections import Counter
from collections.abc import Callable, Iterator

MOMENT = 0.002
"""Seconds for which an event gives way at most: 500 events a second are enough for 20,000 workloads a minute."""
_CALL = 4.0
"""A call uses the gateway as much as so many events."""
_HALVED = 1.0
"""Seconds in which half of a use is forgotten."""


class Precedence:
    """`call` and `give_way` count what each name uses; names that have used little for some time are forgotten."""

    def __init__(self, *, moment: float = MOMENT, clock: Callable[[], float] = time.monotonic) -> None:
        self._moment, self._clock = moment, clock
        self._calls: Counter[str] = Counter()
        self._used: dict[str, tuple[float, float]] = {}
        self._ended = asyncio.Event()

    @contextlib.contextmanager
    def call(self, name: str) -> Iterator[None]:
        """A call is under way for as long as the block runs."""
        self._use(name, _CALL)
        self._calls[name] += 1
        try:
            yield
        finally:
            self._calls[name] -= 1
            if not self._calls[name]:
                del self._calls[name]
                ended, self._ended = self._ended, asyncio.Event()
                ended.set()

    async def give_way(self, name: str, amount: float = 1.0) -> None:
        """Return when no call of a name that has used less is under way, or after a moment."""
        self._use(name, amount)
        if self._first(name):
            return
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self._moment):
                while not self._first(name):
                    await self._ended.wait()

    def forget_idle(self) -> None:
        self._used = {name: used for name, used in self._used.items() if self._use_of(name) >= 1 or name in self._calls}

    def _first(self, name: str) -> bool:
        used = self._use_of(name)
        return not any(self._use_of(other) < used for other in self._calls if other != name)

    def _use(self, name: str, amount: float) -> None:
        self._used[name] = (self._use_of(name) + amount, self._clock())

    def _use_of(self, name: str) -> float:
        used, at = self._used.get(name, (0.0, 0.0))
        return float(used * 0.5 ** ((self._clock() - at) / _HALVED))
