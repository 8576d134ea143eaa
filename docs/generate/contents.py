"""The contents of troubleshooting.md: by symptom, by alert and by the codes of the doctor, between two marks."""

from __future__ import annotations

import re
from collections.abc import Iterable
from itertools import groupby
from pathlib import Path

from app.doctor.catalog import CHECK_NUMBERS, PAGE
from docs.generate.texts import MissingTextError, Page, code, table

BEGIN, END = "<!-- contents: begin, written by make generate -->", "<!-- contents: end -->"
ALERTS = "Alerts"
_HEADING = re.compile(r"^(##|###) (.+)$", re.MULTILINE)
_CODE = re.compile(r"BERTH(\d\d)(\d\d)")
_ALL = "every check"


def contents_page(root: Path) -> Page:
    """The page with its contents as its headings have them. Raises MissingTextError if it lacks the marks."""
    text = (root / PAGE).read_text(encoding="utf-8")
    before, begin, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise MissingTextError(f"{PAGE}: want the lines {BEGIN} and {END}, between which the contents are written")
    return Page(PAGE, f"{before}{BEGIN}\n{contents(after)}\n{END}{after}")


def contents(text: str) -> str:
    """Links to the headings of a text."""
    headings = [(len(level), title) for level, title in _HEADING.findall(text)]
    symptoms = [title for level, title in headings if level == 2]
    symptoms = symptoms[: symptoms.index(ALERTS)]
    codes = [title for _, title in headings if _CODE.fullmatch(title)]
    alerts = [title for level, title in headings if level == 3 and re.fullmatch(r"Berth[A-Z]\w+", title)]
    rows = [
        (
            f"{digits}xx",
            code(CHECK_NUMBERS[digits]) if digits in CHECK_NUMBERS else _ALL,
            _links(group, cut=len("BERTH")),
        )
        for digits, group in groupby(codes, key=lambda title: title[5:7])
    ]
    blocks = [
        "**By symptom**",
        "\n".join(f"- {_link(title)}" for title in symptoms),
        f"**By alert**: {_links(alerts)}",
        "**By code of the doctor**; `berth doctor --explain CODE` prints the section of a code:",
        table(("BERTH", "Check", "Codes"), rows),
    ]
    return "\n\n".join(blocks)


def _links(titles: Iterable[str], cut: int = 0) -> str:
    return " · ".join(_link(title, cut) for title in titles)


def _link(title: str, cut: int = 0) -> str:
    """To a heading, without the first characters of its name. Anchors are those of GitHub."""
    anchor = re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-")
    return f"[{title[cut:]}](#{anchor})"
