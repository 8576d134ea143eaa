"""values.md: the values of the chart, out of the comments of values.yaml.

`# --` above a key tells what its value means, and the key with all below it is one row. A plain comment tells of a
group of keys. A key with neither is an error.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import yaml

from docs.generate.texts import MissingTextError, Page, code, page, prose, table

_MARK = "-- "


class Entry(NamedTuple):
    """A key of values.yaml: a value (`leaf`), or a group of keys that its text introduces."""

    path: str
    text: str
    default: Any
    leaf: bool


def values_page(text: str) -> Page:
    entries = read_values(text)
    alone = [entry for entry in entries if entry.leaf and "." not in entry.path]
    blocks = [prose(_opening(text)), "## Of the release", _table(alone)]
    for group in (entry for entry in entries if not entry.leaf and "." not in entry.path):
        below = [entry for entry in entries if entry.path.startswith(f"{group.path}.")]
        blocks += [f"## {group.path}", prose(group.text), _table(below)]
    return page("docs/reference/values.md", "Values of the chart", *blocks)


def read_values(text: str) -> list[Entry]:
    """The keys in their order. Raises MissingTextError for one without a comment."""
    root = yaml.compose(text, Loader=yaml.SafeLoader)
    if not isinstance(root, yaml.MappingNode):
        raise MissingTextError("values.yaml: want a mapping")
    return list(_read("", root, text.splitlines()))


def _table(entries: Sequence[Entry]) -> str:
    rows = [(code(entry.path), code(_typed(entry)), prose(entry.text)) for entry in entries if entry.leaf or entry.text]
    return table(("Value", "Default", "Text"), rows)


def _typed(entry: Entry) -> str:
    return json.dumps(entry.default, ensure_ascii=False) if entry.leaf else ""


def _read(above: str, node: yaml.MappingNode, lines: list[str]) -> Iterator[Entry]:
    for key, value in node.value:
        path = f"{above}.{key.value}" if above else key.value
        comment = _comment(lines, key.start_mark.line, key.start_mark.column)
        if _is_group(value, lines):
            yield Entry(path, comment.removeprefix(_MARK), None, leaf=False)
            yield from _read(path, value, lines)
        elif comment:
            yield Entry(path, comment.removeprefix(_MARK), yaml.safe_load(yaml.serialize(value)), leaf=True)
        else:
            raise MissingTextError(f"values.yaml: {path} has no comment above it that begins with '# --'")


def _is_group(value: yaml.Node, lines: list[str]) -> bool:
    """A mapping some key of which has a comment of its own."""
    if not isinstance(value, yaml.MappingNode) or value.flow_style:
        return False
    return any(
        _comment(lines, key.start_mark.line, key.start_mark.column) or _is_group(below, lines)
        for key, below in value.value
    )


def _comment(lines: list[str], line: int, column: int) -> str:
    """The comment that stands right above a line, in its column."""
    found: list[str] = []
    while line > 0 and lines[line - 1].startswith(" " * column + "#"):
        line -= 1
        found.insert(0, lines[line].strip().removeprefix("#").strip())
        if found[0].startswith(_MARK):
            break
    return " ".join(found)


def _opening(text: str) -> str:
    """The comment at the beginning of the file, which tells of all values."""
    lines = text.split("\n\n", maxsplit=1)[0].splitlines()
    return " ".join(line.removeprefix("#").strip() for line in lines if line.startswith("#"))
