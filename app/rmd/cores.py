"""Sets of cores, as lists of texts say them and as a daemon takes them. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from app.pace import step
from app.text import quoted

MOST_CORES = 8192
"""The most CPUs that Linux runs on x86: the number of a core is below it."""
MOST_RANGES = MOST_CORES
"""Numbers and ranges of one list of texts: more cannot be different cores."""
Range = tuple[int, int]
"""The first and the last core."""
_PART = re.compile(r"(\^?) *([0-9]{1,5})(?: *- *([0-9]{1,5}))?")
SYNTAX = 'a core ("4"), a range ("0-3"), or a list of these ("0-3,6")'


def parse_cores(text: str) -> frozenset[int]:
    """The cores of one text, as `parse_ranges` reads it."""
    return cores_in(parse_ranges(text))


def parse_ranges(text: str) -> list[Range]:
    """The cores of one text: numbers and ranges with commas between, where `^` takes away; "" has none.

    The ranges ascend and do not touch. A text of megabytes has hundreds of thousands of parts, a list as many texts:
    a set of cores, or a mask, for each of them would take minutes. Raises ValueError, which says what is wrong and what
    would be right.
    """
    given: list[Range] = []
    without: list[Range] = []
    for part in text.split(",") if text.strip() else ():
        step()
        match = _PART.fullmatch(part.strip())
        if match is None:
            raise ValueError(f"want {SYNTAX}, got {quoted(part.strip())}")
        first = int(match[2])
        last = int(match[3] or first)
        if last < first:
            raise ValueError(f"want the lower core first, got {part.strip()!r}")
        if last >= MOST_CORES:
            raise ValueError(f"want cores below {MOST_CORES}, got {part.strip()!r}")
        (without if match[1] else given).append((first, last))
    return _difference(_merged(given), _merged(without)) if without else _merged(given)


def _merged(ranges: Iterable[Range]) -> list[Range]:
    """Ascending, and no two of them touch."""
    merged: list[Range] = []
    for first, last in sorted(ranges):
        if merged and first <= merged[-1][1] + 1:
            merged[-1] = (merged[-1][0], max(last, merged[-1][1]))
        else:
            merged.append((first, last))
    return merged


def _difference(given: list[Range], without: list[Range]) -> list[Range]:
    """What of merged ranges is not in the others, which are merged too."""
    left: list[Range] = []
    position = 0
    for first, last in given:
        while position < len(without) and without[position][0] <= last:
            taken_first, taken_last = without[position]
            if first < taken_first:
                left.append((first, taken_first - 1))
            first = max(first, taken_last + 1)  # noqa: PLW2901  the rest of the range
            if taken_last > last:
                break  # it may reach into the next range
            position += 1
        if first <= last:
            left.append((first, last))
    return left


def count_ranges(texts: Sequence[str]) -> int:
    """How many numbers and ranges these texts have, before one of them is read; of too many texts, one for each."""
    return len(texts) if len(texts) > MOST_RANGES else sum(text.count(",") + 1 for text in texts)


def cores_in(ranges: Iterable[Range]) -> frozenset[int]:
    """The numbers of all cores."""
    return frozenset(core for first, last in _merged(ranges) for core in range(first, last + 1))


def ranges_of(cores: Iterable[int]) -> tuple[str, ...]:
    """The cores as ascending ranges, one text each.

    A daemon reads a text with commas for cache ways, and not for P-states.
    """
    ranges = _merged((core, core) for core in cores)
    return tuple(str(first) if first == last else f"{first}-{last}" for first, last in ranges)


def numbers_of(cores: Iterable[int]) -> tuple[str, ...]:
    """The cores as ascending numbers, one text each."""
    return tuple(map(str, sorted(set(cores))))
