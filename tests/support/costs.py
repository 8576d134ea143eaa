"""What a call costs in numbers that are the same on every machine: calls of functions, and memory."""

from __future__ import annotations

import gc
import sys
import tracemalloc
from collections.abc import Callable
from dataclasses import dataclass

_WARM_UP = 20
_REPEATS = 5


@dataclass(frozen=True, slots=True)
class Cost:
    """`calls` are those of Python and of C functions. `blocks` are allocated for what the call returns; `peak` is the
    number of bytes that it takes at most, with that.
    """

    calls: int
    blocks: int
    peak: int


def cost_of(call: Callable[[], object]) -> Cost:
    """The cost of a call that was made before: the least of some repeats, since free lists and caches fill up."""
    for _ in range(_WARM_UP):
        call()
    return Cost(*(min(measure(call) for _ in range(_REPEATS)) for measure in (_calls, _blocks, _peak)))


def cost_of_event(event: Callable[[], object]) -> tuple[int, int]:
    """Calls, and the most bytes that are allocated meanwhile, of what can happen only once.

    The free lists are empty when it begins, and stay what it makes of them: a collection of garbage empties them, and
    what comes from them is not counted as allocated.
    """
    calls = 0

    def counted() -> None:
        nonlocal calls
        calls = _calls(event)

    peak = _peak(counted)
    return calls, peak


def _calls(call: Callable[[], object]) -> int:
    found = 0

    def count(_frame: object, event: str, _argument: object) -> None:
        nonlocal found
        found += event in ("call", "c_call")

    sys.setprofile(count)
    try:
        call()
    finally:
        sys.setprofile(None)
    return found - 1  # the end of counting is a call too


def _blocks(call: Callable[[], object]) -> int:
    gc.collect()
    gc.disable()
    try:
        before = sys.getallocatedblocks()
        kept = call()
        return sys.getallocatedblocks() - before - (kept is None)
    finally:
        gc.enable()


def _peak(call: Callable[[], object]) -> int:
    gc.collect()
    gc.disable()
    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        call()
        return tracemalloc.get_traced_memory()[1] - before
    finally:
        tracemalloc.stop()
        gc.enable()
