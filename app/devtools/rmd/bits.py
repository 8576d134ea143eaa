"""Sets of CPUs and of cache ways as bits of a number, and the texts for them. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from app.devtools.rmd.failures import Crash

WORD = 32
"""CPUs in one word of the daemon's bitmaps."""
_PIECE = re.compile(r"\^?[0-9]+(-[0-9]+)?")


def mask_of(cpus: str) -> int:
    """The bits of a well-formed list such as `0-3,8`; no bits for ""."""
    mask = 0
    for piece in filter(None, cpus.split(",")):
        low, _, high = piece.partition("-")
        mask |= _span(int(low), int(high or low))
    return mask


def parsed(items: Iterable[str], *, cpus: int | None = None) -> int:
    """The bits of a workload's core ids, read as the daemon's bitmaps read them: `2-8,^3-4` excludes 3 and 4.

    Raises ValueError with the daemon's text for what cannot be read, and Crash where the daemon panics: a list without
    any digit, and a CPU beyond the words of a machine with `cpus` CPUs. A range that runs downwards takes all bits of
    its word from its first number on; the daemon also takes bits beyond the word.
    """
    listed, mask = list(items), 0
    if cpus is None and not re.search(r"[0-9]", "".join(listed)):
        raise Crash
    for item in listed:
        for piece in item.split(","):
            if not piece:
                raise ValueError('strconv.Atoi: parsing "": invalid syntax')
            if not _PIECE.fullmatch(piece):
                raise ValueError(f"wrong expression : {item}")
            bits = _bits(piece.removeprefix("^"))
            if cpus is not None and bits.bit_length() > -(-cpus // WORD) * WORD:
                raise Crash
            mask = mask & ~bits if piece.startswith("^") else mask | bits
    return mask


def _bits(piece: str) -> int:
    low, _, high = piece.partition("-")
    first, last = int(low), int(high or low)
    if first > last and first // WORD == last // WORD:
        last = (first // WORD + 1) * WORD - 1
    return _span(first, last)


def numbers(items: Iterable[str]) -> list[int]:
    """Each number of items that are one number or one range, as the daemon reads them for plugins; else ValueError."""
    found: list[int] = []
    for item in items:
        low, dash, high = (part.strip() for part in item.partition("-"))
        first, last = int(low), int(high if dash else low)
        if first > last:
            raise ValueError("Wrong syntax for coreIDs")
        found.extend(range(first, last + 1))
    return found


def members(mask: int) -> Iterator[int]:
    """The positions of the bits, ascending."""
    return (bit for bit in range(mask.bit_length()) if mask >> bit & 1)


def runs(mask: int) -> list[tuple[int, int]]:
    """Position and length of each run of bits, ascending."""
    found: list[tuple[int, int]] = []
    for bit in members(mask):
        if found and sum(found[-1]) == bit:
            found[-1] = (found[-1][0], found[-1][1] + 1)
        else:
            found.append((bit, 1))
    return found


def highest(mask: int, count: int) -> int:
    """The highest `count` neighboring bits; 0 where there are not so many."""
    return next(
        (_span(at + length - count, at + length - 1) for at, length in reversed(runs(mask)) if length >= count), 0
    )


def lowest(mask: int, count: int) -> int:
    """The lowest `count` neighboring bits; 0 where there are not so many."""
    return next((_span(at, at + count - 1) for at, length in runs(mask) if length >= count), 0)


def text_of(mask: int) -> str:
    """The bits as ranges: `0-3,8`; "" for none."""
    return ",".join(f"{at}-{at + length - 1}" if length > 1 else f"{at}" for at, length in runs(mask))


def _span(first: int, last: int) -> int:
    return ((1 << (last + 1)) - 1) & ~((1 << first) - 1) if last >= first else 0
