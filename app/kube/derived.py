"""What is computed of an object, kept while the object is of the same version; and of a store, until it changes."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import Any, Generic, TypeVar, cast

from app.kube.store import Store
from app.wire import JSON

T = TypeVar("T")
MOST = 20_000
"""Objects of which something is kept, those that were asked for last."""


class Derived(Generic[T]):
    """`compute` of objects, once for each version of one. What it raises is raised each time."""

    def __init__(self, compute: Callable[[JSON], T], *, most: int = MOST) -> None:
        self._compute, self._most = compute, most
        self._kept: OrderedDict[str, tuple[str, T]] = OrderedDict()
        self.computed = 0
        """How often something was computed."""

    def __call__(self, obj: JSON) -> T:
        """Of an object without uid or version, which no API server has stored, nothing is kept."""
        metadata = obj["metadata"]
        uid, version = metadata.get("uid"), metadata.get("resourceVersion")
        kept = self._kept.get(uid) if uid else None
        if kept is not None and kept[0] == version:
            return kept[1]
        self.computed += 1
        value = self._compute(obj)
        if uid and version:
            self._kept[uid] = version, value
            self._kept.move_to_end(uid)
            if len(self._kept) > self._most:
                self._kept.popitem(last=False)
        return value


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
