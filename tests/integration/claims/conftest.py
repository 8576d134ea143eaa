"""API servers with claims."""

from __future__ import annotations

from tests.support.chart import chart, render  # noqa: F401  # fixtures
from tests.support.sandbox import namespace, real_server, sandboxed, served  # noqa: F401  # fixtures
