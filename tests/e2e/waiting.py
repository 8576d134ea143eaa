"""Waiting for what comes true by itself."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

import pytest

from tests.patience import PATIENCE


class Refused(Exception):
    """The API server said no; the text is what the user reads."""


def eventually(condition: Callable[[], Any], *, seconds: float = PATIENCE) -> Any:
    """What `condition` returns once it is true; fails after `seconds`. Errors of the API count as "not yet"."""
    end = time.monotonic() + seconds
    pause = threading.Event()
    while True:
        last: object = None
        try:
            last = condition()
            if last:
                return last
        except Refused as error:
            last = error
        if time.monotonic() > end:
            pytest.fail(f"still not so after {seconds} s: {last!r}")
        pause.wait(0.05)
