"""Prepares new rules in small slices before they are put into the matcher, so that the event loop stays responsive.

The rule that a new one replaces stays in force meanwhile.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterator

from app.workloads.matching.matcher import Matcher
from app.workloads.matching.preparing import Preparation
from app.workloads.model import ObjectKey, Rule

_SLICE = 0.005
"""Seconds that the event loop is held at a time."""


class Warming:
    """`put` in what is heavy; `done` gets the key of the rule and the workloads that `put_rule` returned.

    Namespaces take turns, each with its oldest rule: expensive rules of one tenant delay only its own. A cancelled
    task loses only unfinished evaluations.
    """

    def __init__(self, matcher: Matcher, done: Callable[[ObjectKey, set[ObjectKey]], None]) -> None:
        self._matcher = matcher
        self._done = done
        self._waiting: dict[ObjectKey, Rule] = {}
        self._begun: dict[ObjectKey, tuple[Preparation, Iterator[None]]] = {}
        self._filled = asyncio.Event()

    def __contains__(self, rule: ObjectKey) -> bool:
        return rule in self._waiting

    def put(self, rule: Rule) -> None:
        """Instead of another version that may wait already."""
        self.drop(rule.key)
        self._waiting[rule.key] = rule
        self._filled.set()

    def drop(self, rule: ObjectKey) -> bool:
        """It is not to be put any more; whether it waited."""
        self._begun.pop(rule, None)
        return self._waiting.pop(rule, None) is not None

    async def run(self, ready: Callable[[], Awaitable[None]]) -> None:
        """Until cancelled. Begins when `ready` returns: workloads that are still coming in would be looked at twice."""
        await ready()
        while True:
            await self._filled.wait()
            for key in {key[0]: key for key in reversed(self._waiting)}.values():
                self._work(key)
                await asyncio.sleep(0)  # other tasks run
            if not self._waiting:
                self._filled.clear()

    def _work(self, key: ObjectKey) -> None:
        rule = self._waiting.get(key)
        if rule is None:
            return  # dropped since the turn began
        if key not in self._begun:
            preparation = self._matcher.prepare(rule)
            self._begun[key] = preparation, preparation.steps()
        preparation, steps = self._begun[key]
        end = time.perf_counter() + _SLICE
        for _ in steps:
            if time.perf_counter() >= end:
                return
        self.drop(key)
        self._done(key, self._matcher.put_rule(rule, preparation))
