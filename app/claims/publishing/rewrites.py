"""When fields that another writer removed may be applied again: a budget for each claim, then growing pauses."""

from __future__ import annotations

import random as _random
import time
from collections.abc import Callable
from dataclasses import dataclass

from app.kube.retry import Backoff

BUDGET = 5
"""Rewrites of a claim after short pauses. Those beyond come after growing ones."""
_SHORT = 0.5
_FIRST, _LONGEST = 1.0, 300.0
_QUIET = 600.0
"""Seconds without a rewrite after which a claim has its whole budget again."""
_CLAIMS = 4096
"""Claims whose rewrites are remembered."""


@dataclass(slots=True)
class _Claim:
    backoff: Backoff
    count: int = 0
    due: float = 0.0
    waiting: bool = False


class Rewrites:
    """Claims are known by their UIDs, times are in seconds.

    Pauses have full jitter, so that two writers do not keep in step.
    """

    def __init__(
        self, *, clock: Callable[[], float] = time.monotonic, random: Callable[[], float] = _random.random
    ) -> None:
        self._clock, self._random = clock, random
        self._claims: dict[str, _Claim] = {}

    def pause(self, claim: str) -> float:
        """Seconds until what vanished may be written again; 0 for now, which counts as a rewrite."""
        now = self._clock()
        one = self._claims.get(claim)
        if one is None or (not one.waiting and now - one.due > _QUIET):
            one = self._new(claim)
        if not one.waiting:
            one.waiting = True
            one.due = now + (self._random() * _SHORT if one.count < BUDGET else one.backoff.next())
        if one.due > now:
            return one.due - now
        one.waiting = False
        one.count += 1
        return 0.0

    def count(self, claim: str) -> int:
        """Rewrites since it last had its whole budget."""
        one = self._claims.get(claim)
        return 0 if one is None else one.count

    def _new(self, claim: str) -> _Claim:
        made = _Claim(Backoff(_FIRST, _LONGEST, self._random))
        self._claims.pop(claim, None)
        self._claims[claim] = made
        if len(self._claims) > _CLAIMS:
            del self._claims[next(iter(self._claims))]
        return made
