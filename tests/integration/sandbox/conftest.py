"""API servers, clusters whose controllers run, and a server of webhooks."""

from __future__ import annotations

from tests.support.control_plane import control_plane  # noqa: F401  # a fixture
from tests.support.hooks import hook  # noqa: F401  # a fixture
from tests.support.sandbox import namespace, real_server, sandboxed, served  # noqa: F401  # fixtures
