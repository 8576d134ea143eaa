"""How long to wait before the next try: exponential growth with full jitter.

Full jitter (uniform between zero and the grown limit) keeps many replicas that failed together from
coming back together. It computes delays only; sleeping is the caller's.
"""

from __future__ import annotations

import random as _random
from collections.abc import Callable
from dataclasses import dataclass, field


def jittered(attempt: int, *, base: float, cap: float, random: Callable[[], float] = _random.random) -> float:
    """Seconds before try number `attempt` (0 is the first retry): uniform in [0, min(cap, base * 2**attempt)]."""
    # The exponent is bounded because 2.0**1024 overflows, and a fault may last for weeks.
    return random() * min(cap, base * 2.0 ** min(attempt, 64))


@dataclass(slots=True)
class Backoff:
    """A growing delay; `random` returns floats in [0, 1) and is injectable for tests."""

    base: float = 0.8
    cap: float = 30.0
    random: Callable[[], float] = _random.random
    attempts: int = field(default=0, init=False)

    def next(self, *, at_least: float | None = None) -> float:
        """The next delay in seconds, never below `at_least` (a server's Retry-After); counts one attempt."""
        delay = jittered(self.attempts, base=self.base, cap=self.cap, random=self.random)
        self.attempts += 1
        return max(delay, at_least or 0.0)

    def reset(self, attempts: int = 0) -> None:
        """Start again from the small delays, or from those after `attempts` tries."""
        self.attempts = attempts
