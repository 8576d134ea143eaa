"""The parts of a sandbox: they run in the background of a block, and end in the reverse order of their start.

A role of Berth is what runs anywhere else: it is given kubeconfigs and certificates and does not know where it is.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Mapping
from typing import Protocol

from app.errors import BerthError
from app.registry import BY_NAME, settings_of
from app.runtime.composing import compose
from app.runtime.manager import first_of

START_SECONDS = 60


class Runs(Protocol):
    """Something that runs until it is cancelled."""

    async def run(self) -> None: ...


class Parts:
    """What has been started in a group of tasks."""

    def __init__(self, tasks: asyncio.TaskGroup) -> None:
        self._tasks = tasks
        self._running: list[asyncio.Task[None]] = []

    def run(self, part: Runs) -> None:
        self._running.append(self._tasks.create_task(part.run()))

    async def start(self, role: str, settings: Mapping[str, object], *, where: str) -> None:
        """Run a role with these settings and wait until it is ready.

        Raises BerthError as `until_ready`; `where` is for its message.
        """
        work = compose(BY_NAME[role], settings_of(role).load(dict(settings), environment=False))
        self.run(work)
        await until_ready(work.waiting, f"{where}: the {role}")

    async def end(self) -> None:
        """End the parts in reverse order of their start, so that no part loses one that it depends on."""
        for task in reversed(self._running):
            task.cancel()
            await asyncio.wait({task})


@contextlib.asynccontextmanager
async def running_parts() -> AsyncIterator[Parts]:
    """Parts for as long as the block runs. Raises the first BerthError of one that fails."""
    try:
        async with asyncio.TaskGroup() as tasks:
            parts = Parts(tasks)
            try:
                yield parts
            finally:
                await parts.end()
    except* BerthError as group:
        raise first_of(group) from None


async def until_ready(waiting: Callable[[], list[str]], what: str) -> None:
    """Wait until nothing is waited for; raises BerthError that says what still is after a minute."""
    try:
        async with asyncio.timeout(START_SECONDS):
            while waiting():  # noqa: ASYNC110  readiness is a question, not an event
                await asyncio.sleep(0.02)
    except TimeoutError:
        raise BerthError(f"{what} is not ready: {'; '.join(waiting())}") from None
