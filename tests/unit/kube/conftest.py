"""An API server on loopback and the real client connected to it."""

from __future__ import annotations

from tests.support.kube import _no_proxies, client, server  # noqa: F401  # fixtures
from tests.support.simulated import pytest_asyncio_loop_factories  # noqa: F401  # a hook
