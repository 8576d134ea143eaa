"""What a section of the screen is and what it found: the interface between sections and what writes them.

Nothing here reads. A section declares its members once: the screen, the JSON and the reference are made of them.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Literal

from app.doctor.model import Finding, Severity

if TYPE_CHECKING:
    from app.status.reading import Reading

Value = str | int | None
Shown = Literal["cell", "age", "note", "hidden"]


@dataclass(frozen=True, slots=True)
class Column:
    """A member of each item of a section. `name` is the member in JSON, `text` is its meaning in the reference.

    On the screen a cell is below `heading`; with `of` it is `VALUE/OTHER`, where `of` names the other member. An age is
    an RFC 3339 time in JSON, and the time since then on the screen. A note is on lines of its own below its item.
    With `kind` the value is the name of an object of this kind, NAMESPACE/NAME if it has one.
    """

    name: str
    text: str
    heading: str = ""
    shown: Shown = "cell"
    of: str = ""
    kind: str = ""


@dataclass(frozen=True, slots=True)
class Row:
    """One item of a section, by the names of its columns. One worse than information decides the exit status.

    `subjects` are the objects that cells name in other words, by column, each as `Kind namespace/name`.
    """

    values: Mapping[str, Value]
    severity: Severity = Severity.ok
    subjects: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Found:
    """What a section found. `unread` says what could not be read; a total that depends on it is None."""

    totals: Mapping[str, int | None] = field(default_factory=dict)
    rows: tuple[Row, ...] = ()
    unread: tuple[str, ...] = ()

    @property
    def severity(self) -> Severity:
        unread = Severity.warning if self.unread else Severity.ok
        return max([unread, *(row.severity for row in self.rows)])


@dataclass(frozen=True, slots=True)
class Section:
    """A part of the screen. `read` gives None where the cluster has nothing that it is about.

    `name` is the member in JSON; `totals` are the meanings of the numbers in its heading, by name. Where the names
    depend on the cluster, the one key is in angle brackets. `empty` is what the screen says where there are no items.
    `words` are what the screen says in place of a total's name; one of several words is left out if it is 0.
    One `of_users` speaks of objects of users, and is read in a cluster with a scope too; all others are left out there.
    """

    name: str
    title: str
    text: str
    read: Callable[[Reading], Awaitable[Found | None]]
    totals: Mapping[str, str] = field(default_factory=dict)
    columns: tuple[Column, ...] = ()
    empty: str = ""
    of_users: bool = False
    words: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """How many findings of each severity the doctor counts, when it had them, and the command that shows them.

    `problems` are the findings that are worse than information, without what follows from others; `hints` those that
    are information.
    """

    at: datetime
    counts: Mapping[Severity, int]
    command: str
    problems: tuple[Finding, ...] = ()
    hints: tuple[Finding, ...] = ()

    @property
    def severity(self) -> Severity:
        return max([Severity.ok, *(severity for severity, count in self.counts.items() if count)])


@dataclass(frozen=True, slots=True)
class Status:
    """Everything that the screen shows. `diagnosis` is None until the doctor has ended once.

    With a `scope`, the one namespace that is asked about, `left_out` are the sections about the whole cluster, and
    `beyond` says what the rights in the namespace do not show.
    """

    at: datetime
    namespace: str
    release: str
    sections: tuple[tuple[Section, Found], ...]
    diagnosis: Diagnosis | None = None
    scope: str = ""
    left_out: tuple[Section, ...] = ()
    beyond: tuple[str, ...] = ()

    @property
    def severity(self) -> Severity:
        parts = [content.severity for _, content in self.sections]
        return max([*parts, self.diagnosis.severity if self.diagnosis else Severity.ok])

    def settled(self) -> Status:
        """The same without what changes while nothing happens: the time, and times of last contact."""
        epoch = datetime.min.replace(tzinfo=UTC)
        return replace(
            self,
            at=epoch,
            sections=tuple((section, _settled(section, content)) for section, content in self.sections),
            diagnosis=self.diagnosis and replace(self.diagnosis, at=epoch),
        )


@dataclass(frozen=True, slots=True)
class Away:
    """The API server could not be asked, and why."""

    at: datetime
    message: str


def _settled(section: Section, content: Found) -> Found:
    ages = {column.name for column in section.columns if column.shown == "age"}
    rows = (
        replace(row, values={name: value for name, value in row.values.items() if name not in ages})
        for row in content.rows
    )
    return replace(content, rows=tuple(rows))
