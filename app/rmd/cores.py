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
_PART = re.compile(r"(\^?) *([0-9]{1,5})(?: *- *([0-9]{1,5}))?")
SYNTAX = 'a core ("4"), a range ("0-3"), or a list of these ("0-3,6")'


def parse_cores(text: str) -> frozenset[int]:
    """The cores of one text, as `parse_mask` reads it."""
    return cores_in(parse_mask(text))


def parse_mask(text: str) -> int:
    """The cores of one text: numbers and ranges with commas between, where `^` takes away; "" has none.

    Each core is a bit. A text of megabytes has hundreds of thousands of ranges: sets of them take minutes. Raises
    ValueError, which says what is wrong and what would be right.
    """
    found = without = 0
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
        given = (1 << last + 1) - (1 << first)
        if match[1]:
            without |= given
        else:
            found |= given
    return found & ~without


def count_ranges(texts: Sequence[str]) -> int:
    """How many numbers and ranges these texts have, before one of them is read; of too many texts, one for each."""
    return len(texts) if len(texts) > MOST_RANGES else sum(text.count(",") + 1 for text in texts)


def cores_in(mask: int) -> frozenset[int]:
    """The numbers of the bits that are set."""
    # A shift for each core would go through the whole mask each time.
    return frozenset(core for core, digit in enumerate(reversed(f"{mask:b}")) if digit == "1")


def ranges_of(cores: Iterable[int]) -> tuple[str, ...]:
    """The cores as ascending ranges, one text each.

    A daemon reads a text with commas for cache ways, and not for P-states.
    """
    found: list[tuple[int, int]] = []
    for core in sorted(set(cores)):
        if found and found[-1][1] == core - 1:
            found[-1] = (found[-1][0], core)
        else:
            found.append((core, core))
    return tuple(str(first) if first == last else f"{first}-{last}" for first, last in found)


def numbers_of(cores: Iterable[int]) -> tuple[str, ...]:
    """The cores as ascending numbers, one text each."""
    return tuple(map(str, sorted(set(cores))))
