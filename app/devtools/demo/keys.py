"""A key of the terminal, waited for without holding up the event loop: the sandbox serves on meanwhile."""

from __future__ import annotations

import asyncio
import contextlib
import os
import termios
import tty
from collections.abc import Awaitable, Callable, Iterator

from rich.console import Console

from app.errors import UsageError


def key_waiter(console: Console, descriptor: int = 0) -> Callable[[], Awaitable[str]]:
    """What waits for a key of the terminal with this file descriptor, and says which it was.

    Raises UsageError where it is no terminal. Ctrl-C still interrupts.
    """
    if not os.isatty(descriptor):
        raise UsageError("--step waits for keys: want a terminal as standard input, or no --step")

    async def wait() -> str:
        console.print("\nPress a key for the next step, s for the next part, q to end …", style="dim", highlight=False)
        return await _any_key(descriptor)

    return wait


async def _any_key(descriptor: int) -> str:
    loop = asyncio.get_running_loop()
    pressed = asyncio.Event()
    with _unbuffered(descriptor):
        loop.add_reader(descriptor, pressed.set)
        try:
            await pressed.wait()
        finally:
            loop.remove_reader(descriptor)
        return os.read(descriptor, 1024).decode(errors="replace")


@contextlib.contextmanager
def _unbuffered(descriptor: int) -> Iterator[None]:
    """The terminal gives each key at once, and does not show it; as before afterwards."""
    before = termios.tcgetattr(descriptor)
    tty.setcbreak(descriptor)
    try:
        yield
    finally:
        termios.tcsetattr(descriptor, termios.TCSADRAIN, before)
