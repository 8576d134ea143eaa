"""Discovery of the sandbox's API server."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest_asyncio

from app.devtools.sandbox.server import Cluster
from app.kube.client import KubeClient
from app.kube.discovery import Discovery
from app.kube.resources import DEPLOYMENTS, NODES, PODS
from app.kube.transport import connect
from tests.support.waiting import PATIENCE


@pytest_asyncio.fixture
async def sandbox(tmp_path: Path) -> AsyncIterator[KubeClient]:
    async with Cluster("discovered") as cluster:
        kubeconfig = tmp_path / "kubeconfig"
        kubeconfig.write_text(cluster.kubeconfig())
        async with await connect(kubeconfig=str(kubeconfig), deadline=PATIENCE) as connected:
            yield connected


async def test_the_lists_of_a_cluster(sandbox: KubeClient) -> None:
    discovery = Discovery(sandbox)
    assert await discovery.resource_of("v1", "Pod") == PODS
    assert await discovery.resource_of("v1", "Node") == NODES
    assert await discovery.resource_of("apps/v1", "Deployment") == DEPLOYMENTS
    assert await discovery.resource_of("apps/v2", "Deployment") is None
