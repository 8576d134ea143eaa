"""The table of `docs/scaling.md` with the worst review of each kind: written by `make fuzz`, measured anew by a test."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from tests.fuzz.oracle import Case, read_case
from tests.support.paths import ROOT

PAGE = ROOT / "docs/scaling.md"
_BEGIN, _END = "<!-- reviews: begin -->\n", "<!-- reviews: end -->\n"
_HEAD = "| review | operation | what grows | KiB | settings | times |\n| --- | --- | --- | ---: | --- | ---: |\n"


class Row(NamedTuple):
    """A case with the settings of the webhook, and how many ordinary reviews of its size it costs."""

    case: Case
    settings: str
    ratio: float


def rendered(rows: Iterable[Row]) -> str:
    lines = (
        f"| {case.kind.name} | {case.operation} | {case.members} | {case.size // 1024} | {settings} | {ratio:.1f} |\n"
        for case, settings, ratio in rows
    )
    return _HEAD + "".join(lines)


def write(rows: Iterable[Row]) -> None:
    before, _, rest = PAGE.read_text().partition(_BEGIN)
    _, _, after = rest.partition(_END)
    PAGE.write_text(before + _BEGIN + rendered(rows) + _END + after)


def read() -> Iterator[Row]:
    """The rows of the page. Raises LookupError for a case that there is not."""
    text = PAGE.read_text().partition(_BEGIN)[2].partition(_END)[0]
    for line in text.splitlines()[2:]:
        kind, operation, members, kibibytes, settings, ratio = (cell.strip() for cell in line.strip("|").split("|"))
        yield Row(read_case(kind, operation, members, int(kibibytes) * 1024), settings, float(ratio))
