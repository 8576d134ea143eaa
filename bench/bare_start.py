"""A bare process to hold Berth's start against: it imports the same libraries and lists the same objects, no more.

Prints one line of JSON at the end: the CPU seconds it took, and how many modules of libraries are loaded.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import importlib
import json
import sys
import time
from importlib.metadata import packages_distributions
from pathlib import Path

from app.lean import deferred_models, unexecuted, without

PAGE = 500


def libraries(names: list[str]) -> list[str]:
    """Those modules that are neither of the standard library nor of this project."""
    ours = {"app", "bench", "__main__", "__mp_main__"}
    return [name for name in names if name.partition(".")[0] not in sys.stdlib_module_names | ours]


def load(names: list[str]) -> None:
    """Import these modules, and of their packages no more than Berth does."""
    holders = {name[:index] for name in names for index, mark in enumerate(name) if mark == "."}
    unused = sorted(holders - set(names))
    absent = packages_distributions().keys() - {name.partition(".")[0] for name in names}
    with contextlib.ExitStack() as stack:
        for package in absent - sys.stdlib_module_names - {"app", "bench"}:
            stack.enter_context(without(package))
        stack.enter_context(unexecuted(*unused))
        stack.enter_context(deferred_models())
        for name in names:
            # What Berth's libraries found missing, or only import in a certain order, is missing here too.
            with contextlib.suppress(ImportError):
                importlib.import_module(name)


async def listed(url: str) -> int:
    """How many objects there are, read page by page, as Berth reads them."""
    import aiohttp  # noqa: PLC0415  as dear as the others, and imported with them
    import msgspec  # noqa: PLC0415

    count, token = 0, ""
    async with aiohttp.ClientSession() as session:
        while True:
            async with session.get(url, params={"limit": str(PAGE), "continue": token}) as response:
                page = msgspec.json.decode(await response.read())
            count += len(page["items"])
            token = page["metadata"].get("continue", "")
            if not token:
                return count


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--modules", type=Path, required=True, help="file with a JSON list of module names")
    parser.add_argument("--url", required=True, help="of the collection")
    given = parser.parse_args()
    load(json.loads(given.modules.read_text()))
    count = asyncio.run(listed(given.url))
    used = time.process_time()
    print(json.dumps({"objects": count, "cpu": used, "modules": len(libraries(list(sys.modules)))}), flush=True)


if __name__ == "__main__":
    main()
