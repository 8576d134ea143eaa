"""Which stream wrote a Workload: an annotation that sorts by time, so that replicas tell a newer stream from their own.

A replica does not notice at once that an agent has gone to another one. Until then its stream must not take for left
over what the agent has sent to its newer stream. Clocks of replicas may differ: a new stream's id is later than every
id its replica knows of, whatever the clock says. Pure but for the clock that is passed in.
"""

from __future__ import annotations

import re
import secrets
import time
from collections.abc import Callable, Iterable

from app.wire import JSON

STREAM = "berth.dev/stream"
"""Annotation on a Workload, by the gateway: the id of the stream that last wrote it; absent on one made by hand."""

_DIGITS = 15
_ID = re.compile(rf"0[0-9]{{{_DIGITS - 1}}}-[0-9a-f]{{8}}")


class StreamIds:
    """Gives out ids `<milliseconds since the epoch>-<random>`, as text of one length: each later than those before."""

    def __init__(self, *, clock: Callable[[], float] = time.time) -> None:
        self._clock = clock
        self._last = 0

    def next(self, known: Iterable[str]) -> str:
        """An id later than all that are `known` ("" is none)."""
        latest = max(known, default="")
        seen = int(latest.partition("-")[0]) if latest else 0
        self._last = max(int(self._clock() * 1000), self._last + 1, seen + 1)
        return f"{self._last:0{_DIGITS}d}-{secrets.token_hex(4)}"


def stream_of(obj: JSON) -> str:
    """The id on a stored Workload; "", which is earlier than every id, where there is none that can be read."""
    found = (obj["metadata"].get("annotations") or {}).get(STREAM)
    # With a leading zero: one more than the last of these still has as many digits, and sorts after it.
    return found if isinstance(found, str) and _ID.fullmatch(found) else ""
