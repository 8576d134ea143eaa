"""Lists of CPUs as the daemon's bitmaps read them, and masks of ways."""

from __future__ import annotations

import pytest

from app.devtools.rmd.bits import highest, lowest, mask_of, numbers, parsed, runs, text_of
from app.devtools.rmd.failures import Crash


@pytest.mark.parametrize(
    ("items", "listed"),
    [
        (["4"], "4"),
        (["0-3", "6"], "0-3,6"),
        (["0,3,8-95"], "0,3,8-95"),
        (["2-8,^3-4"], "2,5-8"),
        (["1", "^1"], ""),
        (["9-4"], "9-31"),
        (["30-34"], "30-34"),
    ],
)
def test_lists(items: list[str], listed: str) -> None:
    assert text_of(parsed(items)) == listed


@pytest.mark.parametrize(
    ("items", "text"),
    [
        (["1a"], "wrong expression : 1a"),
        ([" 4"], "wrong expression :  4"),
        (["1", "abc"], "wrong expression : abc"),
        (["1,,2"], 'strconv.Atoi: parsing "": invalid syntax'),
    ],
)
def test_bad_lists(items: list[str], text: str) -> None:
    with pytest.raises(ValueError, match="^" + text.replace("(", r"\(") + "$"):
        parsed(items)


def test_what_makes_the_daemon_panic() -> None:
    with pytest.raises(Crash):
        parsed(["abc"])
    with pytest.raises(Crash):
        parsed(["32"], cpus=8)
    assert parsed(["31"], cpus=8) == 1 << 31, "a CPU that is not there, in a word that is"


def test_numbers_for_plugins() -> None:
    assert numbers(["0-2", " 6 "]) == [0, 1, 2, 6]
    for bad in ("9-4", "abc", "0,3"):
        with pytest.raises(ValueError):
            numbers([bad])


def test_neighboring_ways() -> None:
    mask = mask_of("0-1,4-6")
    assert runs(mask) == [(0, 2), (4, 3)]
    assert [text_of(highest(mask, count)) for count in (1, 2, 3, 4)] == ["6", "5-6", "4-6", ""]
    assert [text_of(lowest(mask, count)) for count in (1, 2, 3, 4)] == ["0", "0-1", "4-6", ""]
