"""The chart, rendered, and API servers to put it on."""

from __future__ import annotations

from tests.support.chart import chart, clusters, render, sandbox, server  # noqa: F401  # fixtures
