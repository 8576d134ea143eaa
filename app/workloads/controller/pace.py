"""When the status of a rule is to be written: soon after a change, at most once in an interval, and later in a wave.

Thousands of companions may start one by one, and each changes how many run.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from app.workloads.model import ObjectKey

_GATHER = 0.1
"""Seconds between the first change of a rule's state and its status: more will follow."""
_QUIET, _LONGEST = 0.5, 10.0
"""Intervals without a change that a status waits for where only the number of those that run has changed, and intervals
after which it waits no longer."""


class Pace:
    """Times are in seconds. `changed` and `running_changed` are cheap, however often they are called."""

    def __init__(self, interval: float, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._interval, self._clock = interval, clock
        self._due: dict[ObjectKey, float] = {}
        self._latest: dict[ObjectKey, float] = {}
        """Of the rules that wait for quiet, until when they do."""
        self._written: dict[ObjectKey, float] = {}

    def changed(self, rule: ObjectKey) -> bool:
        """The state has changed. True where the rule has to be looked at earlier than was known before."""
        if self._latest.pop(rule, None) is None and rule in self._due:
            return False
        self._due[rule] = max(self._clock() + _GATHER, self._next(rule))
        return True

    def running_changed(self, rule: ObjectKey) -> bool:
        """Only the number of companions that run has changed. The result is as that of `changed`."""
        now, new = self._clock(), rule not in self._due
        if new:
            self._latest[rule] = now + _LONGEST * self._interval
        if (latest := self._latest.get(rule)) is not None:
            self._due[rule] = min(max(now + _QUIET * self._interval, self._next(rule)), latest)
        return new

    def wait(self, rule: ObjectKey) -> float:
        """How long the status has to wait; 0 or less for now."""
        return self._due.get(rule, 0.0) - self._clock()

    def begin(self, rule: ObjectKey) -> None:
        """The state is looked at: from here on every change asks for another look."""
        self._due.pop(rule, None)
        self._latest.pop(rule, None)

    def wrote(self, rule: ObjectKey) -> None:
        self._written[rule] = self._clock()

    def forget(self, rule: ObjectKey) -> None:
        """The rule is gone."""
        self._written.pop(rule, None)

    def _next(self, rule: ObjectKey) -> float:
        return self._written.get(rule, -self._interval) + self._interval
