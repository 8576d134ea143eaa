"""Clusters with Services on secondary networks."""

from __future__ import annotations

from tests.support.chart import Server, chart, render, server  # noqa: F401  # fixtures
from tests.support.network_services import cluster as network_cluster  # noqa: F401  # a fixture
from tests.support.sandbox import real_server  # noqa: F401  # a fixture
from tests.support.simulated import pytest_asyncio_loop_factories  # noqa: F401  # a hook
