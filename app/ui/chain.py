"""Places the objects of a chain in a picture: one below the other, each indented below the one that led to it. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import msgspec

from app.ui.subjects import Target

ROW, INDENT, LEFT, WIDTH, HEIGHT = 56, 28, 8, 640, 44
"""Sizes in units of the picture: between rows, of a level, of the margin, of the whole, of a box."""
_LEVELS = 8
"""Levels that are indented: deeper ones stand below each other."""
_CHARACTERS = 7.4
"""The width of a character in the picture, at most."""


class Node(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """An object of a chain. `state` is that of its verdict, "" if it has none; `found` whether it is there.

    `target` is for a link to its own chain. `level` is 0 for the object that was asked about.
    """

    subject: str
    state: str
    text: str
    found: bool
    target: Target | None
    level: int = 0


class Edge(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A link, by the places of its ends in the list of objects."""

    source: int
    target: int


class Box(msgspec.Struct, frozen=True):
    """Where the picture has an object; texts are cut to its width."""

    x: int
    y: int
    width: int
    subject: str
    text: str


class Picture(msgspec.Struct, frozen=True):
    """Boxes in the order of the objects, lines as paths of SVG, and the size of the whole."""

    boxes: tuple[Box, ...]
    lines: tuple[str, ...]
    width: int
    height: int


def ordered(start: str, links: Iterable[tuple[str, str, bool]]) -> tuple[list[tuple[str, int, bool]], list[Edge]]:
    """The objects of a chain, each once with its level and whether it is there, and the links between them.

    What a link reaches first stands below the one that led there; objects that lead nowhere else come in the order in
    which they were looked at.
    """
    below: dict[str, list[str]] = {}
    found = {start: True}
    for source, target, there in links:
        if target not in below.setdefault(source, []):
            below[source].append(target)
        found[target] = found.get(target, False) or there
    rows, places = list[tuple[str, int, bool]](), dict[str, int]()
    waiting = [(start, 0)]
    while waiting:
        subject, level = waiting.pop()
        if subject in places:
            continue
        places[subject] = len(rows)
        rows.append((subject, level, found[subject]))
        waiting += [(target, level + 1) for target in reversed(below.get(subject, ()))]
    edges = [
        Edge(source=places[source], target=places[target])
        for source, targets in below.items()
        for target in targets
        if source in places and source != target
    ]
    return rows, edges


def picture(nodes: Sequence[Node], edges: Iterable[Edge]) -> Picture:
    """Lines go down from the left end of a box, and right to the one that they lead to."""
    boxes = list[Box]()
    for index, node in enumerate(nodes):
        x = LEFT + INDENT * min(node.level, _LEVELS)
        width = WIDTH - LEFT - x
        room = int((width - 24) / _CHARACTERS)
        text = node.text if node.found else "does not exist"
        boxes.append(
            Box(
                x, LEFT + ROW * index, width, _cut(node.subject, room), _cut(f"{node.state}: {text}".lstrip(": "), room)
            )
        )
    lines = []
    for edge in edges:
        above, under = boxes[edge.source], boxes[edge.target]
        left = min(above.x + 10, under.x - 12) if edge.source < edge.target else min(above.x, under.x) - 4
        start = above.y + (HEIGHT if edge.source < edge.target else HEIGHT // 2)
        lines.append(f"M{max(left, 2)} {start}V{under.y + HEIGHT // 2}H{under.x}")
    height = LEFT + ROW * len(boxes)
    return Picture(tuple(boxes), tuple(lines), WIDTH, height)


def with_states(
    rows: Sequence[tuple[str, int, bool]], targets: Mapping[str, Target | None], said: Mapping[str, tuple[str, str]]
) -> tuple[Node, ...]:
    """The objects with what is said of them: state and text by subject."""
    return tuple(
        Node(
            subject=subject,
            level=level,
            found=found,
            target=targets.get(subject),
            state=said.get(subject, ("", ""))[0],
            text=said.get(subject, ("", ""))[1],
        )
        for subject, level, found in rows
    )


def _cut(text: str, room: int) -> str:
    return text if len(text) <= room else f"{text[: max(1, room - 1)]}…"
