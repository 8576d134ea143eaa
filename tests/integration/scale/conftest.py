"""Two clusters with hundreds of nodes."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest_asyncio

from tests.integration.scale.stage import Clusters, many_pods


@pytest_asyncio.fixture
async def clusters(tmp_path: Path) -> AsyncIterator[Clusters]:
    async with many_pods(tmp_path) as made:
        yield made
