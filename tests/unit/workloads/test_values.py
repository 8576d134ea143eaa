"""Values as text."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.workloads.rules.keys import comparable, rendered

JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=10,
)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("", ""),
        ("a b", "a b"),
        ("true", "true"),
        (True, "true"),
        (False, "false"),
        (0, "0"),
        (-3, "-3"),
        (2**70, str(2**70)),
        (1.0, "1"),
        (1.5, "1.5"),
        (1e300, "1e300"),
        (float("inf"), None),
        (float("nan"), None),
        (None, None),
    ],
)
def test_a_scalar_is_compared_and_rendered_as_the_same_text(value: object, text: str | None) -> None:
    assert comparable(value) == text
    assert rendered(value) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ({}, "{}"),
        ([], "[]"),
        ({"foo": "bar"}, '{"foo":"bar"}'),
        ({"b": [1, True, None], "a": {"d": 1, "c": 2}}, '{"a":{"c":2,"d":1},"b":[1,true,null]}'),
        ({"ä": "日本"}, '{"ä":"日本"}'),
    ],
)
def test_a_map_or_list_is_rendered_as_compact_sorted_json_and_never_compared(value: object, text: str) -> None:
    assert comparable(value) is None
    assert rendered(value) == text


@settings(max_examples=100, deadline=None)
@given(value=JSON_VALUES)
def test_what_is_rendered_reads_as_the_same_value(value: object) -> None:
    text = rendered(value)
    if value is None:
        assert text is None
    elif isinstance(value, str):
        assert text == value
    else:
        assert text is not None
        assert json.loads(text) == value
