"""Authority and files for the worlds of the fault tests."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

import pytest
import pytest_asyncio

from app.certs.issuing import issue_authority
from app.kube import reflector
from app.kube.backoff import Backoff
from app.tenancy.agent.options import AgentOptions
from tests.faults.processes import Processes, processes
from tests.tenancy.conftest import Pki


@pytest.fixture
def pki(tmp_path: Path) -> Pki:
    folder = tmp_path / "pki"
    folder.mkdir()
    made = Pki(issue_authority(common_name="test", now=datetime.now(UTC), days=60), folder)
    made.write_serving()
    return made


@pytest.fixture(autouse=True)
def _no_proxies(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY", "grpc_proxy", "KUBECONFIG"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture(autouse=True)
def _short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    """A cache that is cut off again and again stays blind for longer than the steps of a round take, and not for 30 s."""
    monkeypatch.setattr(reflector, "Backoff", partial(Backoff, base=0.2, cap=1.0))


@pytest.fixture
def agent_options(tmp_path: Path) -> AgentOptions:
    """For what needs no gateway."""
    return AgentOptions("127.0.0.1:1", tmp_path / "ca.crt", tmp_path / "tls.crt", tmp_path / "tls.key")


@pytest_asyncio.fixture
async def stage(tmp_path: Path) -> AsyncIterator[Processes]:
    async with processes(tmp_path) as made:
        yield made
