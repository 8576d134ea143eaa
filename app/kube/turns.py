"""Shares concurrent places fairly between names: those of a server, and those of requests to the API server."""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from collections.abc import AsyncIterator, Iterator
from contextvars import ContextVar


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
            self._enter(name)

    def _enter(self, name: str) -> None:
        self._free -= 1
        self._inside[name] = self._inside.get(name, 0) + 1

    def _next(self) -> str | None:
        for name in list(self._waiting):
            places = self._waiting[name]
            while places and places[0].done():  # cancelled while it waited
                places.popleft()
            if not places:
                del self._waiting[name]
            elif self._inside.get(name, 0) < self._most(name):
                return name
        return None

    def _most(self, _name: str) -> int:
        """How many places this name may take now."""
        return self._each


_REQUESTS: ContextVar[tuple[Turns, str] | None] = ContextVar("requests", default=None)
"""Where the requests of the current task take their places, and under which name."""


@contextlib.contextmanager
def requests_under(turns: Turns | None, name: str) -> Iterator[None]:
    """Each request that this task sends to the API server takes a place under this name; none without turns."""
    before = _REQUESTS.set(None if turns is None else (turns, name))
    try:
        yield
    finally:
        _REQUESTS.reset(before)


@contextlib.asynccontextmanager
async def request_place() -> AsyncIterator[None]:
    """Around one request: its place, as soon as its name has its turn. Requests of other tasks do not wait."""
    requests = _REQUESTS.get()
    if requests is None:
        yield
        return
    turns, name = requests
    async with turns.of(name):
        yield


_LEAST = 2
"""With the second one a server has work as soon as it has finished the first."""
_WAITED = 1.5
"""A request has waited at the server that took more than so many times as long as the shortest of its kind."""
_AGING = 1.001
"""The shortest time grows by this factor with each request, because a server may become slower."""
_ALONE = 1000
"""Requests in a row after which a name counts as alone."""


class AdaptiveTurns(Turns):
    """Turns at one server: what a name has under way beyond two there only waits, and requests of others behind it.

    A name has up to `each` places while its requests take as long as one alone does. While they take more than one and
    a half times as long, it has fewer. As many requests are answered as before: the server has always got the next one.

    At most servers some requests take longer without waiting for others. So a name has `each` places where no other
    name has had one for long: fewer would only make it slower.
    """

    def __init__(self, *, total: int, each: int) -> None:
        super().__init__(total=total, each=each)
        self._least = min(_LEAST, each)
        self._shortest: dict[str, float] = {}
        # Of those names alone that have fewer than `each`.
        self._windows: dict[str, float] = {}
        self._latest, self._in_row = "", 0

    def took(self, name: str, kind: str, seconds: float) -> None:
        """A request of this kind was answered after so long; requests of one kind take about as long as each other."""
        shortest = min(seconds, self._shortest.get(kind, seconds) * _AGING)
        self._shortest[kind] = shortest
        window = self._windows.pop(name, float(self._each))
        window += (-1 if seconds > _WAITED * shortest else 1) / window
        if window < self._each:
            self._windows[name] = max(window, float(self._least))

    def forget_idle(self) -> None:
        """Drop what is known of names without a request: names come and go."""
        self._windows = {name: window for name, window in self._windows.items() if name in self._inside}

    def _enter(self, name: str) -> None:
        super()._enter(name)
        self._in_row = self._in_row + 1 if name == self._latest else 1
        self._latest = name

    def _most(self, name: str) -> int:
        if self._in_row > _ALONE and name == self._latest:
            return self._each
        return int(self._windows.get(name, self._each))
