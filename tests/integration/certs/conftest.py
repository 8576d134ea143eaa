from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from app.devtools.sandbox.server import Cluster
from app.kube.client import KubeClient
from app.kube.resources import NAMESPACES
from app.kube.transport import connect
from tests.integration.certs.registered import NAMESPACE, register
from tests.support.clock import now  # noqa: F401  # a fixture
from tests.support.waiting import PATIENCE


@pytest.fixture
async def cluster() -> AsyncIterator[Cluster]:
    async with Cluster() as running:
        yield running


@pytest.fixture
def kubeconfig(cluster: Cluster, tmp_path: Path) -> str:
    path = tmp_path / "kubeconfig"
    path.write_text(cluster.kubeconfig())
    return str(path)


@pytest.fixture
async def client(kubeconfig: str) -> AsyncIterator[KubeClient]:
    async with await connect(kubeconfig=kubeconfig, deadline=PATIENCE) as connected:
        yield connected


@pytest.fixture
async def berth(client: KubeClient) -> KubeClient:
    """The client, at a cluster with the namespace and the configurations of a release."""
    await client.create(NAMESPACES, {"metadata": {"name": NAMESPACE}})
    await register(client)
    return client
