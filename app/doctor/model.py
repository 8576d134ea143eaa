"""The types `Finding` and `Check`: the interface between the checks and the code that runs them.

Values only; this module has no side effects.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from app.doctor.cluster import Cluster


class Severity(IntEnum):
    """In order: what is as it should be; what to know; what will hurt; what hurts now."""

    ok = 0
    info = 1
    warning = 2
    error = 3


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that a check saw.

    `subject` is what it is about, as `Kind namespace/name`; `message` is one sentence without the subject. A finding
    worse than info has a `consequence` (what does or will go wrong) and, if a command can fix it, a `command` that can
    be pasted into a shell. `check` is the name of the check.
    """

    check: str
    severity: Severity
    subject: str
    message: str
    consequence: str = ""
    command: str = ""


class Check(Protocol):
    """One question. It reads, asks (access reviews) and tries (dry runs), and changes nothing.

    An ApiError that it raises becomes a finding: what could not be checked, and which right is missing.
    """

    @property
    def name(self) -> str:
        """A word, by which the user picks the check."""
        ...

    async def run(self, cluster: Cluster) -> list[Finding]: ...
