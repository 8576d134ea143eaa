"""A work queue of keys: each key waits once, and is never in two workers at a time.

A key that is added while a worker has it comes again once that worker is done. It belongs to one event loop.
"""

from __future__ import annotations

import asyncio
import random as _random
from collections import Counter, OrderedDict
from collections.abc import Callable, Hashable
from functools import partial
from typing import Generic, TypeVar

from app.kube.retry import Backoff

K = TypeVar("K", bound=Hashable)
_SHORTEST = 0.001
"""Seconds. uvloop rounds a shorter delay to none, and its handle then has no time, which `add_after` reads."""


class QueueClosed(Exception):
    """No more keys will come."""


class WorkQueue(Generic[K]):
    """Delays are in seconds. `base` and `cap` bound the backoff of a key that keeps failing.

    Keys of which `turn` gives the same value are one group. Groups take turns, so that many keys of one hold up none of
    another. Of a group at most `each` keys are in workers at a time, so that long work for one leaves workers to the
    others; None is no bound.
    """

    def __init__(
        self,
        *,
        base: float = 0.005,
        cap: float = 300.0,
        random: Callable[[], float] = _random.random,
        turn: Callable[[K], Hashable] = lambda _key: None,
        each: int | None = None,
    ) -> None:
        self._backoff = partial(Backoff, base, cap, random)
        self._turn, self._each = turn, each
        # Dicts are ordered sets: the group whose turn it is comes first, and in it the oldest waiting key. A plain dict
        # looks for its first key past all that were taken before: for many keys, that is most of the time.
        self._waiting: dict[Hashable, OrderedDict[K, None]] = {}
        # The same for groups that have all the workers that they may have.
        self._resting: dict[Hashable, OrderedDict[K, None]] = {}
        self._working: Counter[Hashable] = Counter()
        self._length = 0
        self._active: set[K] = set()
        self._again: set[K] = set()
        self._timers: dict[K, asyncio.TimerHandle] = {}
        self._failures: dict[K, Backoff] = {}
        self._ready = asyncio.Semaphore(0)
        self._closed = False

    def __len__(self) -> int:
        """Keys that wait for a worker now; delayed keys are not counted until their time."""
        return self._length

    def unfinished(self, turn: Hashable) -> int:
        """Keys of one group that wait for a worker now, and those that workers have."""
        return len(self._waiting.get(turn) or self._resting.get(turn) or ()) + self._working[turn]

    @property
    def working(self) -> int:
        """Keys that workers have."""
        return len(self._active)

    def add(self, key: K) -> None:
        """Have `key` worked on as soon as a worker is free; nothing happens if it already waits."""
        if self._closed:
            return
        if key in self._active:
            self._again.add(key)
            return
        turn = self._turn(key)
        full = self._full(turn)
        group = (self._resting if full else self._waiting).setdefault(turn, OrderedDict())
        if key not in group:
            group[key] = None
            self._length += 1
        if not full:
            self._wake_one()

    def add_after(self, key: K, delay: float) -> None:
        """Add `key` in `delay` seconds; of two delays for a key the earlier one holds."""
        if self._closed:
            return
        if delay < _SHORTEST:
            self.add(key)
            return
        loop = asyncio.get_running_loop()
        pending = self._timers.get(key)
        if pending is not None:
            if pending.when() <= loop.time() + delay:
                return
            pending.cancel()
        self._timers[key] = loop.call_later(delay, self._ripe, key)

    def retry(self, key: K, *, at_least: float | None = None) -> float:
        """Add `key` after its own growing, jittered backoff; returns the delay."""
        backoff = self._failures.get(key)
        if backoff is None:
            backoff = self._failures[key] = self._backoff()
        delay = backoff.next(at_least=at_least)
        self.add_after(key, delay)
        return delay

    def failures(self, key: K) -> int:
        """How often `key` was retried since it was forgotten."""
        return self._failures[key].attempts if key in self._failures else 0

    def forget(self, key: K) -> None:
        """The key has been dealt with: its backoff starts again, and a delay under way is dropped."""
        self._failures.pop(key, None)
        timer = self._timers.pop(key, None)
        if timer is not None:
            timer.cancel()

    async def get(self) -> K:
        """The oldest waiting key of the next group, the caller's until `done`; raises `QueueClosed` after `close`."""
        while not self._waiting and not self._closed:
            await self._ready.acquire()
        if self._closed:
            self._ready.release()  # for the next worker
            raise QueueClosed
        turn = next(iter(self._waiting))
        group = self._waiting.pop(turn)
        key, _ = group.popitem(last=False)
        self._working[turn] += 1
        if group:
            (self._resting if self._full(turn) else self._waiting)[turn] = group  # behind the others
        self._length -= 1
        self._active.add(key)
        return key

    def done(self, key: K) -> None:
        """The worker is finished with `key`; it waits again if it was added meanwhile."""
        if key not in self._active:
            return
        self._active.discard(key)
        turn = self._turn(key)
        self._working[turn] -= 1
        if not self._working[turn]:
            del self._working[turn]
        if turn in self._resting:
            self._waiting[turn] = self._resting.pop(turn)
            self._wake_one()
        if key in self._again:
            self._again.discard(key)
            self.add(key)

    def close(self) -> None:
        """Take and give no more keys; workers in `get` end with `QueueClosed`."""
        self._closed = True
        self._waiting.clear()
        self._resting.clear()
        self._length = 0
        self._again.clear()
        for timer in self._timers.values():
            timer.cancel()
        self._timers.clear()
        self._ready.release()

    def _ripe(self, key: K) -> None:
        self._timers.pop(key, None)
        self.add(key)

    def _full(self, turn: Hashable) -> bool:
        return self._each is not None and self._working[turn] >= self._each

    def _wake_one(self) -> None:
        if self._ready.locked():  # else a wake-up waits already for the next worker
            self._ready.release()
