"""When what has failed may be tried again, by key: pauses that grow with each try.

For what is refused, rejected or undone by others, and for what others are given time to do. Times are in seconds.
"""

from __future__ import annotations

import math
import random as _random
import time
from collections.abc import Callable, Hashable, Iterable, Iterator
from dataclasses import dataclass
from typing import Generic, TypeVar

from app.kube.retry import Backoff

K = TypeVar("K", bound=Hashable)


@dataclass(frozen=True, slots=True)
class Growth:
    """A pause is random below a limit, which doubles from `first` to `longest`.

    It is at least `floor` of the limit, and `least` seconds. Random, so that two writers do not keep in step. The first
    `quick` pauses have the limit `soon` instead.
    """

    first: float
    longest: float
    floor: float = 0.0
    least: float = 0.0
    quick: int = 0
    soon: float = 0.0


@dataclass(slots=True)
class _Pause:
    about: object
    backoff: Backoff
    until: float = 0.0
    pauses: int = 0
    tries: int = 0
    tried: bool = True
    """Whether something was let through since the pause began, so that another failure is a new one."""


class Pauses(Generic[K]):
    """Until when what has failed is not tried again, by key. It holds for the `about` that failed, and no other.

    `hold` are the seconds for which one try keeps the others of its key waiting. A key without a failure for `quiet`
    seconds after its last pause begins anew; of more than `most` keys the oldest do.
    """

    def __init__(
        self,
        growth: Growth,
        *,
        hold: float = 0.0,
        quiet: float = math.inf,
        most: float = math.inf,
        clock: Callable[[], float] = time.monotonic,
        random: Callable[[], float] = _random.random,
    ) -> None:
        self._growth, self._hold, self._quiet, self._most = growth, hold, quiet, most
        self._clock, self._random = clock, random
        self._pauses: dict[K, _Pause] = {}

    def failed(self, key: K, about: object = None, *, lasting: bool = False) -> None:
        """Begin a pause; with `lasting` it ends only with another `about`.

        Failures of tries that were under way together are one; whether it is lasting, the last of them says.
        """
        now = self._clock()
        pause = self._pauses.get(key)
        if pause is None or pause.about != about or (pause.tried and now - pause.until > self._quiet):
            pause = self._begin(key, about)
        if pause.tried or lasting != math.isinf(pause.until):
            pause.until = math.inf if lasting else now + self._next(pause)
            pause.pauses, pause.tried = pause.pauses + 1, False

    def left(self, key: K, about: object = None) -> float:
        """Seconds until it may be tried again; 0 for now, infinite for not with this `about`."""
        pause = self._pauses.get(key)
        return 0.0 if pause is None or pause.about != about else max(pause.until - self._clock(), 0.0)

    def wait(self, keys: Iterable[K], about: object = None) -> float:
        """Seconds until what needs all these keys may be tried, not all at the same moment. At 0 the caller tries."""
        keys = list(keys)
        longest = max((self.left(key, about) for key in keys), default=0.0)
        if longest > 0:
            return longest + self._random() * self._hold
        now = self._clock()
        for key in keys:
            pause = self._pauses.get(key)
            if pause is not None and pause.about == about:
                pause.tried, pause.tries = True, pause.tries + 1
                if self._hold:
                    pause.until = now + self._hold
        return 0.0

    def tries(self, key: K) -> int:
        """How many were let through since the first failure."""
        pause = self._pauses.get(key)
        return 0 if pause is None else pause.tries

    def passed(self, *keys: K) -> bool:
        """It went well, or is not tried any more; True where one of the keys had failed."""
        return bool([key for key in keys if self._pauses.pop(key, None) is not None])

    def recent(self, within: float) -> list[K]:
        """The keys that failed, without those that were not asked for in so many seconds since they may be tried."""
        now = self._clock()
        return [key for key, pause in self._pauses.items() if now - pause.until < within]

    def __iter__(self) -> Iterator[K]:
        return iter(self._pauses)

    def _next(self, pause: _Pause) -> float:
        growth, backoff = self._growth, pause.backoff
        if pause.pauses < growth.quick:
            return self._random() * growth.soon
        return backoff.next(at_least=max(growth.floor * backoff.limit, growth.least))

    def _begin(self, key: K, about: object) -> _Pause:
        self._pauses.pop(key, None)
        pause = self._pauses[key] = _Pause(about, Backoff(self._growth.first, self._growth.longest, self._random))
        if len(self._pauses) > self._most:
            del self._pauses[next(iter(self._pauses))]
        return pause
