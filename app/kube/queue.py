"""A work queue of keys: each key waits once, and is never in two workers at a time.

Owns order, delays and per-key backoff; runs nothing. A key that is added while a worker has it comes again once
that worker is done. It belongs to one event loop.
"""

from __future__ import annotations

import asyncio
import random as _random
from collections import Counter, deque
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

from app.kube.backoff import jittered

K = TypeVar("K", bound=Hashable)


class QueueClosed(Exception):
    """No more keys will come."""


class WorkQueue(Generic[K]):
    """Delays are in seconds. `base` and `cap` bound the backoff of a key that keeps failing.

    Keys of which `turn` gives the same value are one group. Groups take turns, so that many keys of one hold up none of
    another; without it there is one group. Of a group at most `each` keys are in workers at a time, so that long work
    for one leaves workers to the others; None is no bound.
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
        self._base = base
        self._cap = cap
        self._random = random
        self._turn = turn
        self._each = each
        # Dicts are ordered sets: the group whose turn it is comes first, and in it the oldest waiting key.
        self._waiting: dict[Hashable, dict[K, None]] = {}
        # The same for groups that have all the workers that they may have.
        self._resting: dict[Hashable, dict[K, None]] = {}
        self._working: Counter[Hashable] = Counter()
        self._length = 0
        self._active: set[K] = set()
        self._again: set[K] = set()
        self._timers: dict[K, asyncio.TimerHandle] = {}
        self._failures: dict[K, int] = {}
        self._getters: deque[asyncio.Future[None]] = deque()
        self._closed = False

    def __len__(self) -> int:
        """Keys that wait for a worker now; delayed keys are not counted until their time."""
        return self._length

    def waiting(self, turn: Hashable) -> int:
        """The same of one group."""
        return len(self._waiting.get(turn) or self._resting.get(turn) or ())

    @property
    def closed(self) -> bool:
        return self._closed

    def add(self, key: K) -> None:
        """Have `key` worked on as soon as a worker is free; nothing happens if it already waits."""
        if self._closed:
            return
        if key in self._active:
            self._again.add(key)
            return
        turn = self._turn(key)
        full = self._full(turn)
        group = (self._resting if full else self._waiting).setdefault(turn, {})
        if key not in group:
            group[key] = None
            self._length += 1
        if not full:
            self._wake_one()

    def add_after(self, key: K, delay: float) -> None:
        """Add `key` in `delay` seconds; of two delays for a key the earlier one holds."""
        if self._closed:
            return
        if delay <= 0:
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
        failures = self._failures.get(key, 0)
        self._failures[key] = failures + 1
        delay = jittered(failures, base=self._base, cap=self._cap, random=self._random)
        delay = max(delay, at_least or 0.0)
        self.add_after(key, delay)
        return delay

    def forget(self, key: K) -> None:
        """The key has been dealt with: its backoff starts anew, and a delay under way is dropped."""
        self._failures.pop(key, None)
        timer = self._timers.pop(key, None)
        if timer is not None:
            timer.cancel()

    async def get(self) -> K:
        """The oldest waiting key of the next group, the caller's until `done`; raises `QueueClosed` after `close`."""
        while not self._waiting:
            if self._closed:
                raise QueueClosed
            getter = asyncio.get_running_loop().create_future()
            self._getters.append(getter)
            try:
                await getter
            except asyncio.CancelledError:
                # If the wake-up was ours already, it must not be lost to the others.
                if getter.done() and not getter.cancelled():
                    self._wake_one()
                raise
            finally:
                if getter in self._getters:  # else it was woken
                    self._getters.remove(getter)
        if self._closed:
            raise QueueClosed
        turn = next(iter(self._waiting))
        group = self._waiting.pop(turn)
        key = next(iter(group))
        del group[key]
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
        for getter in self._getters:
            if not getter.done():
                getter.set_result(None)

    def _ripe(self, key: K) -> None:
        self._timers.pop(key, None)
        self.add(key)

    def _full(self, turn: Hashable) -> bool:
        return self._each is not None and self._working[turn] >= self._each

    def _wake_one(self) -> None:
        while self._getters:
            getter = self._getters.popleft()
            if not getter.done():
                getter.set_result(None)
                return
