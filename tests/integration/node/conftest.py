"""Nodes: real ones, and stand-ins."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from tests.support.node_stage import NodeStage, node_stage

HERE = Path(__file__).parent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """One node serves a module, so its tests live in one event loop."""
    for item in items:
        if HERE in item.path.parents and item.get_closest_marker("asyncio") is not None:
            item.add_marker(pytest.mark.asyncio(loop_scope="module"), append=False)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def stage(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[NodeStage]:
    """Parametrized by the modules, indirectly."""
    async with node_stage(tmp_path_factory.mktemp("node"), real=request.param == "real") as made:
        yield made
