"""What is computed of an object, kept while the object is of the same version. Pure."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import Generic, TypeVar

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
