"""Logs: one JSON object a line on standard error, ours and our libraries' alike. Never whole objects, never secrets."""

from __future__ import annotations

import contextlib
import json
import logging
import re
import sys
import time
from collections.abc import Callable, Hashable, Mapping
from typing import Any, BinaryIO, cast

from app.errors import UsageError
from app.lean import without
from app.wire import encode_json

# structlog imports both where they are installed. Tracebacks are JSON here, and no role has greenlets.
with without("rich"), without("greenlet"):
    import structlog

_log = structlog.get_logger(__name__)

LEVELS = ("debug", "info", "warning", "error")

_UNSEEN = re.compile(
    "[\x7f-\x9f\xad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb\U000e0000-\U000e007f]"
)
"""What JSON leaves as it is, and a terminal obeys or hides: DEL, C1 controls, marks of direction, zero width."""


class _Stderr:
    """Standard error that ignores write errors: reviews go on after the process that reads the log has ended."""

    def write(self, line: bytes) -> None:
        with contextlib.suppress(OSError):
            sys.stderr.buffer.write(line)

    def flush(self) -> None:
        with contextlib.suppress(OSError):
            sys.stderr.buffer.flush()


def _json(event: Any, **_: object) -> bytes:
    """The line of one event, also where a value of it is not JSON."""
    try:
        return plain(encode_json(event))
    except (TypeError, ValueError, RecursionError):
        return plain(json.dumps(event, default=repr).encode())


def plain(line: bytes) -> bytes:
    """The same JSON, with what a terminal would obey or hide as escapes: names are what a client sends."""
    if line.isascii() and b"\x7f" not in line:
        return line
    return _UNSEEN.sub(lambda match: json.dumps(match[0])[1:-1].replace("\x7f", "\\u007f"), line.decode()).encode()


class LogDedup:
    """Of equal warnings it writes the first, then one a window with the number that was left out.

    For lines that a caller can cause at will; the code that logs them counts each in the metrics. `window` is seconds.
    Beyond `KEYS` different lines at a time, all lines of one event are equal.
    """

    KEYS = 1000

    def __init__(self, *, window: float = 10.0, clock: Callable[[], float] = time.monotonic) -> None:
        self._window, self._clock = window, clock
        # When the line was written, and how many equal ones were left out since.
        self._written: dict[tuple[str, tuple[Any, ...]], tuple[float, int]] = {}

    def warning(self, event: str, same: Mapping[str, Hashable], **details: object) -> None:
        """Lines of one `event` with the `same` fields are equal; `details` are of the one that is written."""
        left_out = self.admit(event, *same.items())
        if left_out is not None:
            _log.warning(event, **same, **details, left_out=left_out)

    def admit(self, event: str, *same: Hashable) -> int | None:
        """How many equal lines were left out before this one; None where this one is left out too."""
        key = (event, same)
        if key not in self._written and len(self._written) >= self.KEYS:
            key = (event, ())
        now = self._clock()
        since, left_out = self._written.get(key, (now - self._window, 0))
        if now - since < self._window:
            self._written[key] = since, left_out + 1
            return None
        self._written[key] = now, 0
        return left_out

    def review(self) -> None:
        """Forget the lines whose window is over, and log how many were left out of each; call it now and then."""
        now = self._clock()
        for key, (since, left_out) in list(self._written.items()):
            if now - since >= self._window:
                del self._written[key]
                if left_out:
                    _log.warning(key[0], **dict(key[1]), left_out=left_out)


class _LibraryFilter(logging.Filter):
    """Drops equal lines of OpenTelemetry (one a failed try) and warnings of the HTTP server (one a bad request).

    A peer that ends its connection while more is written to it is no error, but uvloop's TLS reports it as one.
    """

    def __init__(self) -> None:
        super().__init__()
        self._lines = LogDedup(window=60.0)

    def filter(self, record: logging.LogRecord) -> bool:
        if record.name == "asyncio" and _is_peer_gone(record):
            return False
        of_server = record.name == "uvicorn.error" and record.levelno == logging.WARNING
        if not of_server and not record.name.startswith("opentelemetry."):
            return True
        return self._lines.admit(f"{record.pathname}:{record.lineno}") is not None


def _is_peer_gone(record: logging.LogRecord) -> bool:
    error = record.exc_info[1] if record.exc_info else None
    return (
        isinstance(error, RuntimeError)
        and str(error).endswith("the handler is closed")
        and record.getMessage().startswith("Fatal error on SSL protocol")
    )


def configure(level: str = "info") -> None:
    """Set up structlog and the standard library's loggers (uvicorn, aiohttp, asyncio); UsageError for a bad level."""
    if level not in LEVELS:
        raise UsageError(f"--log-level: want {', '.join(LEVELS)}, got {level!r}")
    number = logging.getLevelNamesMapping()[level.upper()]
    processors = structlog.processors
    first: list[structlog.typing.Processor] = [
        processors.add_log_level,
        processors.TimeStamper(fmt="iso", utc=True, key="time"),
    ]
    last: list[structlog.typing.Processor] = [processors.format_exc_info, processors.EventRenamer("msg")]
    structlog.configure(
        processors=[*first, *last, processors.JSONRenderer(serializer=_json)],
        wrapper_class=structlog.make_filtering_bound_logger(number),
        logger_factory=structlog.BytesLoggerFactory(cast("BinaryIO", _Stderr())),
        cache_logger_on_first_use=True,
    )
    handler = logging.StreamHandler(sys.stderr)
    handler.addFilter(_LibraryFilter())
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=[*first, structlog.stdlib.add_logger_name],
            processors=[
                structlog.stdlib.ProcessorFormatter.remove_processors_meta,
                *last,
                processors.JSONRenderer(serializer=lambda event, **_: _json(event).decode()),
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
