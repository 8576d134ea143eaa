"""Writes a status for people, in 80 columns, and for programs. Pure: a value in, styled lines out."""

from __future__ import annotations

import json
import re
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from typing import Literal

from app.doctor.catalog import FINDINGS, plain
from app.doctor.model import Finding, Severity
from app.doctor.rendering import counted
from app.doctor.rights import missing_rights
from app.explain.rendering import STRUCTURED, Line, Plain, structured
from app.status.model import Away, Column, Diagnosis, Found, Row, Section, Status, Value
from app.text import abridged, moment, several, stamp
from app.wire import JSON

WIDTH = 80
Form = Literal[Plain, "wide"]
ROWS = 20
"""Items of a section on the screen: the worst. `wide` and JSON have all."""
PROBLEM = ("code", "subject", "message", "command")
"""Members of a problem that the doctor finds, beside its severity."""
_PROBLEMS = 10
"""Codes of problems on the screen: the worst. `wide` and JSON have all problems."""
_MOST = 100_000
"""Characters that are looked at of any text out of a cluster."""
_FIRST = 160
"""Characters of a message of the doctor on the screen: two lines."""
_NOTE = 480
"""Characters of a note on the screen. Of a longer one the middle is left out, for a command is at its end."""
_STYLES = {Severity.error: "bold red", Severity.warning: "yellow", Severity.info: "cyan", Severity.ok: ""}
_WORDS = re.compile(r"(?<=[a-z])(?=[A-Z])")
_FLAG = re.compile(r"(--\S+) ")
_UNITS = ((86400, "d"), (3600, "h"), (60, "min"), (1, "s"))


def render(status: Status, form: Form) -> Iterator[Line]:
    """The screen, or a document; `wide` has all columns and items, and each problem with its whole text and command."""
    if form in STRUCTURED:
        yield from structured(document(status), form)
        return
    wide = form == "wide"
    where = f"Berth in namespace {status.namespace}, release {status.release}"
    yield Line(f"{f'Namespace {status.scope}' if status.scope else where}: {stamp(status.at)}", "bold")
    for section, content in status.sections:
        yield Line("")
        yield from _section(section, content, status, wide=wide)
    yield Line("")
    yield from _diagnosis(status.diagnosis, wide=wide)
    if status.scope:
        yield from _wrapped(_outside(status), indent="", style="")


def _outside(status: Status) -> str:
    """What the screen of a namespace does not show, on one line."""
    left_out = ", ".join(section.name for section in status.left_out)
    rights = plain(missing_rights(status.beyond), _MOST)
    return f"left out, for the whole cluster: {left_out}{f'. No right to {rights}' if rights else ''}"


def unreachable(away: Away) -> Line:
    """What is shown while the API server cannot be asked."""
    return Line(plain(f"{stamp(away.at)}: the API server could not be asked: {away.message}"), "bold red")


def one_of_many(screen: Status | Away, form: Form) -> Iterator[Line]:
    """A document in a stream of them: JSON on one line, YAML behind a line of dashes."""
    members = document(screen) if isinstance(screen, Status) else {"at": stamp(screen.at), "error": screen.message}
    if form == "json":
        yield Line(json.dumps(members))
    else:
        yield Line("---")
        yield from structured(members, form)


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
        "scope": status.scope,
        "leftOut": [section.name for section in status.left_out],
        "beyond": list(status.beyond),
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
    problems = [
        {"severity": problem.severity.name} | {name: getattr(problem, name) for name in PROBLEM}
        for problem in diagnosis.problems
    ]
    return {"at": stamp(diagnosis.at), **counts, "command": diagnosis.command, "problems": problems}


def _section(section: Section, content: Found, status: Status, *, wide: bool) -> Iterator[Line]:
    totals = ", ".join(filter(None, (_total(section, name, count) for name, count in content.totals.items())))
    heading = f"{section.title}: {totals}" if totals else section.title
    yield from _wrapped(heading, indent="", style=_STYLES[content.severity] or "bold")
    rows = sorted(content.rows, key=lambda row: -row.severity)[: None if wide else ROWS]
    if rows:
        yield from _table(section, rows, status, wide=wide)
    if len(content.rows) > len(rows):
        yield Line(f"  and {len(content.rows) - len(rows)} more: --output wide shows all")
    if not rows and not content.unread and section.empty:
        yield from _wrapped(section.empty, indent="  ", style="")
    for text in content.unread:
        yield from _wrapped(plain(text), indent="  ", style=_STYLES[Severity.warning])


def _total(section: Section, name: str, count: int | None) -> str:
    """`1 role`; "" for one that need not be said."""
    words = section.words.get(name, name)
    if " " in words:
        return "" if count == 0 else f"{'not known how many' if count is None else count} {words}"
    one = count == 1 and (name in section.words or name[0].islower())
    return f"{'?' if count is None else count} {words.removesuffix('s') if one else words}"


def _table(section: Section, rows: Sequence[Row], status: Status, *, wide: bool) -> Iterator[Line]:
    """Cells are never cut: a column that makes the table wider than the screen is on lines of its own."""
    merged = {column.of for column in section.columns}
    columns = [
        column
        for column in section.columns
        if column.shown in ("cell", "age") or (wide and column.shown == "hidden" and column.name not in merged)
    ]
    texts = {column.name: [_cell(column, row, status) for row in rows] for column in columns}
    heads = {column.name: column.heading or _WORDS.sub(" ", column.name).upper() for column in columns}
    widths = {name: max(map(len, [heads[name], *cells])) for name, cells in texts.items()}
    below = list[str]()
    while not wide and len(widths) > 1 and sum(widths.values()) + 2 * len(widths) > WIDTH:
        below.append(widest := max(widths, key=lambda name: widths[name]))
        del widths[widest]
    notes = [column.name for column in section.columns if column.shown == "note"]
    yield Line(_row(heads, widths))
    for index, row in enumerate(rows):
        style = _STYLES[row.severity]
        yield Line(_row({name: cells[index] for name, cells in texts.items()}, widths), style)
        yield from (Line(f"    {heads[name].lower()} {texts[name][index]}", style) for name in below)
        for note in filter(None, (row.values.get(name) for name in notes)):
            text = plain(note, _MOST)
            yield from _wrapped(text if wide else abridged(text, _NOTE), indent="    ", style=style)


def _cell(column: Column, row: Row, status: Status) -> str:
    value = row.values.get(column.name)
    if value is None:
        return "-"
    if column.shown == "age":
        return age(value, status)
    return plain(f"{value}/{row.values.get(column.of)}" if column.of else value, _MOST)


def age(value: Value, status: Status) -> str:
    """The time since then, in its largest unit."""
    then = moment(value)
    if then is None:
        return plain(value)
    seconds = max(0, int((status.at - then).total_seconds()))
    size, unit = next((entry for entry in _UNITS if seconds >= entry[0]), _UNITS[-1])
    return f"{seconds // size} {unit}"


def _row(cells: Mapping[str, str], widths: Mapping[str, int]) -> str:
    return f"  {'  '.join(cells[name].ljust(width) for name, width in widths.items())}".rstrip()


def _wrapped(text: str, *, indent: str, style: str) -> Iterator[Line]:
    lines = textwrap.wrap(
        text, WIDTH, initial_indent=indent, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False
    )
    yield from (Line(line, style) for line in lines)


def _diagnosis(diagnosis: Diagnosis | None, *, wide: bool) -> Iterator[Line]:
    if diagnosis is None:
        yield Line("DOCTOR: examines the cluster", "bold")
        return
    yield Line(f"DOCTOR: {counted(diagnosis.counts) or 'nothing was checked'}", _STYLES[diagnosis.severity] or "bold")
    if wide:
        for problem in diagnosis.problems:
            yield from _wrapped(_headline(problem, problem.message), indent="  ", style=_STYLES[problem.severity])
            for line in problem.command.splitlines():
                yield Line(f"    {plain(line, _MOST)}", "bold")
    else:
        yield from _grouped(diagnosis.problems)
    yield from _shell(diagnosis.command)


def _headline(problem: Finding, text: str, *, more: int = 0) -> str:
    subject = plain(problem.subject, _MOST)
    where = f"{subject} and {several(more, 'other')}" if more else subject
    return plain(f"{problem.severity.name.upper()} [{problem.code}] {': '.join(filter(None, (where, text)))}", _MOST)


def _grouped(problems: Sequence[Finding]) -> Iterator[Line]:
    """The first line of the worst, once for each code; objects of the same code are counted, and the first is named."""
    groups: dict[tuple[Severity, str], list[Finding]] = {}
    for problem in problems:
        groups.setdefault((problem.severity, problem.code), []).append(problem)
    for first, *others in list(groups.values())[:_PROBLEMS]:
        # Where objects differ in what is wrong, what they have in common is the title.
        alike = all(other.message == first.message for other in others)
        text = _first_line(first.message) if alike else FINDINGS[first.code].title
        line = _headline(first, text, more=len(others))
        yield from _wrapped(line, indent="  ", style=_STYLES[first.severity])
    if (more := sum(map(len, list(groups.values())[_PROBLEMS:]))) > 0:
        yield Line(f"  and {several(more, 'more problem')}: --output wide shows all")


def _first_line(message: str) -> str:
    """Its beginning, cut between words: no name is cut."""
    text = plain(message, _MOST)
    return text if len(text) <= _FIRST else f"{text[: _FIRST + 1].rpartition(' ')[0]} …"


def _shell(command: str) -> Iterator[Line]:
    """A command, on several lines where it is longer than the screen. A shell takes these as one."""
    room = len(command) if "'" in command else WIDTH - 4  # within quotes a line must not end
    whole = _FLAG.sub("\\1\0", command)  # a flag stays with its value
    lines = textwrap.wrap(whole, room, subsequent_indent="  ", break_long_words=False, break_on_hyphens=False)
    yield from (Line("  " + line.replace("\0", " ") + " \\") for line in lines[:-1])
    yield Line("  " + lines[-1].replace("\0", " "))
