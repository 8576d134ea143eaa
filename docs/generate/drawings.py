"""Pictures for the pages: SVG out of a few lines of text, readable in light and dark, and by a screen reader.

A text in `docs/generate/pictures` has `title:`, `lanes:` (names, separated by `|`) and steps, one a line:

    A -> B: text            an arrow from one lane to another
    A: text                 a box in a lane
    A: text => B: text      boxes with arrows from each to the next
    > text                  a heading over all lanes
"""

from __future__ import annotations

import itertools
import re
import textwrap
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple
from xml.sax.saxutils import escape

from docs.generate.texts import MissingTextError, Page

SOURCES = "docs/generate/pictures"
TARGET = "docs/pictures"
LANE, SIDE, HEAD, LINE, ROW = 190, 12, 34, 15, 14
"""Pixels: the width of a lane, the free space at its sides, the heads, a line of text, the space between rows."""
BOX_CHARACTERS, ARROW_CHARACTERS = 25, 27
"""The most on one line of text: in a box, and above an arrow for each lane that it crosses."""
_ROOT = 'xmlns="http://www.w3.org/2000/svg" role="img" aria-labelledby="title desc"'
_ARROW = re.compile(r"(?P<start>[^:]+?) -> (?P<end>[^:]+?): (?P<text>.+)")
_BOX = re.compile(r"(?P<lane>[^:]+?): (?P<text>.+)")
_COLORS = """\
text {{ fill: {ink} }}
rect {{ fill: {fill}; stroke: {line} }}
path {{ stroke: {line}; fill: none }}
.head rect {{ fill: {head} }}
.back {{ fill: {back}; stroke: none }}
.tip {{ fill: {line}; stroke: none }}"""
_LIGHT = _COLORS.format(ink="#1f2328", line="#57606a", fill="#eef2f7", head="#dbe7f5", back="#ffffff")
_DARK = _COLORS.format(ink="#e6edf3", line="#9aa4af", fill="#1c2430", head="#25364d", back="#0d1117")
_STYLE = f"""\
text {{ font: 12px system-ui, sans-serif }}
.head text, .heading {{ font-weight: 600 }}
path {{ stroke-width: 1.5 }}
.lane {{ stroke-dasharray: 3 4; stroke-width: 1 }}
{_LIGHT}
@media (prefers-color-scheme: dark) {{
{_DARK}
}}"""
"""Colors are written out: not every program that draws SVG knows variables."""


class Arrow(NamedTuple):
    start: int
    end: int
    text: str


class Boxes(NamedTuple):
    """By their lanes; each leads to the next."""

    texts: tuple[tuple[int, str], ...]


class Heading(NamedTuple):
    text: str


Step = Arrow | Boxes | Heading


class Picture(NamedTuple):
    title: str
    lanes: tuple[str, ...]
    steps: tuple[Step, ...]


def pictures(root: Path) -> list[Page]:
    """One SVG for each text. Raises MissingTextError for a text that is not as the module says."""
    sources = sorted((root / SOURCES).glob("*.txt"))
    return [
        Page(f"{TARGET}/{path.stem}.svg", drawn(read_picture(path.read_text("utf-8"), path.name))) for path in sources
    ]


def read_picture(text: str, name: str) -> Picture:
    head, _, body = text.partition("\n\n")
    fields = dict(line.split(": ", 1) for line in head.splitlines() if ": " in line)
    if fields.keys() != {"title", "lanes"}:
        raise MissingTextError(f"{name}: want the lines title: and lanes:, then an empty line")
    lanes = tuple(lane.strip() for lane in fields["lanes"].split("|"))
    steps = tuple(_read_step(line, lanes, name) for line in body.splitlines() if line.strip())
    return Picture(fields["title"], lanes, steps)


def _read_step(line: str, lanes: Sequence[str], name: str) -> Step:
    def lane(text: str) -> int:
        if text not in lanes:
            raise MissingTextError(f"{name}: {text!r} is no lane: want one of {', '.join(lanes)}")
        return lanes.index(text)

    if line.startswith("> "):
        return Heading(line[2:])
    if arrow := _ARROW.fullmatch(line):
        return Arrow(lane(arrow["start"]), lane(arrow["end"]), arrow["text"])
    boxes = [_BOX.fullmatch(part) for part in line.split(" => ")]
    found = [(lane(box["lane"]), box["text"]) for box in boxes if box]
    if len(found) != len(boxes):
        raise MissingTextError(f"{name}: want `LANE: text`, `LANE -> LANE: text` or `> text`, got {line!r}")
    return Boxes(tuple(found))


def described(picture: Picture) -> str:
    """What a screen reader says: every step, in its order."""
    said = []
    for step in picture.steps:
        match step:
            case Heading(text):
                said.append(text)
            case Arrow(start, end, text):
                said.append(f"{picture.lanes[start]} to {picture.lanes[end]}: {text}")
            case Boxes(texts):
                said.append(", ".join(f"{picture.lanes[lane]}: {text}" for lane, text in texts))
    return ". ".join(said) + "."


def drawn(picture: Picture) -> str:
    """The SVG. The same picture gives the same bytes."""
    rows: list[str] = []
    top = HEAD + 2 * ROW
    for step in picture.steps:
        lines, height = _row(step, top)
        rows += lines
        top += height + ROW
    width = LANE * len(picture.lanes)
    lasting = any(isinstance(step, Arrow) for step in picture.steps)
    lanes = [_lane(lane, top) for lane in range(len(picture.lanes)) if lasting]
    return "\n".join(
        [
            f'<svg {_ROOT} viewBox="0 0 {width} {top + ROW}">',
            f'<title id="title">{escape(picture.title)}</title>',
            f'<desc id="desc">{escape(described(picture))}</desc>',
            f"<style>\n{_STYLE}\n</style>",
            f'<rect class="back" width="{width}" height="{top + ROW}"/>',
            *lanes,
            *(line for lane, text in enumerate(picture.lanes) for line in _head(lane, text)),
            *rows,
            "</svg>",
            "",
        ]
    )


def _lane(lane: int, end: int) -> str:
    return f'<path class="lane" d="M{_center(lane)} {HEAD + ROW}V{end}"/>'


def _row(step: Step, top: int) -> tuple[list[str], int]:
    """The elements of a step, and its height."""
    match step:
        case Heading(text):
            return [f'<text class="heading" x="{SIDE}" y="{top + LINE}">{escape(text)}</text>'], LINE + 4
        case Arrow(start, end, text):
            return _arrow(start, end, text, top)
        case Boxes(texts):
            wrapped = {lane: _wrapped(text, BOX_CHARACTERS) for lane, text in texts}
            height = LINE * max(map(len, wrapped.values())) + 12
            lanes = list(wrapped)
            middle = top + height // 2
            arrows = [
                line
                for start, end in itertools.pairwise(lanes)
                for line in _line(_center(start) + LANE // 2 - SIDE, _center(end) - LANE // 2 + SIDE, middle)
            ]
            return [line for lane in lanes for line in _box(lane, wrapped[lane], top, height)] + arrows, height


def _arrow(start: int, end: int, text: str, top: int) -> tuple[list[str], int]:
    lines = _wrapped(text, ARROW_CHARACTERS * abs(end - start))
    middle = (_center(start) + _center(end)) // 2
    height = LINE * len(lines) + 8
    back = (
        f'<rect class="back" x="{min(_center(start), _center(end)) + 4}" y="{top}" '
        f'width="{abs(_center(end) - _center(start)) - 8}" height="{height - 6}"/>'
    )
    return [back, *_text(lines, middle, top), *_line(_center(start), _center(end), top + height)], height


def _line(start: int, end: int, y: int) -> Iterator[str]:
    """A line from left to right or back, with its tip."""
    back = -7 if end > start else 7
    yield f'<path d="M{start} {y}H{end + back}"/>'
    yield f'<path class="tip" d="M{end} {y}l{back} -4v8z"/>'


def _box(lane: int, lines: Sequence[str], top: int, height: int) -> Iterator[str]:
    yield f'<rect x="{_center(lane) - LANE // 2 + SIDE}" y="{top}" width="{LANE - 2 * SIDE}" height="{height}" rx="4"/>'
    yield from _text(lines, _center(lane), top + (height - LINE * len(lines)) // 2 - 2)


def _head(lane: int, text: str) -> Iterator[str]:
    yield '<g class="head">'
    yield f'<rect x="{_center(lane) - LANE // 2 + 6}" y="{ROW // 2}" width="{LANE - 12}" height="{HEAD}" rx="4"/>'
    yield from _text([text], _center(lane), ROW // 2 + 8)
    yield "</g>"


def _text(lines: Sequence[str], center: int, top: int) -> Iterator[str]:
    for number, line in enumerate(lines, start=1):
        yield f'<text x="{center}" y="{top + LINE * number - 2}" text-anchor="middle">{escape(line)}</text>'


def _wrapped(text: str, characters: int) -> list[str]:
    """Names with hyphens stay whole."""
    return textwrap.wrap(text, characters, break_on_hyphens=False)


def _center(lane: int) -> int:
    return LANE * lane + LANE // 2
