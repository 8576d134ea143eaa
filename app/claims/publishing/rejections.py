"""Writes that an API server does not take as they are, and when such a write may be tried again."""

from __future__ import annotations

import math
import random as _random
import time
from collections.abc import Callable
from dataclasses import dataclass

from app.kube.retry import Backoff
from app.kube.store import Key

_FIRST, _LONGEST = 20.0, 600.0


@dataclass(slots=True)
class _Rejected:
    version: str
    data: object
    backoff: Backoff
    until: float = math.inf


class Rejections:
    """By claim: its version, and the data that were not taken for that. Times are in seconds.

    What the claim itself shows to be wrong passes with its next version. What a policy or a webhook refuses may pass
    at any time, for example when another claim gives up an address, and no change of the claim says so.
    """

    def __init__(
        self, *, clock: Callable[[], float] = time.monotonic, random: Callable[[], float] = _random.random
    ) -> None:
        self._clock, self._random = clock, random
        self._rejected: dict[Key, _Rejected] = {}

    def pause(self, claim: Key, version: str, data: object) -> float:
        """Seconds until the data may be written again; infinite for not before the claim changes, 0 for now."""
        one = self._rejected.get(claim)
        if one is None or (one.version, one.data) != (version, data):
            return 0.0
        return max(one.until - self._clock(), 0.0)

    def rejected(self, claim: Key, version: str, data: object, *, lasting: bool) -> None:
        """It was not taken; with `lasting` only a change of the claim helps."""
        one = self._rejected.get(claim)
        if one is None or (one.version, one.data) != (version, data):
            one = self._rejected[claim] = _Rejected(version, data, Backoff(_FIRST, _LONGEST, self._random))
        one.until = math.inf if lasting else self._clock() + one.backoff.next(at_least=_FIRST / 2)

    def forget(self, claim: Key) -> None:
        """It was written, or is gone."""
        self._rejected.pop(claim, None)
