"""Fixtures: an API server on loopback and the real client connected to it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from app.kube.client import KubeClient
from app.kube.transport import connect
from tests.support.fake_apiserver import ApiServer, write_kubeconfig


@pytest_asyncio.fixture
async def server() -> AsyncIterator[ApiServer]:
    api = ApiServer()
    await api.start()
    yield api
    await api.stop()


@pytest_asyncio.fixture
async def client(server: ApiServer, tmp_path: Path) -> AsyncIterator[KubeClient]:
    kubeconfig = write_kubeconfig(tmp_path / "kubeconfig", server.url)
    async with await connect(kubeconfig=str(kubeconfig), deadline=3) as connected:
        yield connected


@pytest.fixture(autouse=True)
def _no_proxies(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY", "KUBECONFIG", "KUBERNETES_SERVICE_HOST"):
        monkeypatch.delenv(name, raising=False)
