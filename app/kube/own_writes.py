"""An overlay over a cache: our own writes that it does not show yet, so that a watch that lags causes no second write.

A write stands until the cache has reached it, or until its `lifetime` in seconds is over: then another client has
undone it, or the watch is far behind.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

from app.kube.store import Key, Store

T = TypeVar("T")
_REMEMBERED = 1024
"""Deletions; an answer that comes later than so many of the watch's has its whole lifetime."""


@dataclass(frozen=True, slots=True)
class OwnWrite(Generic[T]):
    """`value` is None for a deletion; `before` is what the cache showed at that moment."""

    value: T | None
    uid: str
    before: T | None
    until: float


class Versioned(Protocol):
    """What has to be kept of an object to know our own writes of it."""

    @property
    def uid(self) -> str: ...
    @property
    def version(self) -> int | str: ...


V = TypeVar("V", bound=Versioned)


class OwnWrites(Generic[T]):
    """`get` is what there is as far as is known: our write, else what is `cached`.

    Give every change of the cache to `shown` (`follow` does it for a store), and call `expire` now and then.
    `reached(shown, written)` says whether a state of the cache is our write or a later one; without it, every other
    state than the one before the write is. `uid` distinguishes objects of one name; "" is none. `group` is what `of`
    finds writes by.
    """

    def __init__(
        self,
        cached: Callable[[Key], T | None],
        *,
        lifetime: float,
        reached: Callable[[T, T], bool] | None = None,
        uid: Callable[[T], str] = lambda _: "",
        group: Callable[[T], Hashable] = lambda _: None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._cached, self._lifetime = cached, lifetime
        self._reached, self._uid, self._group = reached, uid, group
        self._clock = clock
        # In the order of their ends, since all live equally long, but for those that were restored.
        self._writes: dict[Key, OwnWrite[T]] = {}
        self._groups: dict[Hashable, set[Key]] = {}
        self._gone: dict[str, None] = {}
        self._under_way: set[Key] = set()

    def __len__(self) -> int:
        return len(self._writes)

    def follow(self, store: Store[T]) -> None:
        """Take in the changes of the store. After a doubt the API server that took our writes may be another."""
        store.subscribe(lambda _event, key, old, new: self.shown(key, old, new))
        store.on_renewed(self.clear)

    def get(self, key: Key) -> T | None:
        cached, write = self._cached(key), self._writes.get(key)
        if write is None:
            return cached
        ended = write.until <= self._clock()
        if self._reached is None and (ended or cached != write.before):
            self.forget(key)
            return cached
        return cached if ended else write.value

    def written(self, key: Key) -> T | None:
        """Our write that the cache has not reached; None where there is none."""
        write = self._writes.get(key)
        return None if write is None else write.value

    def noted(self, key: Key) -> OwnWrite[T] | None:
        """What is noted of this key, to be put back by `restore`."""
        return self._writes.get(key)

    def restore(self, key: Key, noted: OwnWrite[T] | None) -> None:
        """Have what was noted of this key before, for as long as it would have stood."""
        self.forget(key)
        if noted is not None:
            self._writes[key] = noted
            if noted.value is not None:
                self._groups.setdefault(self._group(noted.value), set()).add(key)

    def of(self, group: Hashable) -> list[T]:
        """Our writes of this group that the cache has not reached."""
        found = (self._writes[key].value for key in self._groups.get(group, ()))
        return [value for value in found if value is not None]

    def wrote(self, key: Key, value: T) -> None:
        """The API server has answered a write with this state. The watch may have been faster than the answer."""
        cached, uid = self._cached(key), self._uid(value)
        if uid in self._gone or (self._reached is not None and cached is not None and self._reached(cached, value)):
            self.forget(key)
        else:
            self._put(key, value, uid, cached)

    def deleted(self, key: Key, uid: str) -> None:
        """The API server has taken a deletion of the object of this uid."""
        if uid in self._gone:
            self.forget(key)
        else:
            self._put(key, None, uid, self._cached(key))

    @contextmanager
    def under_way(self, key: Key) -> Iterator[None]:
        """What the watch shows meanwhile is most likely our own write; the writer looks whether it was."""
        self._under_way.add(key)
        try:
            yield
        finally:
            self._under_way.discard(key)

    def shown(self, key: Key, old: T | None, new: T | None) -> bool:
        """The cache has changed like this; True where that is our own write: the last one, or one under way."""
        if old is not None and (uid := self._uid(old)) and (new is None or self._uid(new) != uid):
            self._gone[uid] = None
            if len(self._gone) > _REMEMBERED:
                del self._gone[next(iter(self._gone))]
        write = self._writes.get(key)
        if write is None:
            return key in self._under_way
        if self._ends(write, new):
            self.forget(key)
        return new == write.value

    def forget(self, key: Key) -> None:
        write = self._writes.pop(key, None)
        if write is not None and write.value is not None:
            keys = self._groups[group := self._group(write.value)]
            keys.discard(key)
            if not keys:
                del self._groups[group]

    def clear(self) -> None:
        self._writes.clear()
        self._groups.clear()
        self._gone.clear()

    def expire(self) -> list[T]:
        """Give up what the watch has not shown in time; the result is what was written."""
        given_up, now = [], self._clock()
        while self._writes:
            key, write = next(iter(self._writes.items()))
            if write.until > now:
                break
            self.forget(key)
            if write.value is not None:
                given_up.append(write.value)
        return given_up

    def _put(self, key: Key, value: T | None, uid: str, before: T | None) -> None:
        self.restore(key, OwnWrite(value, uid, before, self._clock() + self._lifetime))

    def _ends(self, write: OwnWrite[T], new: T | None) -> bool:
        """Whether the cache has reached the write. The end of a predecessor says nothing of what was made since."""
        if self._reached is None:
            return new != write.before
        if write.value is None:
            return new is None or self._uid(new) != write.uid
        return write.uid in self._gone or (new is not None and self._reached(new, write.value))


def by_version(
    cached: Callable[[Key], V | None],
    *,
    lifetime: float,
    group: Callable[[V], Hashable] = lambda _: None,
    clock: Callable[[], float] = time.monotonic,
) -> OwnWrites[V]:
    """Of objects whose versions are kept: those of one name grow."""
    return OwnWrites(
        cached,
        lifetime=lifetime,
        reached=lambda shown, written: int(shown.version) >= int(written.version),
        uid=lambda written: written.uid,
        group=group,
        clock=clock,
    )
