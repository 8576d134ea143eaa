"""The signals that end the sandbox and the demo: what they leave behind has private keys in it."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable

_ENDING = (signal.SIGTERM, signal.SIGHUP)


def ended_by(end: Callable[[], object], *more: signal.Signals) -> list[int]:
    """Call `end` once, at the first of SIGTERM, SIGHUP and `more`; the list gets its number.

    What was ignored when the process started (`nohup`) stays so.
    """
    received: list[int] = []

    def on_signal(number: int) -> None:
        if not received:
            received.append(number)
            end()

    for number in (*_ENDING, *more):
        if number == signal.SIGINT or signal.getsignal(number) is not signal.SIG_IGN:
            asyncio.get_running_loop().add_signal_handler(number, on_signal, number)
    return received
