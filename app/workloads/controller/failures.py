"""Maps an API server's refusal to a reason for the author of a rule, and to the time before the next try.

Pure, except for the memory of `Restarts`: when lost companions may be created again.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from app.errors import ApiError
from app.workloads.companions.plan import Problem
from app.workloads.model import ObjectKey

DENIED_PAUSE = 1.0
"""Seconds at least between two tries of what was denied; they grow from there."""
SERVER_ERROR = "ServerError"
"""Reason of a companion of which it is not known whether it was made."""
GONE_PAUSE = 5.0
"""Where the namespace is missing or on its way out, nothing will change soon."""
_CALM = 600.0
"""Seconds without a loss after which the pauses of a companion start small again."""


def problem_of(error: ApiError) -> Problem | None:
    """Why a companion could not be written; None for what passes by itself (no answer, throttled, a conflict)."""
    text = str(error).partition(f"HTTP {error.status}: ")[2] or str(error)
    match error.status:
        case 403 if error.exceeded_quota:
            return Problem("QuotaExceeded", text)
        case 403 if "being terminated" in text:
            return Problem("NamespaceTerminating", text)
        case 404:
            return Problem("NamespaceMissing", text)
        case _ if error.rejected and "admission webhook" not in text:
            return Problem("Invalid", text)
        case status if status >= 500:
            return Problem(SERVER_ERROR, text)
        case 0 | 401 | 409 | 429:
            return None
        case _:
            return Problem("Denied", text)


def pause_of(problem: Problem | None) -> float | None:
    """The least wait in seconds before the next try; None leaves it to the usual backoff."""
    if problem is None:
        return None
    return GONE_PAUSE if problem.reason in ("NamespaceTerminating", "NamespaceMissing") else DENIED_PAUSE


class Restarts:
    """When a companion that was lost may be made anew: at once, and then after pauses from `pause` to `cap` seconds."""

    def __init__(self, *, pause: float, cap: float = 300.0, clock: Callable[[], float] = time.monotonic) -> None:
        self._pause = pause
        self._cap = cap
        self._clock = clock
        self._made: dict[ObjectKey, tuple[int, float]] = {}

    def wait(self, companion: ObjectKey) -> float:
        """Seconds until it may be made anew; 0 now."""
        times, last = self._made.get(companion, (0, 0.0))
        if not times:
            return 0.0
        return max(0.0, last + min(self._cap, self._pause * 2.0 ** min(times - 1, 32)) - self._clock())

    def made(self, companion: ObjectKey) -> None:
        """It is being made anew now."""
        now = self._clock()
        # Not every companion is forgotten by its end; those calm for long enough count no more. Oldest first.
        while self._made and now - next(iter(self._made.values()))[1] > self._cap + _CALM:
            del self._made[next(iter(self._made))]
        times, _ = self._made.pop(companion, (0, now))
        self._made[companion] = (times + 1, now)

    def forget(self, companion: ObjectKey) -> None:
        self._made.pop(companion, None)
