"""API servers with claims."""

from __future__ import annotations

from tests.support.chart import chart, render  # noqa: F401  # fixtures
from tests.support.sandbox import real_server  # noqa: F401  # a fixture
