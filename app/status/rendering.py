"""Writes a status for people, in 80 columns, and for programs. Pure: a value in, styled lines out."""

from __future__ import annotations

import json
import re
import textwrap
from collections.abc import Iterator, Sequence
from typing import Literal

from app.doctor.catalog import plain
from app.doctor.model import Severity
from app.doctor.rendering import counted
from app.explain.rendering import Line
from app.status.model import Away, Column, Diagnosis, Found, Row, Section, Status, Value
from app.text import cut, moment, stamp
from app.wire import JSON

Form = Literal["text", "json"]

WIDTH = 80
ROWS = 20
"""Items of a section on the screen: the worst. JSON has all."""
_NARROWEST = 8
_STYLES = {Severity.error: "bold red", Severity.warning: "yellow", Severity.info: "cyan", Severity.ok: ""}
_WORDS = re.compile(r"(?<=[a-z])(?=[A-Z])")
_FLAG = re.compile(r"(--\S+) ")
_UNITS = ((86400, "d"), (3600, "h"), (60, "min"), (1, "s"))


def render(status: Status, form: Form) -> Iterator[Line]:
    if form == "json":
        yield from map(Line, json.dumps(document(status), indent=2).split("\n"))
        return
    yield Line(f"Berth in namespace {status.namespace}, release {status.release}: {stamp(status.at)}", "bold")
    for section, content in status.sections:
        yield Line("")
        yield from _section(section, content, status)
    yield Line("")
    yield from _diagnosis(status.diagnosis)


def unreachable(away: Away) -> Line:
    """What is shown while the API server cannot be asked."""
    return Line(plain(f"{stamp(away.at)}: the API server could not be asked: {away.message}"), "bold red")


def compact(screen: Status | Away) -> Line:
    """JSON on one line."""
    members = document(screen) if isinstance(screen, Status) else {"at": stamp(screen.at), "error": screen.message}
    return Line(json.dumps(members))


def fitted(lines: Sequence[Line], height: int) -> Sequence[Line]:
    """As many lines as a terminal of this height shows; the last says how many more there are."""
    if len(lines) <= height:
        return lines
    return [*lines[: height - 1], Line(f"… {len(lines) - height + 1} more lines: enlarge the terminal")]


def document(status: Status) -> JSON:
    """The JSON form; its members are in `docs/reference/status.md`."""
    return {
        "at": stamp(status.at),
        "namespace": status.namespace,
        "release": status.release,
        "severity": status.severity.name,
        "sections": {section.name: _object(section, content) for section, content in status.sections},
        "doctor": status.diagnosis and _counted(status.diagnosis),
    }


def _object(section: Section, content: Found) -> JSON:
    items = [
        {column.name: row.values.get(column.name) for column in section.columns} | {"severity": row.severity.name}
        for row in content.rows
    ]
    return {
        "severity": content.severity.name,
        "totals": dict(content.totals),
        "items": items,
        "unread": list(content.unread),
    }


def _counted(diagnosis: Diagnosis) -> JSON:
    counts = {severity.name: diagnosis.counts.get(severity, 0) for severity in reversed(Severity)}
    return {"at": stamp(diagnosis.at), **counts, "command": diagnosis.command}


def _section(section: Section, content: Found, status: Status) -> Iterator[Line]:
    totals = ", ".join(
        f"{'?' if count is None else count} {_noun(name, count)}" for name, count in content.totals.items()
    )
    heading = f"{section.title}: {totals}" if totals else section.title
    yield from _wrapped(heading, indent="", style=_STYLES[content.severity] or "bold")
    rows = sorted(content.rows, key=lambda row: -row.severity)[:ROWS]
    if rows:
        yield from _table(section, rows, status)
    if len(content.rows) > ROWS:
        yield Line(f"  and {len(content.rows) - ROWS} more: --output json shows all")
    if not rows and not content.unread and section.empty:
        yield from _wrapped(section.empty, indent="  ", style="")
    for text in content.unread:
        yield from _wrapped(plain(text), indent="  ", style=_STYLES[Severity.warning])


def _noun(name: str, count: int | None) -> str:
    return name.removesuffix("s") if count == 1 and name[0].islower() else name


def _table(section: Section, rows: Sequence[Row], status: Status) -> Iterator[Line]:
    columns = [column for column in section.columns if column.shown in ("cell", "age")]
    head = [column.heading or _WORDS.sub(" ", column.name).upper() for column in columns]
    cells = [[_cell(column, row, status) for column in columns] for row in rows]
    widths = _widths([head, *cells])
    yield Line(_row(head, widths))
    notes = [column.name for column in section.columns if column.shown == "note"]
    for row, texts in zip(rows, cells, strict=True):
        yield Line(_row(texts, widths), _STYLES[row.severity])
        for note in filter(None, (row.values.get(name) for name in notes)):
            yield from _wrapped(plain(note), indent="    ", style=_STYLES[row.severity])


def _cell(column: Column, row: Row, status: Status) -> str:
    value = row.values.get(column.name)
    if value is None:
        return "-"
    if column.shown == "age":
        return age(value, status)
    return plain(f"{value}/{row.values.get(column.of)}" if column.of else value)


def age(value: Value, status: Status) -> str:
    """The time since then, in its largest unit."""
    then = moment(value)
    if then is None:
        return plain(value)
    seconds = max(0, int((status.at - then).total_seconds()))
    size, unit = next((entry for entry in _UNITS if seconds >= entry[0]), _UNITS[-1])
    return f"{seconds // size} {unit}"


def _widths(rows: Sequence[Sequence[str]]) -> list[int]:
    """Those of the columns, the widest made narrower until all fit the screen."""
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    room = WIDTH - 2 * len(widths)
    while sum(widths) > room and max(widths) > _NARROWEST:
        widths[widths.index(max(widths))] -= 1
    return widths


def _row(cells: Sequence[str], widths: Sequence[int]) -> str:
    texts = (cut(cell, width).ljust(width) for cell, width in zip(cells, widths, strict=True))
    return f"  {'  '.join(texts)}".rstrip()


def _wrapped(text: str, *, indent: str, style: str) -> Iterator[Line]:
    for line in textwrap.wrap(text, WIDTH, initial_indent=indent, subsequent_indent=indent, break_on_hyphens=False):
        yield Line(line, style)


def _diagnosis(diagnosis: Diagnosis | None) -> Iterator[Line]:
    if diagnosis is None:
        yield Line("DOCTOR: examines the cluster", "bold")
        return
    yield Line(f"DOCTOR: {counted(diagnosis.counts) or 'nothing was checked'}", _STYLES[diagnosis.severity] or "bold")
    yield from _shell(diagnosis.command)


def _shell(command: str) -> Iterator[Line]:
    """A command, on several lines where it is longer than the screen. A shell takes these as one."""
    room = len(command) if "'" in command else WIDTH - 4  # within quotes a line must not end
    whole = _FLAG.sub("\\1\0", command)  # a flag stays with its value
    lines = textwrap.wrap(whole, room, subsequent_indent="  ", break_long_words=False, break_on_hyphens=False)
    yield from (Line("  " + line.replace("\0", " ") + " \\") for line in lines[:-1])
    yield Line("  " + lines[-1].replace("\0", " "))
