"""Logs: one JSON object a line on standard error, ours and our libraries' alike.

Whole objects are never logged, and no secret; what an event says is a handful of stable keys.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import sys
import time
from typing import Any, BinaryIO, cast

import structlog

from app.errors import UsageError
from app.wire import encode_json

LEVELS = ("debug", "info", "warning", "error")


class _Stderr:
    """Standard error that may go away: whoever reads the log and ends must not end the reviews."""

    def write(self, line: bytes) -> None:
        with contextlib.suppress(OSError):
            sys.stderr.buffer.write(line)

    def flush(self) -> None:
        with contextlib.suppress(OSError):
            sys.stderr.buffer.flush()


def _json(event: Any, **_: object) -> bytes:
    """The line of one event; whatever was put into it, there is a line."""
    try:
        return encode_json(event)
    except (TypeError, ValueError, RecursionError):
        return json.dumps(event, default=repr).encode()


def configure(level: str = "info") -> None:
    """Set up structlog, and send the standard library's loggers (uvicorn, aiohttp, asyncio) the same way.

    Raises UsageError for a level that is none of `LEVELS`.
    """
    if level not in LEVELS:
        raise UsageError(f"--log-level: want {', '.join(LEVELS)}, got {level!r}")
    number = logging.getLevelNamesMapping()[level.upper()]
    shared: list[structlog.typing.Processor] = [
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True, key="time"),
    ]
    structlog.configure(
        processors=[
            *shared,
            structlog.processors.format_exc_info,
            structlog.processors.EventRenamer("msg"),
            structlog.processors.JSONRenderer(serializer=_json),
        ],
        wrapper_class=structlog.make_filtering_bound_logger(number),
        logger_factory=structlog.BytesLoggerFactory(cast("BinaryIO", _Stderr())),
        cache_logger_on_first_use=True,
    )
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=[*shared, structlog.stdlib.add_logger_name],
            processors=[
                structlog.stdlib.ProcessorFormatter.remove_processors_meta,
                structlog.processors.format_exc_info,
                structlog.processors.EventRenamer("msg"),
                structlog.processors.JSONRenderer(serializer=lambda event, **_: _json(event).decode()),
            ],
        )
    )
    root = logging.getLogger()
    root.handlers[:] = [handler]
    # Our libraries say at "info" what a user of Berth does not ask about.
    root.setLevel(max(number, logging.WARNING) if number > logging.DEBUG else number)
    logging.getLogger("uvicorn.error").setLevel(root.level)


class LineWriter:
    """Writes many lines with few system calls: what comes within `SECONDS` goes out together, or at once if `urgent`.

    For the line of each review: a write of its own costs as much as planning an injection. A process that is killed
    without warning loses at most the last lines; one that stops calls `flush`.
    """

    SECONDS = 0.02
    LIMIT = 256
    """Lines."""

    def __init__(self) -> None:
        self._lines: list[bytes] = []
        self._timer: asyncio.TimerHandle | None = None
        self._stream = _Stderr()

    def write(self, line: bytes, *, urgent: bool = False) -> None:
        self._lines.append(line)
        if urgent or len(self._lines) >= self.LIMIT:
            self.flush()
        elif self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(self.SECONDS, self.flush)

    def flush(self) -> None:
        """Write what is waiting."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._lines:
            self._lines.append(b"")
            self._stream.write(b"\n".join(self._lines))
            self._stream.flush()
            self._lines.clear()


class Clock:
    """The time as the logs write it; the part down to the second is formatted once a second."""

    def __init__(self) -> None:
        self._second, self._text = -1, ""

    def __call__(self) -> str:
        now = time.time()
        second = int(now)
        if second != self._second:
            self._second, self._text = second, time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(now))
        return f"{self._text}.{int((now - second) * 1e6):06d}Z"
