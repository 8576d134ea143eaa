"""API servers with attachments and claims, and clusters whose Pods are scheduled."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest_asyncio

from tests.support.chart import Server, chart, render, server  # noqa: F401  # fixtures
from tests.support.claim_cluster import cluster as claim_cluster  # noqa: F401  # a fixture
from tests.support.claims import ClaimsCluster
from tests.support.control_plane import control_plane  # noqa: F401  # a fixture
from tests.support.sandbox import namespace, real_server, sandboxed, served  # noqa: F401  # fixtures
from tests.support.simulated import pytest_asyncio_loop_factories  # noqa: F401  # a hook


@pytest_asyncio.fixture
async def cluster(server: Server) -> AsyncIterator[ClaimsCluster]:  # noqa: F811  # the fixture
    made = ClaimsCluster(server)
    await made.prepare()
    yield made
