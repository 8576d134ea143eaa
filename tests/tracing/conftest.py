from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from tests.tracing.receiver import Receiver


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with Receiver().serving() as made:
        yield made


@pytest.fixture(autouse=True)
def _no_otel(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever the environment of the tests says, only what a test says counts."""
    for name in [name for name in os.environ if name.startswith("OTEL_")]:
        monkeypatch.delenv(name)
