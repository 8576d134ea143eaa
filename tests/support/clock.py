"""The time at which a module of tests runs."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest


@pytest.fixture(scope="module")
def now() -> datetime:
    """The present, whole seconds: handshakes are checked against the real clock."""
    return datetime.now(UTC).replace(microsecond=0)
