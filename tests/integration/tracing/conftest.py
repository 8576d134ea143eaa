from __future__ import annotations

import os
import threading
from collections.abc import Iterator

import pytest

from tests.support.otlp_receiver import Receiver
from tests.support.waiting import PATIENCE


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with Receiver().serving() as made:
        before = set(threading.enumerate())
        yield made
        made.answer()
        # What the library still tries to send ends here: its pauses draw from `random`, which property tests watch.
        for thread in set(threading.enumerate()) - before:
            thread.join(PATIENCE)


@pytest.fixture(autouse=True)
def _no_otel(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever the environment of the tests says, only what a test says counts."""
    for name in [name for name in os.environ if name.startswith("OTEL_")]:
        monkeypatch.delenv(name)
