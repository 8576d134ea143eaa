"""What the API server does not permit: which rule is missing, and when a write tries again whether it is there."""

from __future__ import annotations

import random as _random
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from app.kube.resources import RESOURCE_CLAIMS
from app.kube.retry import Backoff

STATUS = ""
"""The permission for the status as a whole. The others are named by drivers."""
_FIRST, _LONGEST = 1.0, 300.0
_ATTEMPT = 0.5
"""Seconds for which a write that tries again keeps the others waiting."""


def missing_rule(driver: str, verb: str) -> str:
    """The rule to add to the role, where this was refused. `verb` is the one for drivers."""
    group = RESOURCE_CLAIMS.group
    if driver == STATUS:
        return f"apiGroups [{group}], resources [{RESOURCE_CLAIMS.plural}/status], verbs [patch]"
    resource = f"{RESOURCE_CLAIMS.plural}/driver"
    return f"apiGroups [{group}], resources [{resource}], verbs [{verb}], resourceNames [{driver}]"


@dataclass(slots=True)
class _Refused:
    backoff: Backoff
    until: float = 0.0
    tried: bool = True
    """Whether a write that was sent after the pause may bring the next refusal."""


class Refusals:
    """By driver, or `STATUS`; times in seconds."""

    def __init__(
        self, *, clock: Callable[[], float] = time.monotonic, random: Callable[[], float] = _random.random
    ) -> None:
        self._clock, self._random = clock, random
        self._refused: dict[str, _Refused] = {}

    @property
    def names(self) -> list[str]:
        """What is refused now. What no write has asked for since is left out: its claims are gone."""
        now = self._clock()
        return sorted(name for name, refusal in self._refused.items() if now - refusal.until < _LONGEST)

    def pause(self, drivers: Iterable[str]) -> float:
        """Seconds until a write for these may be tried. At 0 the caller tries, and others wait for its outcome."""
        refused = [refusal for name in (STATUS, *drivers) if (refusal := self._refused.get(name)) is not None]
        now = self._clock()
        pause = max((refusal.until - now for refusal in refused), default=0.0)
        if pause > 0:
            # Not all at the same moment.
            return pause + self._random() * _ATTEMPT
        for refusal in refused:
            refusal.until, refusal.tried = now + _ATTEMPT, True
        return 0.0

    def refused(self, names: Iterable[str]) -> None:
        """Writes that were under way together are refused together: they count as one."""
        now = self._clock()
        for name in names:
            refusal = self._refused.setdefault(name, _Refused(Backoff(_FIRST, _LONGEST, self._random)))
            if refusal.tried:
                limit = min(_LONGEST, _FIRST * 2.0 ** min(refusal.backoff.attempts, 16))
                refusal.until, refusal.tried = now + refusal.backoff.next(at_least=limit / 2), False

    def granted(self, drivers: Iterable[str]) -> bool:
        """A write for these was taken; True where it had been refused before."""
        found = [name for name in (STATUS, *drivers) if self._refused.pop(name, None) is not None]
        return bool(found)
