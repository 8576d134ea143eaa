"""An event loop on a simulated clock: what is timed comes out alike on any machine.

A room that imports `pytest_asyncio_loop_factories` into its conftest.py has it for the tests marked `simulated`.
"""

from __future__ import annotations

import array
import asyncio
import fcntl
import selectors
import termios
from collections.abc import Callable, Mapping
from typing import Any

import pytest

_SETTLED = 0.001
"""Seconds of the real clock in which nothing has come: what this process sends itself arrives at once."""
_ARRIVING = 0.01
"""The same while anything is on its way: a busy kernel may put it off."""
_WORKING = 5.0
"""The same while a thread works for the loop."""

_TICK = 1e-6
"""Seconds that each turn takes, so that less than the clock can tell is over as well."""


class _Selector(selectors.DefaultSelector):  # type: ignore[misc,valid-type]  # its class depends on the system
    """Waits for no timer: it lets the time pass that remains until then."""

    now = 1000.0
    working = 0
    """How many threads work for the loop."""

    def select(self, timeout: float | None = None) -> Any:
        found = super().select(timeout if timeout is None else min(timeout, _SETTLED))
        if not found and timeout is not None:
            if timeout > 0 and (patience := self._patience()):
                found = super().select(min(timeout, patience))
            if not found:
                self.now += max(timeout, _TICK)
        return found

    def _patience(self) -> float:
        if self.working:
            return _WORKING
        sockets = self.get_map().values()
        return _ARRIVING if any(key.events & selectors.EVENT_WRITE or _unacknowledged(key.fd) for key in sockets) else 0


def _unacknowledged(descriptor: int) -> bool:
    """Whether its peer's receive buffer lacks anything that was sent (SIOCOUTQ of tcp(7) and unix(7))."""
    count = array.array("i", [0])
    try:
        fcntl.ioctl(descriptor, termios.TIOCOUTQ, count)
    except OSError:  # no socket that is connected
        return False
    return count[0] > 0


class SimulatedLoop(asyncio.SelectorEventLoop):
    """Time all but stands still while anything happens, and goes on to the next timer as soon as nothing does.

    Both ends of every connection have to be on this loop, and no thread may wait for a timer.
    """

    def __init__(self) -> None:
        self._simulated = _Selector()
        super().__init__(self._simulated)

    def time(self) -> float:
        return self._simulated.now

    def run_in_executor(self, executor: Any, func: Callable[..., Any], *args: Any) -> asyncio.Future[Any]:
        future = super().run_in_executor(executor, func, *args)
        self._simulated.working += 1
        future.add_done_callback(self._worked)
        return future

    def _worked(self, _future: asyncio.Future[Any]) -> None:
        self._simulated.working -= 1


def pytest_asyncio_loop_factories(item: pytest.Item) -> Mapping[str, Callable[[], asyncio.AbstractEventLoop]]:
    if item.get_closest_marker("simulated"):
        return {"simulated": SimulatedLoop}
    return {"asyncio": asyncio.new_event_loop}
