"""View `overview`: what `berth status` says, section by section, and what the doctor finds."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from functools import partial

import msgspec

from app.doctor.catalog import plain
from app.doctor.cluster import Cluster, locate
from app.doctor.model import Severity
from app.errors import ApiError
from app.status.gathering import EXAMINED_EVERY, SECTIONS, accepted, diagnose, read_section
from app.status.model import Column, Diagnosis, Found, Section, Value
from app.ui.subjects import Target, target_of
from app.ui.view import Asked, Model, View

ROWS = 50
"""Items of a section on the page: the worst. `berth status -o json` has all."""


class Heading(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A column: its name in `cells`, its heading, and whether it is a cell, an age or a note."""

    name: str
    text: str
    shown: str


class Item(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """An item of a section.

    `cells` are texts by column; an age is an RFC 3339 time. `targets` are the objects that cells name.
    """

    severity: str
    cells: dict[str, str]
    notes: tuple[str, ...] = ()
    targets: dict[str, Target] = {}


class Part(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A section: its totals, its worst items, how many more there are, and what could not be read.

    `words` are shown in place of the names of totals.
    """

    title: str
    severity: str
    totals: dict[str, int | None]
    words: dict[str, str]
    columns: tuple[Heading, ...]
    items: tuple[Item, ...]
    more: int
    empty: str
    unread: tuple[str, ...]


class Problem(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A finding of the doctor, with the command that ends it, "" if there is none."""

    severity: str
    code: str
    subject: str
    message: str
    consequence: str
    command: str
    target: Target | None


class Doctor(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """What the doctor found; `counts` by severity, the worst first. `command` shows all."""

    counts: dict[str, int]
    problems: tuple[Problem, ...]
    command: str
    fault: str = ""


class Summary(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Which installation it is, and the worst severity of all."""

    namespace: str
    release: str
    severity: str


class Overview(Model, frozen=True, kw_only=True, rename="camel"):
    """What Berth does in a cluster. `sections` are by name; `doctor` is null until the doctor has ended once."""

    summary: Summary
    doctor: Doctor | None
    sections: dict[str, Part]

    def fragments(self) -> dict[str, object]:
        parts = {f"section-{name}": part for name, part in self.sections.items()}
        return {"summary": self.summary, "doctor": self.doctor, **parts}


async def _read(asked: Asked) -> Overview:
    namespace, release = await asked.kept("located", _located)
    contents = await asyncio.gather(
        *(asked.kept(("section", section.name), partial(_section, section)) for section in SECTIONS)
    )
    parts = {section.name: part for section, part in zip(SECTIONS, contents, strict=True) if part is not None}
    doctor = await _examined(asked)
    worst = [part.severity for part in parts.values()]
    worst += [name for name, count in doctor.counts.items() if count] if doctor else []
    severity = max((Severity[name] for name in worst), default=Severity.ok)
    return Overview(
        summary=Summary(namespace=namespace, release=release, severity=severity.name), doctor=doctor, sections=parts
    )


async def _located(cluster: Cluster) -> tuple[str, str]:
    await accepted(cluster)
    await locate(cluster)
    return cluster.namespace, cluster.release


async def _section(section: Section, cluster: Cluster) -> Part | None:
    await locate(cluster)
    found = await read_section(cluster, section, {})
    return None if found is None else part_of(section, found)


def part_of(section: Section, found: Found) -> Part:
    """What the page shows of a section."""
    rows = sorted(found.rows, key=lambda row: -row.severity)
    shown = [column for column in section.columns if column.shown in ("cell", "age")]
    notes = [column.name for column in section.columns if column.shown == "note"]
    items = []
    for row in rows[:ROWS]:
        cells = {column.name: _cell(column, row.values) for column in shown}
        named = {column.name: f"{column.kind} {cells[column.name]}".strip() for column in shown} | dict(row.subjects)
        targets = {name: target for name, text in named.items() if (target := target_of(text)) is not None}
        texts = tuple(plain(text) for text in (row.values.get(name) for name in notes) if text)
        items.append(Item(severity=row.severity.name, cells=cells, notes=texts, targets=targets))
    return Part(
        title=section.title,
        severity=found.severity.name,
        totals=dict(found.totals),
        words=dict(section.words),
        columns=tuple(
            Heading(name=column.name, text=column.heading.capitalize() or column.name, shown=column.shown)
            for column in shown
        ),
        items=tuple(items),
        more=max(0, len(rows) - ROWS),
        empty=section.empty,
        unread=tuple(plain(text) for text in found.unread),
    )


def _cell(column: Column, values: Mapping[str, Value]) -> str:
    value = values.get(column.name)
    if value is None:
        return ""
    return plain(f"{value}/{values.get(column.of)}" if column.of else value)


async def _examined(asked: Asked) -> Doctor | None:
    """What the doctor found last: it asks much, so it examines once in a while, and nothing waits for it."""
    return await asked.later("doctor", _diagnosed, every=EXAMINED_EVERY)


async def _diagnosed(cluster: Cluster) -> Doctor:
    try:
        return doctor_of(await diagnose(cluster))
    except ApiError as error:
        return Doctor(counts={}, problems=(), command=cluster.doctor(), fault=str(error))


def doctor_of(diagnosis: Diagnosis) -> Doctor:
    """What the page shows of a diagnosis; of information what is said of an object, such as a rule without a match."""
    hints = (finding for finding in diagnosis.hints if _target(finding.subject) is not None)
    problems = tuple(
        Problem(
            severity=finding.severity.name,
            code=finding.code,
            subject=plain(finding.subject),
            message=plain(finding.message),
            consequence=plain(finding.consequence),
            command=finding.command,
            target=_target(finding.subject),
        )
        for finding in (*diagnosis.problems, *hints)
    )
    counts = {severity.name: diagnosis.counts.get(severity, 0) for severity in reversed(Severity)}
    return Doctor(counts=counts, problems=problems, command=diagnosis.command)


def _target(subject: str) -> Target | None:
    """The object of a finding, also of one on a part of it: `MutatingWebhookConfiguration berth, webhook NAME`."""
    return target_of(subject.partition(", ")[0])


VIEW = View(
    "overview",
    "Overview",
    "What Berth does in the cluster, as berth status says it, and what berth doctor finds.",
    Overview,
    _read,
    "ui/templates/overview.html",
)
