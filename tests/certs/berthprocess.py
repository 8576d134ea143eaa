"""`berth` processes with a health port, as tests of certificates start them."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import sys
import urllib.request
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

from tests.patience import PATIENCE

ROOT = Path(__file__).parents[2]


class Process:
    """One process; what it logs is kept. `health` is where its health server listens."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self.process = process
        self.events: list[dict[str, Any]] = []
        self._reading = asyncio.create_task(self._read())

    async def _read(self) -> None:
        assert self.process.stderr is not None
        async for line in self.process.stderr:
            try:
                self.events.append(json.loads(line))
            except ValueError:
                self.events.append({"msg": line.decode()})

    async def get(self, path: str) -> tuple[int, str]:
        """Status and text of the health server's answer; 0 while there is none."""
        assert self.process.returncode is None, self.events[-20:]
        health = next((event["health"] for event in self.events if event.get("health")), "")
        return await asyncio.to_thread(_get, health + path) if health else (0, "")

    async def ready(self) -> bool:
        return (await self.get("/readyz"))[0] == 200

    async def until_ready(self, *, seconds: float = PATIENCE) -> None:
        """Fails with what the process said."""
        try:
            await eventually(self.ready, seconds=seconds)
        except TimeoutError:
            raise AssertionError((await self.get("/readyz"), self.events[-20:])) from None

    def said(self, text: str, **fields: Any) -> bool:
        return any(event["msg"] == text and fields.items() <= event.items() for event in self.events)

    async def stop(self) -> int:
        with contextlib.suppress(ProcessLookupError):
            self.process.terminate()
        status = await self.process.wait()
        await self._reading
        return status


def _get(url: str) -> tuple[int, str]:
    try:
        with urllib.request.urlopen(url, timeout=PATIENCE) as answer:
            return int(answer.status), answer.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read().decode()
    except OSError:
        return 0, ""


@contextlib.asynccontextmanager
async def berth(*arguments: str) -> AsyncIterator[Process]:
    """Started with a health port of its own; its end by SIGTERM has to be a clean one."""
    environment = {k: v for k, v in os.environ.items() if not k.startswith("BERTH_") and k != "NAMESPACE"}
    started = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "app", *arguments, "--bind-address", "127.0.0.1", "--health-check-port", "0"),
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.PIPE,
        cwd=ROOT,
        env=environment,
    )
    process = Process(started)
    try:
        yield process
    finally:
        status = await process.stop()
    assert status == 0, process.events[-20:]


async def eventually(condition: Callable[[], Awaitable[Any] | Any], *, seconds: float = PATIENCE) -> None:
    """Wait until the condition (a plain or an async function) holds."""
    async with asyncio.timeout(seconds):
        while True:
            held = condition()
            if asyncio.iscoroutine(held):
                held = await held
            if held:
                return
            await asyncio.sleep(0.05)
