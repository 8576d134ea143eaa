"""Whatever is logged becomes one JSON line; nothing that is logged can raise."""

from __future__ import annotations

import json
import os
import subprocess
import sys

SCRIPT = """
import logging, structlog
from app import logs
logs.configure("info")
log = structlog.get_logger("t")
log.info("odd", error=ValueError("x"), text=chr(0xD800), many={1, 2}, line="a\\nb")
log.debug("not at info")
logging.getLogger("aiohttp.client").warning("foreign %s", "text")
logging.getLogger("uvicorn.error").info("what nobody asked about")
for attempt in range(3):
    logging.getLogger("opentelemetry.exporter").warning("not sent: %s", attempt)
    logging.getLogger("asyncio").warning("odd %s", attempt)
try:
    1 / 0
except ZeroDivisionError:
    logging.getLogger("asyncio").exception("broken")
for closed in ("TLS", "SSL"):
    try:
        raise RuntimeError("unable to perform operation on <TCPTransport closed=True>; the handler is closed")
    except RuntimeError:  # as uvloop says that a peer has gone while more was written
        logging.getLogger("asyncio").exception(f"Fatal error on {closed} protocol")
"""


def test_every_line_is_an_object_with_level_time_and_message() -> None:
    done = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True, check=True)
    events = [json.loads(line) for line in done.stderr.splitlines()]
    assert [event["msg"] for event in events] == [
        "odd",
        "foreign text",
        "not sent: 0",
        "odd 0",
        "odd 1",
        "odd 2",
        "broken",
        "Fatal error on TLS protocol",
    ]
    assert events[0]["line"] == "a\nb"
    assert "ZeroDivisionError" in events[-2]["exception"]
    assert all({"level", "time"} <= event.keys() for event in events)
    assert done.stdout == ""


def test_a_reader_that_is_gone_does_not_stop_the_writer() -> None:
    """The pipe of standard error is closed at the other end."""
    script = "import structlog; from app import logs; logs.configure(); log = structlog.get_logger('t')\n"
    script += "for _ in range(3): log.info('nobody reads this')\nprint('alive', flush=True)"
    read, write = os.pipe()
    os.close(read)
    done = subprocess.run([sys.executable, "-c", script], stdout=subprocess.PIPE, stderr=write, text=True, check=False)
    os.close(write)
    assert done.stdout == "alive\n"
