"""Markdown, and texts as they stand in the code."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import NamedTuple

_CODE = re.compile(r"(`[^`]*`)")


class MissingTextError(Exception):
    """Something has no text in the code; the message says where it should stand."""


class Page(NamedTuple):
    """A file that is generated; `path` is below the project's directory."""

    path: str
    text: str


NOTE = "<!-- Generated from the code by `make generate`; `make lint` checks it. Change the code instead. -->"


def page(path: str, title: str, *blocks: str) -> Page:
    """A page of Markdown; empty blocks are left out."""
    return Page(path, "\n\n".join(block for block in (NOTE, f"# {title}", *blocks) if block) + "\n")


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table; "" where there are no rows. Cells are Markdown already."""
    lines = [_row(cells) for cells in rows]
    return "\n".join([_row(head), _row(["---"] * len(head)), *lines]) if lines else ""


def code(value: str) -> str:
    """A value as it is typed; nothing for nothing."""
    return f"`{value}`" if value else ""


def codes(values: Iterable[str]) -> str:
    return ", ".join(map(code, values))


def prose(text: str) -> str:
    """Text of the code as Markdown on one line: nothing in it is taken for a tag."""
    parts = _CODE.split(" ".join(text.split()))
    return "".join(
        part if part.startswith("`") else part.replace("<", "&lt;").replace("*", "\\*") for part in parts if part
    )


def help_text(text: str) -> str:
    """The help of a command as Markdown: paragraphs, with what is indented as it is typed."""
    blocks: list[str] = []
    typed: list[str] = []
    for paragraph in [*re.split(r"\n\s*\n", text.strip("\n")), ""]:
        if paragraph.startswith(" "):
            typed.append("\n".join(line.strip() for line in paragraph.splitlines()))
            continue
        if typed:
            blocks.append("```\n" + "\n".join(typed) + "\n```")
            typed = []
        if paragraph:
            blocks.append(prose(paragraph))
    return "\n\n".join(blocks)


def _row(cells: Sequence[str]) -> str:
    # A pipe ends a cell, in code too.
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"
