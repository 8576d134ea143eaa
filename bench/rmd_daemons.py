"""Stand-in daemons of RMD on loopback, all in one process: `urls.json` in a folder, and at the end `counts.json`."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import logging
import signal
from collections import Counter
from pathlib import Path

import structlog
import uvloop

from app.devtools.rmd.machine import Cache, Group, Machine
from app.devtools.rmd.server import serve
from app.devtools.rmd.workloads import Daemon


async def run(place: Path, count: int, cores: int) -> None:
    """Until SIGTERM. `counts.json` has the requests of all, by method."""
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    machine = Machine(caches=(Cache(0, f"0-{cores - 1}"),), os=Group())
    async with contextlib.AsyncExitStack() as stack:
        served = [await stack.enter_async_context(serve(Daemon(machine))) for _ in range(count)]
        draft = place / "urls.draft"
        draft.write_text(json.dumps([one.url for one in served]))
        draft.rename(place / "urls.json")
        await stop.wait()
        (place / "counts.json").write_text(json.dumps(sum((one.counts for one in served), Counter())))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--place", type=Path, required=True)
    parser.add_argument("--count", type=int, required=True)
    parser.add_argument("--cores", type=int, required=True, help="of each machine")
    given = parser.parse_args()
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.WARNING))
    uvloop.run(run(given.place, given.count, given.cores))


if __name__ == "__main__":
    main()
