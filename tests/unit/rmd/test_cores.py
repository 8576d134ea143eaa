"""Lists of cores, read and written."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.rmd.cores import MOST_CORES, parse_cores, parse_ranges, ranges_of


@pytest.mark.parametrize(
    ("text", "cores"),
    [
        ("4", {4}),
        ("0-3", {0, 1, 2, 3}),
        ("0-3,6", {0, 1, 2, 3, 6}),
        (" 0 - 2 , 5 ", {0, 1, 2, 5}),
        ("2-8,^3-4", {2, 5, 6, 7, 8}),
        ("^1,0-2", {0, 2}),
        ("", set()),
    ],
)
def test_reads(text: str, cores: set[int]) -> None:
    assert parse_cores(text) == cores


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("9-4", "want the lower core first, got '9-4'"),
        ("abc", "got 'abc'"),
        ("-1", "got '-1'"),
        ("1,,2", "got ''"),
        ("1-2-3", "got '1-2-3'"),
        (str(MOST_CORES), f"want cores below {MOST_CORES}"),
        ("0-99999", f"want cores below {MOST_CORES}"),
        ("²", "got '²'"),
        ("x" * 1000, f"got '{'x' * 79}…'"),
    ],
)
def test_says_what_is_wrong(text: str, message: str) -> None:
    with pytest.raises(ValueError, match=message.replace("(", r"\(")):
        parse_cores(text)


def test_writes_one_text_for_each_range() -> None:
    assert ranges_of([8, 0, 1, 2, 3, 6, 95, 94]) == ("0-3", "6", "8", "94-95")
    assert ranges_of([]) == ()


@given(st.sets(st.integers(0, 200)))
def test_reads_what_it_writes(cores: set[int]) -> None:
    assert parse_cores(",".join(ranges_of(cores))) == cores
    assert all("," not in text for text in ranges_of(cores))


PARTS = st.tuples(st.booleans(), st.integers(0, 40), st.integers(0, 5))


@given(st.lists(PARTS, max_size=12))
def test_cores_are_those_of_sets(parts: list[tuple[bool, int, int]]) -> None:
    """`^` takes away wherever it stands."""
    text = ",".join(f"{'^' if taken else ''}{first}-{first + more}" for taken, first, more in parts)
    sets = [(taken, set(range(first, first + more + 1))) for taken, first, more in parts]
    given = set().union(*(cores for taken, cores in sets if not taken))
    assert parse_cores(text) == given.difference(*(cores for taken, cores in sets if taken))
    ranges = parse_ranges(text)
    assert all(before[1] + 1 < after[0] for before, after in itertools.pairwise(ranges))
