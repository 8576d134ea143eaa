from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from app.devtools.sandbox.server import Cluster
from app.kube.transport import AioKubeClient, connect


@pytest.fixture(scope="module")
def now() -> datetime:
    """The present, whole seconds: handshakes are checked against the real clock."""
    return datetime.now(UTC).replace(microsecond=0)


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
async def client(kubeconfig: str) -> AsyncIterator[AioKubeClient]:
    async with await connect(kubeconfig=kubeconfig) as connected:
        yield connected
