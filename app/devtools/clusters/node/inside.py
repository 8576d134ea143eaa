"""One Pod of Berth's image as tasks of this process: what a sandbox has that brings its roles along.

A process for each of them would take seconds to start. A role is given what it would be given anywhere: the arguments
of its container, an address, and a kubeconfig with the rights of the Pod's ServiceAccount.
"""

from __future__ import annotations

import asyncio
import shlex
from collections.abc import Mapping
from pathlib import Path

from app.devtools.sandbox.processes import PodLog
from app.doctor.installed import read_deployment
from app.errors import BerthError, UsageError
from app.registry import BY_NAME, settings_of
from app.runtime.composing import compose
from app.runtime.manager import Manager
from app.serving.listener import listen
from app.wire import JSON


class Inside:
    """The role of one Pod, listening on `address`. The arguments are those of a role, as a command line has them."""

    def __init__(self, pod: JSON, *, address: str, kubeconfig: Path, places: Mapping[str, Path], log: PodLog) -> None:
        self._name: str = pod["metadata"]["name"]
        self._arguments: list[str] = pod["spec"]["containers"][0].get("args") or []
        self._installed = read_deployment({"metadata": pod["metadata"], "spec": {"template": {"spec": pod["spec"]}}})
        self._own = {"bind_address": address, "kubeconfig": str(kubeconfig)}
        self._log = log
        del places  # a role reads the files of this machine
        self._manager: Manager | None = None
        self._task: asyncio.Task[None] | None = None
        self._stop = asyncio.Event()

    @property
    def exit_code(self) -> int | None:
        """None while it runs; 1 where it has failed, or could not be started."""
        if self._task is None or not self._task.done():
            return None
        return int(self._task.cancelled() or self._task.exception() is not None)

    async def start(self) -> None:
        self._log.current.write_text(
            f"$ berth {shlex.join(self._arguments)}\nThis role runs within `berth sandbox`, and logs in its terminal.\n"
        )
        self._stop = asyncio.Event()
        self._task = asyncio.create_task(self._run())

    async def _run(self) -> None:
        try:
            if self._installed is None:
                raise UsageError(f"Pod {self._name}: want the arguments of a role, got {self._arguments}")
            role = self._installed.role
            settings = settings_of(role).load({**self._installed.deployed, **self._own}, environment=False)
            health = listen("--health-check-port", settings.bind_address, settings.health_check_port)
            work = compose(BY_NAME[role], settings, instance=self._name)
            self._manager = Manager(work, role=role, health=health)
            await self._manager.run(self._stop)
        except BerthError as error:
            with self._log.current.open("a") as log:
                log.write(f"{error}\n")
            raise

    async def ready(self) -> bool:
        return self._manager is not None and self.exit_code is None and not self._manager.waiting()

    async def stop(self, *, grace: float) -> None:
        """End its work, and cut it off after `grace` seconds."""
        if self._task is None:
            return
        self._stop.set()
        _, working = await asyncio.wait({self._task}, timeout=grace)
        for task in working:
            task.cancel()
            await asyncio.wait({task})
