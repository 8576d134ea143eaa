"""API servers, the sandbox's and a real one, with attachments and claims."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest_asyncio

from tests.support.chart import Server, server  # noqa: F401  # a fixture
from tests.support.claims import ClaimsCluster


@pytest_asyncio.fixture
async def cluster(server: Server) -> AsyncIterator[ClaimsCluster]:  # noqa: F811  # the fixture
    made = ClaimsCluster(server)
    await made.prepare()
    yield made
