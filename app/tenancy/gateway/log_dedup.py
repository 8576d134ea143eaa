"""Limits repeated log lines: of equal lines it writes the first, and then one per window with the number left out.

For lines that a caller can cause at will. The code that logs them also counts each one in the metrics.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import structlog

WINDOW = 10.0
"""Seconds in which equal lines are one."""
_KEYS = 1000
"""Different lines that are told apart at a time; beyond these all lines of one event are equal."""

log = structlog.get_logger(__name__)
_Key = tuple[str, tuple[tuple[str, str], ...]]


@dataclass(slots=True)
class _Spared:
    since: float
    left_out: int = 0


class SparingLog:
    """Writes the first of equal lines, then one a window with the number of those that were left out."""

    def __init__(self, *, window: float = WINDOW, clock: Callable[[], float] = time.monotonic) -> None:
        self._window = window
        self._clock = clock
        self._spared: dict[_Key, _Spared] = {}

    def warning(self, event: str, same: Mapping[str, str], **details: str) -> None:
        """Lines of one `event` with the `same` fields are equal; `details` are of the one that is written."""
        key: _Key = (event, tuple(same.items()))
        if key not in self._spared and len(self._spared) >= _KEYS:
            key = (event, ())
        now, held = self._clock(), self._spared.get(key)
        if held is not None and now - held.since < self._window:
            held.left_out += 1
            return
        self._spared[key] = _Spared(now)
        log.warning(event, **same, **details, left_out=held.left_out if held is not None else 0)

    def review(self) -> None:
        """Forget the lines whose window is over, and say how many were left out of each; call it now and then."""
        now = self._clock()
        for key, held in list(self._spared.items()):
            if now - held.since < self._window:
                continue
            del self._spared[key]
            if held.left_out:
                event, same = key
                log.warning(event, **dict(same), left_out=held.left_out)
