"""Validation of when a CronJob runs. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from importlib.resources import files

from app.kinds.fielderrors import Field

_LONGEST = 1024
_DESCRIPTORS = frozenset({"@yearly", "@annually", "@monthly", "@weekly", "@daily", "@midnight", "@hourly"})
_EVERY = re.compile(r"@every [+-]?(?:0|(?:(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:ns|us|µs|μs|ms|s|m|h))+)", re.ASCII)
"""As `time.ParseDuration` of Go. No two parts take the same characters: the time would double with each."""
_MONTHS = ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"]
_DAYS = ["sun", "mon", "tue", "wed", "thu", "fri", "sat"]
_PARTS: tuple[tuple[int, int, list[str]], ...] = (
    (0, 59, []), (0, 23, []), (1, 31, []), (1, 12, ["", *_MONTHS]), (0, 6, _DAYS),
)  # fmt: skip
"""Of a schedule: least, most, and names by their number."""
_ZONE = re.compile(r"[A-Za-z.\-_0-9+]{1,14}", re.ASCII)
_ZONE_FILES = frozenset({"localtime", "posixrules"})
"""Files that systems have among those of zones, and that an API server takes for zones."""


def check_schedule(spec: Field) -> None:
    """The schedule and the time zone of a CronJob's spec."""
    if spec.required("schedule"):
        schedule = spec.text("schedule")
        for fault in schedule_faults(schedule):
            spec.fault("schedule", "Invalid", fault)
        if "TZ" in schedule:
            spec.fault("schedule", "Invalid", "cannot use TZ or CRON_TZ in schedule, use timeZone field instead")
    if "timeZone" in spec.value:
        _check_zone(spec)


def schedule_faults(schedule: str) -> list[str]:
    """What is wrong with a schedule in the form of cron, with five parts; before them may stand `TZ=` or `CRON_TZ=`.

    One of more than 1024 letters is not read. Source: robfig/cron v3, `ParseStandard`.
    """
    if len(schedule) > _LONGEST:
        return []
    if schedule.startswith(("TZ=", "CRON_TZ=")):
        schedule = schedule.partition(" ")[2].strip()
    if schedule.startswith("@"):
        fits = schedule in _DESCRIPTORS or _EVERY.fullmatch(schedule)
        return [] if fits else [f"unrecognized descriptor: {schedule}"]
    parts = schedule.split()
    if len(parts) != len(_PARTS):
        return [f"expected exactly {len(_PARTS)} fields, found {len(parts)}: [{' '.join(parts)}]"]
    for part, (least, most, names) in zip(parts, _PARTS, strict=True):
        for span in part.split(","):
            if fault := _span_fault(span, least, most, names) if span else "":
                return [fault]
    return []


def _check_zone(spec: Field) -> None:
    zone = spec.text("timeZone")
    parts = zone.split("/")
    if not zone:
        spec.fault("timeZone", "Invalid", "timeZone must be nil or non-empty string", "")
    elif any(part in (".", "..") or part.startswith("-") or not _ZONE.fullmatch(part) for part in parts):
        spec.fault("timeZone", "Invalid", f"unknown time zone {zone}")
    elif zone.lower() == "local":
        text = "timeZone must be an explicit time zone as defined in https://www.iana.org/time-zones"
        spec.fault("timeZone", "Invalid", text)
    elif zone.removeprefix("posix/").removeprefix("right/") not in _zones() | _ZONE_FILES:
        text = f"unknown time zone {zone}: want a name as in https://www.iana.org/time-zones, such as 'Europe/Berlin'"
        spec.fault("timeZone", "Invalid", text)


@cache
def _zones() -> frozenset[str]:
    """All zones of the IANA database, old names too."""
    return frozenset(files("tzdata").joinpath("zones").read_text().split())


def _span_fault(span: str, least: int, most: int, names: list[str]) -> str:
    """What is wrong with `*`, `1-5`, `*/2` or the like."""
    ends, *steps = span.split("/")
    bounds = ends.split("-")
    if len(steps) > 1 or (len(bounds) > 2 and bounds[0] not in "*?"):
        return f"too many {'slashes' if len(steps) > 1 else 'hyphens'}: {span}"
    numbers = [least, most] if bounds[0] in ("*", "?") else list(_numbers(bounds, names))
    if steps and len(bounds) == 1:
        numbers = [numbers[0], most]
    step = next(_numbers(steps, []), 1)
    if min(*numbers, step) < 0:
        return f"failed to parse int from {span}"
    if numbers[0] < least:
        return f"beginning of range ({numbers[0]}) below minimum ({least}): {span}"
    if numbers[-1] > most:
        return f"end of range ({numbers[-1]}) above maximum ({most}): {span}"
    if numbers[0] > numbers[-1]:
        return f"beginning of range ({numbers[0]}) beyond end of range ({numbers[-1]}): {span}"
    return "" if step else f"step of range should be a positive number: {span}"


def _numbers(texts: list[str], names: list[str]) -> Iterator[int]:
    """Each as a number, -1 for what is none."""
    for text in texts:
        named = text.lower() in names and bool(text)
        if named:
            yield names.index(text.lower())
        else:
            yield int(text) if re.fullmatch(r"[+]?[0-9]{1,9}", text, re.ASCII) else -1
