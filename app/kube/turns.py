"""Shares concurrent places fairly between names."""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from collections.abc import AsyncIterator


class Turns:
    """`total` places, of which one name takes at most `each`; names that wait are let in by turns.

    However many wait under one name, the first of another waits for no more than one place to become free.
    """

    def __init__(self, *, total: int, each: int) -> None:
        self._free, self._each = total, each
        self._inside: dict[str, int] = {}
        # In the order of turns: a name goes to the end when one of its own was let in.
        self._waiting: dict[str, deque[asyncio.Future[None]]] = {}

    @contextlib.asynccontextmanager
    async def of(self, name: str) -> AsyncIterator[None]:
        place = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(name, deque()).append(place)
        self._let_in()
        try:
            await place
        except asyncio.CancelledError:
            if place.done() and not place.cancelled():
                self._leave(name)
            raise
        try:
            yield
        finally:
            self._leave(name)

    def _leave(self, name: str) -> None:
        self._free += 1
        self._inside[name] -= 1
        if not self._inside[name]:
            del self._inside[name]
        self._let_in()

    def _let_in(self) -> None:
        while self._free and (name := self._next()) is not None:
            places = self._waiting.pop(name)
            places.popleft().set_result(None)
            if places:
                self._waiting[name] = places
            self._free -= 1
            self._inside[name] = self._inside.get(name, 0) + 1

    def _next(self) -> str | None:
        for name in list(self._waiting):
            places = self._waiting[name]
            while places and places[0].done():  # cancelled while it waited
                places.popleft()
            if not places:
                del self._waiting[name]
            elif self._inside.get(name, 0) < self._each:
                return name
        return None
