"""Whole numbers and texts: each way is bounded, and no value of an object raises anything but ValueError."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.kinds.requests import added
from app.kube.quantity import QuantityError, parse, total
from app.numbers import MOST_DIGITS, NumberError, shown, whole, whole_or, written
from app.wire import encode_json, load_yaml

TOO_LONG = 10**MOST_DIGITS


@given(st.integers(min_value=-TOO_LONG + 1, max_value=TOO_LONG - 1))
def test_a_number_and_its_text_are_one(number: int) -> None:
    assert whole(written(number)) == number


@pytest.mark.parametrize("number", [TOO_LONG, -TOO_LONG, 10**5000], ids=["positive", "negative", "very long"])
def test_a_number_that_is_too_long_has_no_text(number: int) -> None:
    with pytest.raises(NumberError, match="more than 309 digits"):
        written(number)


@pytest.mark.parametrize("text", ["", "+", "1.0", " 1", "1_0", "\N{ARABIC-INDIC DIGIT ONE}", "9" * 310, "9" * 100_000])
def test_a_text_that_is_no_number_in_bounds_is_refused(text: str) -> None:
    with pytest.raises(NumberError):
        whole(text)


@pytest.mark.parametrize(
    ("value", "number"),
    [("7", 7), (7, 7), ("007", 7), (-1, 0), ("-1", 0), (True, 0), (1.5, 0), (None, 0), ([], 0), ("9" * 5000, 0)],
)
def test_of_what_stands_in_an_object_there_is_a_number_or_another(value: object, number: int) -> None:
    assert whole_or(value, 0) == number


def test_a_message_shows_any_value() -> None:
    assert shown([10**5000]) == "a value in which a whole number has more than 309 digits"


@pytest.mark.parametrize("text", ["9" * 400, "0x" + "f" * 9000, "0b" + "1" * 90_000, "1:" * 3000 + "1"])
def test_yaml_gives_no_number_that_cannot_be_written(text: str) -> None:
    """What is beyond 64 bits is a text, as kubectl has it."""
    assert load_yaml(text) == text
    assert encode_json(load_yaml("9" * 300)) == encode_json(float("9" * 300))


def test_quantities_of_a_million_digits_have_a_sum() -> None:
    """With the usual context of decimals this is an Overflow, which is no ValueError."""
    huge = parse("9e999999")
    assert added({"a": huge}, {"a": huge})["a"] > huge
    assert total("9e999999", plus="9e999999") == "18e999999"


def test_a_quantity_that_is_too_long_is_named_as_none() -> None:
    with pytest.raises(QuantityError):
        parse(10**5000)
