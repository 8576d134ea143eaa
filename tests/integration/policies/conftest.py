"""The chart, rendered."""

from __future__ import annotations

from tests.support.chart import chart, render, sandbox, server  # noqa: F401  # fixtures
