"""Values that a key finds in a workload, as text: what rules compare and what annotations get.

Nothing here knows keys or rules. Numbers are written as JSON writes them; a number without a fraction has no
decimal point, whatever form it traveled in.
"""

from __future__ import annotations

import math
from typing import Any

from app.wire import encode_sorted

_EXACT = 2**53
"""Above this a float no longer tells every integer apart; it keeps its own form."""


def comparable(value: Any) -> str | None:
    """The text that `In` and `NotIn` compare; None where there is nothing to compare: null, a map or a list."""
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value)
    if isinstance(value, float):
        return _number(value)
    return None


def rendered(value: Any) -> str | None:
    """The text of an annotation, or None where there must be none.

    A string stays as it is; everything else is compact JSON with sorted keys and without escapes for characters that
    need none. The same value always gives the same text.
    """
    if isinstance(value, dict | list):
        return encode_sorted(value).decode()
    return comparable(value)


def _number(value: float) -> str | None:
    if not math.isfinite(value):
        return None  # JSON has no word for it
    if value.is_integer() and abs(value) < _EXACT:
        return str(int(value))
    return encode_sorted(value).decode()
