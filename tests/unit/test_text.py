"""Words that are near, and texts that cannot harm a terminal."""

from __future__ import annotations

import pytest

from app.text import abridged, closest, enumerated, one_line, printable

FIELDS = ("name", "containers", "initContainers", "nodeSelector", "env", "envFrom", "command", "annotations")


@pytest.mark.parametrize(
    ("word", "meant"),
    [
        ("contaners", "containers"),
        ("annotation", "annotations"),
        ("nmae", "name"),
        ("nodeselector", "nodeSelector"),
        ("CONTAINERS", "containers"),
        ("comand", "command"),
        ("zzz", ""),
        ("", ""),
        ("x" * 100_000, ""),
    ],
)
def test_the_closest_known_word(word: str, meant: str) -> None:
    assert closest(word, FIELDS) == meant


def test_nothing_is_near_where_nothing_is_known() -> None:
    assert closest("name", ()) == ""


def test_what_cannot_be_printed_is_escaped() -> None:
    assert printable("a\x1b[31mb\nc\x7f\x9b\u00e4 ok") == "a\\u001b[31mb\\u000ac\\u007f\\u009bä ok"
    assert printable("\u202e\udcff\U000e0001") == "\\u202e\\udcff\\udb40\\udc01"


def test_what_changes_the_order_of_what_is_shown_is_escaped() -> None:
    """A manifest must not look like another one."""
    assert printable("a\u202eb\u2066c") == "a\\u202eb\\u2066c"


@pytest.mark.parametrize(
    ("items", "limit", "shown"),
    [
        ([], 20, ""),
        (["a", "b"], 20, "a; b"),
        ([str(number) for number in range(100, 200)], 30, "100; 101; 102; … and 97 more"),
        (["x" * 100, "y"], 10, "xxx … x; y"),
    ],
)
def test_items_that_are_left_out_are_counted(items: list[str], limit: int, shown: str) -> None:
    assert enumerated(items, limit) == shown
    assert len(shown) <= limit


def test_a_message_is_cut_in_its_middle() -> None:
    """The reason stands at its end."""
    message = f"POST /apis/{'a' * 500}: HTTP 422: spec.selector: Invalid value"
    for limit in (300, 41, 12, 4):
        shown = abridged(message, limit)
        assert len(shown) == limit
        begin, _, end = shown.partition(" … ")
        assert (message.startswith(begin), message.endswith(end), bool(end)) == (True, True, True)
    assert abridged(message, 300).startswith("POST /apis/aaa")
    assert one_line(message, 300).endswith("HTTP 422: spec.selector: Invalid value")
    assert enumerated([message], 300).endswith("Invalid value")
    assert abridged("short", 5) == "short"
