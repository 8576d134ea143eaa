"""Quantities: the grammar of the API, exact to the last digit."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.kube.quantity import canonical, is_integer, parse, parse_integer

POWERS = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
BINARY = {"Ki": 1, "Mi": 2, "Gi": 3, "Ti": 4, "Pi": 5, "Ei": 6}
LIMIT = 2**63 - 1


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("0", "0"),
        ("2", "2"),
        ("+2", "2"),
        ("-2", "-2"),
        ("100m", "0.1"),
        ("1.5", "1.5"),
        (".5", "0.5"),
        ("5.", "5"),
        ("1Ki", "1024"),
        ("1.5Gi", "1610612736"),
        ("1k", "1000"),
        ("1E", "1000000000000000000"),
        ("1e3", "1000"),
        ("1E3", "1000"),
        ("1E-3", "0.001"),
        ("5e+2", "500"),
        ("1n", "0.000000001"),
        ("0.1n", "0.000000001"),
        ("-0.1n", "-0.000000001"),
        ("1.0000000001", "1.000000001"),
        ("9223372036854775807", "9223372036854775807"),
        ("9223372036854775808", "9223372036854775807"),
        ("9223372036854775806.000000001", "9223372036854775806.000000001"),
        ("-16Ei", "-9223372036854775807"),
        ("1e999999", "9223372036854775807"),
        ("1e-999999", "0.000000001"),
        ("0e999999", "0"),
        (2, "2"),
        (0.1, "0.1"),
    ],
)
def test_value(text: Any, value: str) -> None:
    assert parse(text) == Decimal(value)


@pytest.mark.parametrize(
    "text", ["", " ", "1 ", " 1", "abc", ".", "1.2.3", "1KiB", "1K", "1ki", "1e", "1e3.5", "--1", "1Gi2", "0x10", "\u0661", "1_000", "nan", "inf", "1" * 100, None, True, [], {}]
)  # fmt: skip
def test_malformed_text_is_named(text: Any) -> None:
    with pytest.raises(ValueError, match="is not a quantity") as caught:
        parse(text)
    assert repr(text)[:50] in str(caught.value)
    assert not is_integer(text)


@given(st.integers(-LIMIT, LIMIT), st.sampled_from(sorted(POWERS)))
def test_decimal_suffixes_are_exact(number: int, suffix: str) -> None:
    exact = Fraction(number) * Fraction(10) ** POWERS[suffix]
    expected = max(-LIMIT, min(LIMIT, exact))
    assert Fraction(parse(f"{number}{suffix}")) == expected


@given(st.integers(0, 10**9), st.integers(0, 10**6), st.sampled_from(sorted(BINARY)))
def test_binary_suffixes_round_up_to_a_billionth(whole: int, fraction: int, suffix: str) -> None:
    text = f"{whole}.{fraction:06d}{suffix}"
    exact = Fraction(f"{whole}.{fraction:06d}") * 1024 ** BINARY[suffix]
    value = Fraction(parse(text))
    if exact >= LIMIT:
        assert value == LIMIT
    else:
        assert 0 <= value - exact < Fraction(1, 10**9)


@given(value=st.integers(0, LIMIT), binary=st.booleans())
def test_canonical_form_reads_back(value: int, *, binary: bool) -> None:
    text = canonical(value, binary=binary)
    assert parse_integer(text) == value
    assert canonical(parse_integer(text), binary=binary) == text


@pytest.mark.parametrize(
    ("value", "binary", "text"),
    [(0, False, "0"), (2, False, "2"), (1000, False, "1k"), (1500, False, "1500"), (2048, True, "2Ki"), (10**18, False, "1E"), (-3000, False, "-3k"), (1000, True, "1000")],
)  # fmt: skip
def test_canonical(value: int, *, binary: bool, text: str) -> None:
    assert canonical(value, binary=binary) == text


@given(st.text(max_size=30))
def test_any_text_is_a_value_or_a_value_error(text: str) -> None:
    try:
        assert -LIMIT <= parse(text) <= LIMIT
    except ValueError as error:
        assert repr(text) in str(error)  # noqa: PT017 - both ways out are right


@pytest.mark.parametrize(
    ("text", "whole"), [("2", True), ("2000m", True), ("1k", True), ("500m", False), ("-1", False)]
)
def test_whole_numbers(text: str, *, whole: bool) -> None:
    assert is_integer(text) is whole
    if not whole:
        with pytest.raises(ValueError, match=f"'{text}' is not a whole number"):
            parse_integer(text)
