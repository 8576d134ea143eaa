"""A server of webhooks and what calls it."""

from __future__ import annotations

from tests.support.sandbox import dispatcher, webhook_server  # noqa: F401  # fixtures
