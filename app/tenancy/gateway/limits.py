"""Limits how many calls and open streams one tenant may have at a time. No I/O."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator


class Slots:
    """Counts what each name holds; never more than `limit`."""

    def __init__(self, limit: int, changed: Callable[[str, int], None]) -> None:
        self._limit = limit
        self._changed = changed
        self._held: dict[str, int] = {}

    @contextlib.contextmanager
    def hold(self, name: str) -> Iterator[bool]:
        """One slot for as long as the block runs; False, and none is held, where all are taken."""
        count = self._held.get(name, 0)
        if count >= self._limit:
            yield False
            return
        self._set(name, count + 1)
        try:
            yield True
        finally:
            self._set(name, self._held[name] - 1)

    def _set(self, name: str, count: int) -> None:
        if count:
            self._held[name] = count
        else:
            del self._held[name]
        self._changed(name, count)
