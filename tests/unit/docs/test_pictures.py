"""The pictures of docs/pictures: drawn from their texts, for the eye in light and dark, and for a screen reader."""

from __future__ import annotations

from xml.etree import ElementTree as ET

import pytest

from docs.generate.drawings import SOURCES, TARGET, drawn, pictures, read_picture
from docs.generate.texts import MissingTextError
from tests.support.paths import ROOT

SVG = "{http://www.w3.org/2000/svg}"
TEXT = """\
title: Two & more
lanes: here | there

> First
here -> there: goes < over
there: stays for a while, which takes more words than one line of a box can hold
here: one => there: two
"""
SHOWN = [text.path for text in pictures(ROOT)]


def words(text: str) -> set[str]:
    return {*text.replace(":", " ").replace(",", " ").replace(".", " ").split()}


def test_each_text_has_its_picture_and_each_picture_a_page() -> None:
    names = {path.stem for path in (ROOT / SOURCES).iterdir()}
    assert {path.stem for path in (ROOT / TARGET).iterdir()} == names
    pages = [path.read_text() for path in (ROOT / "docs").glob("*.md")]
    for name in names:
        assert any(f"(pictures/{name}.svg)" in page for page in pages), name


@pytest.mark.parametrize("path", SHOWN)
def test_a_screen_reader_has_every_word_and_both_schemes_their_colors(path: str) -> None:
    root = ET.fromstring((ROOT / path).read_text())
    assert root.get("role") == "img"
    title, description = root.find(f"{SVG}title"), root.find(f"{SVG}desc")
    assert title is not None
    assert description is not None
    assert root.get("aria-labelledby") == f"{title.get('id')} {description.get('id')}"
    heads = {text for head in root.iter(f"{SVG}g") for text in head.iter(f"{SVG}text")}
    shown = [text.text or "" for text in root.iter(f"{SVG}text") if text not in heads]
    assert set().union(*map(words, shown)) <= words(description.text or "")
    style = root.find(f"{SVG}style")
    assert style is not None
    light, _, dark = (style.text or "").partition("@media (prefers-color-scheme: dark)")
    for name in ("text", "rect", "path", ".back"):
        assert f"\n{name} {{" in light
        assert f"\n{name} {{" in dark


def test_nothing_is_drawn_outside_of_the_picture() -> None:
    """Lines of text are as long as their lane lets them be, whatever the text says."""
    root = ET.fromstring(drawn(read_picture(TEXT, "a.txt")))
    _, _, width, height = map(int, (root.get("viewBox") or "").split())
    for element in root.iter():
        for key, most in (("x", width), ("y", height)):
            assert 0 <= int(element.get(key, "0")) <= most
    lines = [text.text or "" for text in root.iter(f"{SVG}text")]
    assert "goes < over" in lines
    assert max(map(len, lines)) <= 27


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("lanes: here | there\n", "", "a.txt: want the lines title: and lanes:, then an empty line"),
        ("here -> there", "here -> nowhere", "a.txt: 'nowhere' is no lane: want one of here, there"),
        ("> First", "First", "a.txt: want `LANE: text`, `LANE -> LANE: text` or `> text`, got 'First'"),
    ],
)
def test_a_text_that_cannot_be_read_is_named(old: str, new: str, message: str) -> None:
    with pytest.raises(MissingTextError) as error:
        read_picture(TEXT.replace(old, new), "a.txt")
    assert str(error.value) == message
