"""What is computed of an object, kept while the object is of the same version; and of a store, until it changes."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import Any, Generic, TypeVar, cast

from app.kube.store import Store
from app.wire import JSON

T = TypeVar("T")
LEAST = 20_000
"""Calls for which something is kept at least."""


class Derived(Generic[T]):
    """`compute` of objects, once for each version of one. What it raises is raised each time.

    What is kept of an object is dropped when it was not asked for in `least` calls, and in twice as many calls as there
    are objects: however many there are, who goes through all of them again and again computes none twice, and what is
    kept of objects that are gone does not stay.
    """

    def __init__(self, compute: Callable[[JSON], T], *, least: int = LEAST) -> None:
        self._compute, self._least = compute, least
        self._kept: OrderedDict[str, tuple[str, T, int]] = OrderedDict()
        """By uid: the version, the value and the number of the last call; the one that was asked for last is last."""
        self._calls = 0
        self.computed = 0
        """How often something was computed."""

    def __len__(self) -> int:
        return len(self._kept)

    def __call__(self, obj: JSON) -> T:
        """Of an object without uid or version, which no API server has stored, nothing is kept."""
        metadata = obj["metadata"]
        uid, version = metadata.get("uid"), metadata.get("resourceVersion")
        kept = self._kept.get(uid) if uid else None
        if kept is not None and kept[0] == version:
            value = kept[1]
        else:
            self.computed += 1
            value = self._compute(obj)
        if uid and version:
            self._calls += 1
            self._kept[uid] = version, value, self._calls
            self._kept.move_to_end(uid)
            self._drop()
        return value

    def _drop(self) -> None:
        oldest = self._calls - max(self._least, 2 * len(self._kept))
        while next(iter(self._kept.values()))[2] <= oldest:
            self._kept.popitem(last=False)


class Summary(Generic[T]):
    """What `compute` makes of a store, once between two changes of it. What it raises is raised each time.

    So what asks costs the same however many objects there are, but for the first that asks after a change.
    """

    def __init__(self, store: Store[Any], compute: Callable[[], T]) -> None:
        self._compute = compute
        self._kept: object = _NOTHING
        store.subscribe(self._drop)

    def __call__(self) -> T:
        if self._kept is _NOTHING:
            self._kept = self._compute()
        return cast("T", self._kept)

    def _drop(self, *_change: object) -> None:
        self._kept = _NOTHING


_NOTHING = object()
