"""Lengths of time and sizes as kubectl's columns print them. Pure."""

from __future__ import annotations

from datetime import UTC, datetime

UNKNOWN = "<unknown>"


def human_duration(seconds: float) -> str:
    """`5s`, `2m5s`, `27h`, `3d4h`, `400d`, `3y12d`: about three significant digits, as the API server shows ages."""
    total = int(seconds)
    if total < -1:
        return "<invalid>"
    if total < 0:
        return "0s"
    minutes, hours, days = total // 60, total // 3600, total // 86400
    steps = (
        (total < 60 * 2, f"{total}s"),
        (minutes < 10, _pair(minutes, "m", total % 60, "s")),
        (minutes < 60 * 3, f"{minutes}m"),
        (hours < 8, _pair(hours, "h", minutes % 60, "m")),
        (hours < 48, f"{hours}h"),
        (days < 8, _pair(days, "d", hours % 24, "h")),
        (days < 365 * 2, f"{days}d"),
        (days < 365 * 8, _pair(days // 365, "y", days % 365, "d")),
    )
    return next((text for fits, text in steps if fits), f"{days // 365}y")


def _pair(large: int, large_unit: str, small: int, small_unit: str) -> str:
    return f"{large}{large_unit}{small}{small_unit}" if small else f"{large}{large_unit}"


def parse_time(text: object) -> float | None:
    """Seconds since the epoch of an RFC 3339 text (fractions of any length); None for anything else."""
    if not isinstance(text, str) or not text:
        return None
    head, _, fraction = text.partition(".")
    zone = "" if not fraction else fraction.lstrip("0123456789")
    try:
        moment = datetime.fromisoformat(head + zone)
    except ValueError:
        return None
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()


def age(text: object, *, now: float) -> str:
    """The time since `text` (RFC 3339) as a column value; `<unknown>` where there is no such time."""
    moment = parse_time(text)
    return UNKNOWN if moment is None else human_duration(now - moment)
