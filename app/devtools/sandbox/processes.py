"""What an API server knows of Pods that are processes of this machine: where their logs are, and where they listen."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path


@dataclass(frozen=True, slots=True)
class PodLog:
    """The process of one Pod: its `address` on this machine, and the file with what it prints.

    `previous` is the file with what it printed before its last start; it is there once the process was restarted.
    """

    address: str
    current: Path

    @property
    def previous(self) -> Path:
        return self.current.with_suffix(".previous.log")


Processes = dict[str, PodLog]
"""By UID of the Pod. A Pod that is not among them has no process."""
