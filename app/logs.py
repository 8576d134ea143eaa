"""Logs: one JSON object a line on standard error, ours and our libraries' alike.

Whole objects are never logged, and no secret; what an event says is a handful of stable keys.
"""

from __future__ import annotations

import contextlib
import json
import logging
import re
import sys
import time
from typing import Any, BinaryIO, cast

import structlog

from app.errors import UsageError
from app.wire import encode_json

LEVELS = ("debug", "info", "warning", "error")

_UNSEEN = re.compile(
    "[\x7f-\x9f\xad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb\U000e0000-\U000e007f]"
)
"""What JSON leaves as it is and a terminal obeys or hides: DEL, C1 controls, marks of direction, what has no width."""


class _Stderr:
    """Standard error that ignores write errors: reviews go on after the process that reads the log has ended."""

    def write(self, line: bytes) -> None:
        with contextlib.suppress(OSError):
            sys.stderr.buffer.write(line)

    def flush(self) -> None:
        with contextlib.suppress(OSError):
            sys.stderr.buffer.flush()


def _json(event: Any, **_: object) -> bytes:
    """The line of one event; whatever was put into it, there is a line."""
    try:
        return plain(encode_json(event))
    except (TypeError, ValueError, RecursionError):
        return plain(json.dumps(event, default=repr).encode())


def plain(line: bytes) -> bytes:
    """The same JSON, with what a terminal would obey or hide written as escapes: names are whatever a client sends."""
    if line.isascii() and b"\x7f" not in line:
        return line
    return _UNSEEN.sub(lambda found: json.dumps(found[0])[1:-1].replace("\x7f", "\\u007f"), line.decode()).encode()


class _Sparing(logging.Filter):
    """Lets a library say the same once in `SECONDS`: one that cannot send its spans says so at every try.

    The same for warnings of the HTTP server: it has one for each request that is none, and anybody can send those.
    """

    SECONDS = 60.0
    _LIBRARY = "opentelemetry."

    def __init__(self) -> None:
        super().__init__()
        self._said: dict[tuple[str, int], float] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        of_server = record.name == "uvicorn.error" and record.levelno == logging.WARNING
        if not of_server and not record.name.startswith(self._LIBRARY):
            return True
        place, now = (record.pathname, record.lineno), time.monotonic()
        if now < self._said.get(place, now):
            return False
        self._said[place] = now + self.SECONDS
        return True


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
    handler.addFilter(_Sparing())
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


_stderr = _Stderr()


def write_lines(lines: list[bytes]) -> None:
    """Write lines that are JSON already, with one system call for all of them."""
    _stderr.write(b"\n".join([*map(plain, lines), b""]))
    _stderr.flush()


class Clock:
    """Unix times as the logs write them; the part down to the second is formatted once a second."""

    def __init__(self) -> None:
        self._second, self._text = -1, ""

    def __call__(self, now: float) -> str:
        second = int(now)
        if second != self._second:
            self._second, self._text = second, time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(now))
        return f"{self._text}.{int((now - second) * 1e6):06d}Z"
