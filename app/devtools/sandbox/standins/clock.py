"""The current time in the format of the API."""

from __future__ import annotations

from datetime import UTC, datetime


def timestamp() -> str:
    """Now in UTC, to the second: `2026-11-20T20:20:23Z`."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
