"""The chart, rendered."""

from __future__ import annotations

from tests.support.chart import chart, render  # noqa: F401  # fixtures
