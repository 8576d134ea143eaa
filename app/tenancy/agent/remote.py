"""A local copy of what the gateway holds, fed by one Watch stream: by name, complete after the message "synced".

Belongs to one event loop; does no I/O. The copy stays readable while the stream is down, but is not `synced` then.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Generic, TypeVar

T = TypeVar("T")


class Remote(Generic[T]):
    """`begin`, then `put` and `drop`, `complete` after everything was sent once, and `lose` when the stream ends."""

    def __init__(self) -> None:
        self.items: dict[str, T] = {}
        self._next: dict[str, T] | None = None
        self._listeners: list[Callable[[str], None]] = []
        self._round = asyncio.Event()
        self.rounds = 0
        self.synced = False

    def subscribe(self, listener: Callable[[str], None]) -> None:
        """Calls `listener` with each name whose item changed, appeared or went; must not block."""
        self._listeners.append(listener)

    async def next_round(self, after: int) -> None:
        """Returns once `complete` was called more often than `after` times."""
        while self.rounds <= after:
            await self._round.wait()

    def begin(self) -> None:
        """A stream starts: what comes until `complete` is a whole."""
        self.synced, self._next = False, {}

    def put(self, name: str, item: T) -> None:
        if self._next is not None:
            self._next[name] = item
        elif self.items.get(name) != item:
            self.items[name] = item
            self._tell(name)

    def drop(self, name: str) -> None:
        if self._next is not None:
            self._next.pop(name, None)
        elif self.items.pop(name, None) is not None:
            self._tell(name)

    def complete(self) -> None:
        """Everything there was has been put; a second one on the same stream says nothing new."""
        if self._next is None:
            return
        old, self.items, self._next = self.items, self._next, None
        self.synced = True
        self.rounds += 1
        self._round.set()
        self._round = asyncio.Event()
        for name in sorted(old.keys() | self.items.keys()):
            if old.get(name) != self.items.get(name):
                self._tell(name)

    def lose(self) -> None:
        """The stream is gone; an unfinished whole is forgotten."""
        self.synced, self._next = False, None

    def _tell(self, name: str) -> None:
        for listener in self._listeners:
            listener(name)
