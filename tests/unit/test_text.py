"""Words that are near, and texts that cannot harm a terminal."""

from __future__ import annotations

import pytest

from app.text import closest, printable

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


def test_control_characters_are_escaped() -> None:
    assert printable("a\x1b[31mb\nc\x7f\x9b\u00e4 ok") == "a\\u001b[31mb\\u000ac\\u007f\\u009bä ok"
    assert printable("image: \u202egpj.exe\u2066") == "image: \\u202egpj.exe\\u2066"
