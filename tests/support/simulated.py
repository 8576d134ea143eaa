"""An event loop on a simulated clock: what is timed comes out alike on any machine.

A room that imports `pytest_asyncio_loop_factories` into its conftest.py has it for the tests marked `simulated`.
"""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Callable, Mapping
from typing import Any

import pytest

_SETTLED = 0.01
"""Seconds of the real clock in which nothing has come: what this process sends itself arrives at once."""

_TICK = 1e-6
"""Seconds that each turn takes, so that less than the clock can tell is over as well."""


class _Selector(selectors.DefaultSelector):  # type: ignore[misc,valid-type]  # its class depends on the system
    """Waits for no timer: it lets the time pass that remains until then."""

    now = 1000.0

    def select(self, timeout: float | None = None) -> Any:
        found = super().select(timeout if timeout is None else min(timeout, _SETTLED))
        if not found and timeout is not None:
            self.now += max(timeout, _TICK)
        return found


class SimulatedLoop(asyncio.SelectorEventLoop):
    """Time all but stands still while anything happens, and goes on to the next timer as soon as nothing does.

    Both ends of every connection have to be on this loop, and nothing may wait for a thread beside a timer.
    """

    def __init__(self) -> None:
        self._simulated = _Selector()
        super().__init__(self._simulated)

    def time(self) -> float:
        return self._simulated.now


def pytest_asyncio_loop_factories(item: pytest.Item) -> Mapping[str, Callable[[], asyncio.AbstractEventLoop]]:
    if item.get_closest_marker("simulated"):
        return {"simulated": SimulatedLoop}
    return {"asyncio": asyncio.new_event_loop}
