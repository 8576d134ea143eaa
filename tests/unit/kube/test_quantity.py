"""Quantities: the grammar of the API, exact to the last digit. What a server answers was asked of Kubernetes 1.36.2."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.kube.quantity import QuantityError, canonical, parse, parse_integer, total

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
        ("9223372036854775808", "9223372036854775808"),
        ("9223372036854775806.000000001", "9223372036854775806.000000001"),
        ("-16Ei", "-9223372036854775807"),
        ("1e41", "1e41"),
        ("1e999999", "1e999999"),
        ("8Ei", "9223372036854775807"),
        ("100Ei", "9223372036854775807"),
        ("9223372036854775806.5Ki", "9223372036854775807"),
        ("1e-999999", "0.000000001"),
        ("0e999999", "0"),
        (".", "0"),
        ("-", "0"),
        ("e3", "0"),
        ("Ki", "0"),
        (" 1", "1"),
        ("1 ", "1"),
        ("1" * 100, "1" * 100),
        (2, "2"),
        (0.1, "0.1"),
    ],
)
def test_value(text: Any, value: str) -> None:
    assert parse(text) == Decimal(value)


@pytest.mark.parametrize(
    "text",
    ["", " ", "abc", "1.2.3", "1KiB", "1K", "1ki", "1e", "1e3.5", "--1", "1Gi2", "1 Ki", "0x10", "\u0661", "1_000", "nan", "inf", "1" * 2000, "1e9999999", None, True, [], {}],
)  # fmt: skip
def test_malformed_text_is_named(text: Any) -> None:
    with pytest.raises(ValueError, match="is not a quantity") as caught:
        parse(text)
    assert repr(text)[:50] in str(caught.value)


@given(st.integers(-LIMIT, LIMIT), st.sampled_from(sorted(POWERS)))
def test_decimal_suffixes_are_exact(number: int, suffix: str) -> None:
    exact = Fraction(number) * Fraction(10) ** POWERS[suffix]
    assert Fraction(parse(f"{number}{suffix}")) == exact


@given(st.integers(0, 10**9), st.integers(0, 10**6), st.sampled_from(sorted(BINARY)))
def test_binary_suffixes_round_up_to_a_billionth(whole: int, fraction: int, suffix: str) -> None:
    text = f"{whole}.{fraction:06d}{suffix}"
    exact = Fraction(f"{whole}.{fraction:06d}") * 1024 ** BINARY[suffix]
    value = Fraction(parse(text))
    if exact >= LIMIT:
        assert value == LIMIT
    else:
        assert 0 <= value - exact < Fraction(1, 10**9)


@given(value=st.integers(0, LIMIT), suffix=st.sampled_from(["", *sorted(BINARY)]))
def test_canonical_form_reads_back(value: int, suffix: str) -> None:
    text = canonical(f"{value}{suffix}")
    assert parse(text) == parse(f"{value}{suffix}")
    assert canonical(text) == text


@pytest.mark.parametrize(
    ("text", "stored"),
    [
        ("0", "0"),
        ("-0", "0"),
        ("+0", "0"),
        ("0Ki", "0"),
        (".", "0"),
        ("1", "1"),
        ("+1", "+1"),
        ("-1", "-1"),
        ("01", "01"),
        ("001.50", "1500m"),
        ("1.", "1."),
        (".5", "500m"),
        ("-.5", "-500m"),
        ("1.5", "1500m"),
        ("1e3", "1e3"),
        ("1E3", "1E3"),
        ("1e+3", "1e+3"),
        ("1e-3", "1e-3"),
        ("1e0", "1e0"),
        ("10e0", "10e0"),
        ("1e1", "10"),
        ("1e2", "100"),
        ("1e4", "10e3"),
        ("12e5", "1200e3"),
        ("100e-3", "100e-3"),
        ("1e-9", "1e-3"),
        ("1e18", "1e18"),
        ("1e19", "10e18"),
        ("1e21", "1e21"),
        ("1e40", "10e39"),
        ("1e41", "100e39"),
        ("1e100", "10e99"),
        ("1e999999", "1e999999"),
        ("1n", "1m"),
        ("1500n", "1m"),
        ("1m", "1m"),
        ("1000m", "1"),
        ("1500m", "1500m"),
        ("1k", "1k"),
        ("1E", "1E"),
        ("1E18", "1E18"),
        ("9.3E", "9300P"),
        ("100E", "100E"),
        ("1000E", "1"),
        ("10000E", "10"),
        ("12345E", "12345E"),
        ("1000P", "1E"),
        ("10000P", "10E"),
        ("1024k", "1024k"),
        ("1024", "1024"),
        ("1023Ki", "1023Ki"),
        ("1024Ki", "1Mi"),
        ("1025Ki", "1025Ki"),
        ("0.5Ki", "512"),
        ("0.1Ki", "102400m"),
        ("1.5Ki", "1536"),
        ("1.0001Ki", "1024103m"),
        ("0.9999Ki", "1023898m"),
        ("1024Mi", "1Gi"),
        ("1.5Gi", "1536Mi"),
        ("1Ei", "1Ei"),
        ("8Ei", "9223372036854775807"),
        ("100Ei", "9223372036854775807"),
        ("7.9999Ei", "9223256744704315123303m"),
        ("0.5Ei", "512Pi"),
        ("1.1Gi", "1181116006400m"),
        ("99999999999999999999Ki", "9223372036854775807"),
        ("9223372036854775807Ki", "9223372036854775807"),
        ("-1Ki", "-1Ki"),
        ("-1.5Ki", "-1536"),
        ("-100Ei", "-9223372036854775807"),
        ("-1e41", "-100e39"),
        ("-1024Ki", "-1Mi"),
        ("9223372036854775808", "9223372036854775808"),
        ("99999999999999999999", "99999999999999999999"),
        ("9223372036854775806.000000001", "9223372036854775806001m"),
        ("9223372036854775807.5", "9223372036854775807500m"),
        ("1.0000000001", "1001m"),
        ("123456789.1234567891", "123456789124m"),
        ("9999999999999999999m", "9999999999999999999m"),
        ("9223372036854775807n", "9223372036855m"),
        ("1000000000000000000000000n", "1P"),
        ("3.14159265358979323846E", "3141592653589793238460m"),
        ("-0.1n", "-1m"),
        ("m", "0"),
    ],
)
def test_canonical_as_a_memory_limit(text: str, stored: str) -> None:
    """What a server stores, which rounds the limits of a Pod up to thousandths. Beyond E it loses the suffix."""
    assert canonical(text, 3) == stored


@pytest.mark.parametrize(
    ("value", "text"),
    [(0, "0"), (2, "2"), (1000, "1k"), (1500, "1500"), ("2048Ki", "2Mi"), (10**18, "1E"), (-3000, "-3k"), (0.5, "500m"), ("1n", "1n"), ("1.5n", "2n")],
)  # fmt: skip
def test_canonical(value: Any, text: str) -> None:
    assert canonical(value) == text


@pytest.mark.parametrize(
    ("text", "suffix"),
    [("", False), ("abc", False), ("1.5.5", False), ("1e1.5", False), ("1e3Ki", False), ("1Z", False), ("1e", True), ("1K", True), ("--1", True), ("1Ki1", True), ("1mk", True)],
)  # fmt: skip
def test_faults_in_the_words_of_the_server(text: str, *, suffix: bool) -> None:
    with pytest.raises(QuantityError) as caught:
        parse(text)
    assert (caught.value.fault == "unable to parse quantity's suffix") is suffix
    assert caught.value.fault.startswith("quantities must match the regular expression") is not suffix


@given(st.text(max_size=30))
def test_any_text_is_a_value_or_a_value_error(text: str) -> None:
    try:
        parse(text)
    except ValueError as error:
        assert repr(text) in str(error)  # noqa: PT017 - both ways out are right


@pytest.mark.parametrize(
    ("text", "whole"), [("2", True), ("2000m", True), ("1k", True), ("500m", False), ("-1", False)]
)
def test_whole_numbers(text: str, *, whole: bool) -> None:
    if whole:
        assert parse_integer(text) == parse(text)
        return
    with pytest.raises(ValueError, match=f"'{text}' is not a whole number"):
        parse_integer(text)


def test_counts_are_cut_to_64_bits() -> None:
    assert parse_integer("1e999999") == parse_integer("100Ei") == LIMIT


@pytest.mark.parametrize(
    ("start", "plus", "minus", "expected"),
    [
        ("1Gi", "512Mi", "0", "1536Mi"),
        ("1", "500m", "0", "1500m"),
        ("0", "1Gi", "0", "1Gi"),
        ("2", "1Gi", "0", "1073741826"),
        ("1Gi", "0", "1Gi", "0"),
        ("500m", "0", "250m", "250m"),
        ("1e3", "1k", "0", "2e3"),
    ],
)
def test_a_sum_has_the_form_of_the_first_that_is_not_zero(start: str, plus: str, minus: str, expected: str) -> None:
    assert total(start, plus=plus, minus=minus) == expected
