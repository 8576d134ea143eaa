"""Rows of a section out of verdicts: objects that are not fine, grouped by what is said of them."""

from __future__ import annotations

from dataclasses import dataclass

from app.doctor.model import Severity
from app.doctor.objects import Object
from app.kube.resources import Resource
from app.status.model import Column, Row
from app.status.reading import Reading
from app.why.inquiry import Inquiry
from app.why.model import State

COLUMNS = (
    Column("reason", "what is said of them: as `berth why` says it of the example"),
    Column("count", "of how many"),
    Column("example", "the first of them"),
    Column("message", "why that is so", shown="note"),
)
_GROUPS = 50
"""Reasons with a row of their own; all others are in one row."""
_OTHER = "other reasons"


@dataclass(slots=True)
class _Group:
    example: str
    message: str
    severity: Severity
    count: int = 0


class Reasons:
    """Objects counted by what they lack, which they say themselves; the example of a reason is the first by name."""

    def __init__(self) -> None:
        self._counts: dict[str, tuple[int, str]] = {}

    def add(self, reason: str, name: str) -> None:
        count, first = self._counts.get(reason, (0, name))
        self._counts[reason] = count + 1, min(first, name)

    @property
    def total(self) -> int:
        return sum(count for count, _ in self._counts.values())

    def rows(self) -> tuple[Row, ...]:
        """The most frequent first."""
        return tuple(
            Row({"reason": reason, "count": count, "example": first}, Severity.info)
            for reason, (count, first) in sorted(self._counts.items(), key=lambda item: (-item[1][0], item[0]))
        )


class Tally:
    """Verdicts on the objects of a kind, one after the other."""

    def __init__(self, reading: Reading, resource: Resource) -> None:
        self._inquiry = Inquiry(reading.cluster, many=True)
        self._reading, self._resource = reading, resource
        self._groups: dict[str, _Group] = {}

    async def add(self, obj: dict[str, object]) -> None:
        it = Object(self._resource, obj)
        verdict = await self._inquiry.verdict(it)
        if verdict.state is State.fine:
            return
        reason = verdict.text if verdict.text in self._groups or len(self._groups) < _GROUPS else _OTHER
        severity = Severity.info if verdict.state is State.waits else Severity.warning
        message = next(iter(verdict.because), "")
        self._groups.setdefault(reason, _Group(it.subject, message, severity)).count += 1

    def rows(self) -> tuple[Row, ...]:
        """The worst first; what could not be read is noted."""
        self._reading.unread += [text for text in self._inquiry.unread if text not in self._reading.unread]
        groups = sorted(self._groups.items(), key=lambda item: (-item[1].severity, -item[1].count, item[0]))
        return tuple(
            Row(
                {"reason": reason, "count": group.count, "example": group.example, "message": group.message or None},
                group.severity,
            )
            for reason, group in groups
        )
