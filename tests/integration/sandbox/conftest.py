"""API servers, and a server of webhooks."""

from __future__ import annotations

from tests.support.sandbox import namespace, real_server, sandboxed, served  # noqa: F401  # fixtures
