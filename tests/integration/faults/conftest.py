"""Authority and files for the worlds of the fault tests."""

from __future__ import annotations

from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path

import pytest
import pytest_asyncio

from app.kube import reflector
from app.kube.retry import Backoff
from app.tenancy.agent.settings import AgentOptions
from tests.integration.faults.processes import Processes, processes
from tests.support.tenancy import _no_proxies, agent_settings, pki  # noqa: F401  # fixtures


@pytest.fixture(autouse=True)
def _short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    """A cache that is cut off again and again stays blind for longer than the steps of a round take, and not for 30 s."""
    monkeypatch.setattr(reflector, "Backoff", partial(Backoff, base=0.2, cap=1.0))


@pytest.fixture
def agent_options(tmp_path: Path) -> AgentOptions:
    """For what needs no gateway."""
    return AgentOptions(agent_settings("127.0.0.1:1", tmp_path))


@pytest_asyncio.fixture
async def stage(tmp_path: Path) -> AsyncIterator[Processes]:
    async with processes(tmp_path) as made:
        yield made
