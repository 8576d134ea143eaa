"""The time at which a module of tests runs, and one that a test moves."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime

import pytest


@pytest.fixture(scope="module")
def now() -> datetime:
    """The present, whole seconds: handshakes are checked against the real clock."""
    return datetime.now(UTC).replace(microsecond=0)


@dataclass
class Clock:
    """Seconds that pass where a test says so."""

    now: float = 0.0

    def __call__(self) -> float:
        return self.now
