"""Nodes: real ones, and stand-ins."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from tests.support.node_stage import NodeStage, node_stage


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def stage(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[NodeStage]:
    """Parametrized by the modules, indirectly."""
    async with node_stage(tmp_path_factory.mktemp("node"), real=request.param == "real") as made:
        yield made
