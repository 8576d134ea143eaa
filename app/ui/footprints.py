"""What a computation has read, so that it is done again when that changes, and not before."""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Hashable
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Generic, TypeVar

from app.kube.reflector import Scope
from app.kube.resources import Resource
from app.kube.store import Key
from app.ui.rights import Right
from app.ui.selection import concerns
from app.wire import JSON

T = TypeVar("T")
OLD = 60.0
"""Seconds after which everything is computed anew: verdicts depend on the time too."""
_RESULTS = 20_000
"""Results that are kept, those that were used last."""


_SLOW = 1000
_FAULT = 2.0
"""Seconds for which what was raised stands."""


@dataclass(slots=True)
class Footprint:
    """The reads of one computation. `rights` are those that it needed, `within` the seconds for which it holds."""

    noted: Callable[[Resource], object] = lambda _resource: None
    scopes: set[Scope] = field(default_factory=set)
    rights: set[Right] = field(default_factory=set)
    within: float = OLD

    def read(self, scope: Scope) -> None:
        """This is about to be read: a change of it from now on counts."""
        self.scopes.add(scope)
        self.noted(scope.resource)

    def holds(self, seconds: float) -> None:
        """What was read is not watched: the result is old after so many seconds."""
        self.within = min(self.within, seconds)


class Signal:
    """Says when what was made of something is out of date: when it is `stale`, or at the time `until`."""

    def __init__(self, until: float = float("inf")) -> None:
        self.until = until
        self.stale = False
        self._wakes: set[asyncio.Event] = set()

    def wakes(self, event: asyncio.Event) -> None:
        """Have this set when it is stale, or now where it is."""
        if self.stale:
            event.set()
        else:
            self._wakes.add(event)

    def forget(self, event: asyncio.Event) -> None:
        self._wakes.discard(event)

    def spoil(self) -> None:
        self.stale = True
        for event in self._wakes:
            event.set()
        self._wakes.clear()


class Result(Signal, Generic[T]):
    """What a computation came to, and whether it would come to something else by now."""

    def __init__(self, task: asyncio.Task[T], footprint: Footprint) -> None:
        super().__init__()
        self.task, self.footprint = task, footprint


@dataclass(slots=True)
class _Slow:
    """Something that takes long: what it came to last, and what says when there is something newer."""

    last: Result[Any] | None
    signal: Signal
    task: asyncio.Task[Any] | None = None


class Results:
    """Results by key; those whose footprint a change touches are dropped."""

    def __init__(self, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._results: OrderedDict[Hashable, Result[Any]] = OrderedDict()
        self._readers: dict[Resource, set[Hashable]] = {}
        self._slow: OrderedDict[Hashable, _Slow] = OrderedDict()
        self.computed = 0
        """How often something was computed."""

    def __len__(self) -> int:
        return len(self._results)

    async def get(self, key: Hashable, compute: Callable[[Footprint], Awaitable[T]]) -> Result[T]:
        """The result that is known, or a new one. All who ask meanwhile share it; raises what `compute` raises."""
        known = self._results.get(key)
        if known is None or known.stale or known.until <= self._clock():
            if known is not None:
                self._drop(key, known)
            footprint = Footprint(lambda resource: self._readers.setdefault(resource, set()).add(key))
            known = Result(asyncio.create_task(self._run(compute, footprint)), footprint)
            known.task.add_done_callback(partial(self._done, known, self._clock()))
            self._results[key] = known
            self.computed += 1
            while len(self._results) > _RESULTS:
                oldest = next(iter(self._results))
                self._drop(oldest, self._results[oldest])
        else:
            self._results.move_to_end(key)
        await asyncio.shield(known.task)
        return known

    def later(
        self, key: Hashable, compute: Callable[[Footprint], Awaitable[T]], *, every: float
    ) -> tuple[Result[T] | None, Signal]:
        """What was known last, None before the first time, and what says when there is something newer.

        It is computed beside those who ask: again when a page asks so many seconds after the last time.
        """
        slow = self._slow.get(key)
        if slow is None:
            slow = self._slow[key] = _Slow(None, Signal())
            while len(self._slow) > _SLOW:
                self._slow.popitem(last=False)
        self._slow.move_to_end(key)
        if slow.task is None and (slow.last is None or slow.signal.until <= self._clock()):
            slow.task = asyncio.create_task(self._renew(slow, compute, every))
        return slow.last, slow.signal

    def last(self, key: Hashable) -> Any:
        """What `later` was known to be last; None before the first time."""
        slow = self._slow.get(key)
        return None if slow is None or slow.last is None else slow.last.task.result()

    def forget_later(self, key: Hashable) -> None:
        """Do not show it any more."""
        self._slow.pop(key, None)

    async def _renew(self, slow: _Slow, compute: Callable[[Footprint], Awaitable[T]], every: float) -> None:
        footprint = Footprint()
        task = asyncio.ensure_future(compute(footprint))
        await asyncio.wait([task])
        self.computed += 1
        former, slow.signal = slow.signal, Signal(self._clock() + every)
        slow.task = None
        if not task.cancelled() and task.exception() is None:
            slow.last = Result(task, footprint)
        former.spoil()

    def changed(self, resource: Resource, key: Key, old: JSON | None, new: JSON | None) -> None:
        """An object has changed: what depends on it is stale."""
        for name in tuple(self._readers.get(resource, ())):
            result = self._results.get(name)
            if result is not None and any(
                concerns(scope, resource, key, old, new) for scope in result.footprint.scopes
            ):
                self._drop(name, result)

    def clear(self) -> None:
        for key, result in tuple(self._results.items()):
            self._drop(key, result)

    async def _run(self, compute: Callable[[Footprint], Awaitable[T]], footprint: Footprint) -> T:
        return await compute(footprint)

    def _done(self, result: Result[Any], began: float, task: asyncio.Task[Any]) -> None:
        if task.cancelled() or task.exception() is not None:
            result.footprint.holds(_FAULT)
        result.until = began + result.footprint.within

    def forget(self, key: Hashable) -> None:
        """Compute it anew when it is asked for."""
        if (result := self._results.get(key)) is not None:
            self._drop(key, result)

    def _drop(self, key: Hashable, result: Result[Any]) -> None:
        if self._results.get(key) is result:
            del self._results[key]
            for resource in {scope.resource for scope in result.footprint.scopes}:
                readers = self._readers.get(resource)
                if readers is not None:
                    readers.discard(key)
        result.spoil()
