"""Runs the Pods of Berth's image that are bound to the sandbox's nodes, and says of each what a kubelet would."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from pathlib import Path

import structlog

from app.devtools.clusters.node.containers import Container
from app.devtools.clusters.node.pod_process import Makes, PodProcess, is_berth
from app.devtools.clusters.node.services import Route, Services
from app.devtools.forking import ForkServer
from app.devtools.sandbox.processes import Processes
from app.devtools.sandbox.standins.reconciling import Watched, reconciling
from app.kube.client import KubeClient
from app.kube.resources import PODS
from app.kube.store import Key
from app.wire import JSON

_log = structlog.get_logger(__name__)
_LOOK_SECONDS, _SOON = 0.3, 0.05
"""How often a Pod is looked at that is ready, and one that is not."""
_RESTART_SECONDS = 1.0
_GRACE = 30.0


class BerthNode:
    """`kubeconfig` is the administrator's; `found` is called with what listens where. `run` it once, until cancelled.

    What the processes print is in `directory/logs`, and `processes` says in which file, for as long as the Pod exists.
    Without `make`, which makes what runs a Pod, that is a process of this machine. Pods of which `chosen` is not true
    are run by others.
    """

    def __init__(
        self,
        client: KubeClient,
        *,
        kubeconfig: Path,
        directory: Path,
        found: Callable[[Route, tuple[str, int]], None],
        processes: Processes,
        make: Makes | None = None,
        chosen: Callable[[JSON], bool] = is_berth,
    ) -> None:
        self._client = client
        self.runs = chosen
        self._kubeconfig = kubeconfig
        self._directory = directory
        self._processes = processes
        self._server = ForkServer()
        self._make = make or partial(Container, server=self._server)
        self._running: dict[Key, PodProcess] = {}
        self._watched = Watched(client)
        self._pods = self._watched.store(PODS)
        self._services = Services(client, self._watched, found)
        self._controller = reconciling("pods-as-processes", self._reconcile, self._pods, workers=32)

    async def run(self) -> None:
        (self._directory / "logs").mkdir(parents=True, exist_ok=True, mode=0o700)
        try:
            async with asyncio.TaskGroup() as group:
                for part in (self._watched, self._controller, self._services.controller):
                    group.create_task(part.run())
        finally:
            await self._services.close()
            await asyncio.gather(*(one.stop(grace=5.0) for one in self._running.values()))
            for one in self._running.values():
                one.release()
            self._server.close()

    async def _reconcile(self, key: Key) -> float | None:
        pod = self._pods.get(*key)
        if pod is not None and not self.runs(pod):
            pod = None
        process = self._running.get(key)
        if process is not None and (pod is None or process.uid != pod["metadata"]["uid"]):
            await self._clear(key)
        if pod is None or not pod["spec"].get("nodeName"):
            return None
        if (pod.get("status") or {}).get("phase") in ("Succeeded", "Failed"):
            return None
        if pod["metadata"].get("deletionTimestamp"):
            await self._end(key, pod)
            return None
        return await self._keep(key, pod)

    async def _keep(self, key: Key, pod: JSON) -> float | None:
        process = self._running.get(key)
        if process is None:
            process = PodProcess(
                self._client, pod, make=self._make, kubeconfig=self._kubeconfig, directory=self._directory
            )
            self._running[key] = process
            self._processes[process.uid] = process.log
        await process.refresh()
        code = process.exit_code
        if not process.started:
            await process.start()
        elif code is not None:
            self._services.unready(process.uid)
            if pod["spec"].get("restartPolicy", "Always") == "Never":
                await process.report(pod, ready=False, exit_code=code)
                return None
            _log.warning("a container ended", pod=key[1], exit_code=code)
            await process.report(pod, ready=False)
            await asyncio.sleep(_RESTART_SECONDS)
            process.restarts += 1
            await process.start()
        ready = await process.ready()
        if ready:
            self._services.ready(pod, process.address)
        else:
            self._services.unready(process.uid)
        await process.report(pod, ready=ready)
        return _LOOK_SECONDS if ready else _SOON

    async def _end(self, key: Key, pod: JSON) -> None:
        metadata = pod["metadata"]
        process = self._running.get(key)
        if process is not None:
            self._services.unready(process.uid)  # no new connections, as an endpoint that is ending
            await process.stop(grace=float(metadata.get("deletionGracePeriodSeconds", _GRACE)))
            await self._clear(key)
        if metadata.get("deletionGracePeriodSeconds") != 0:
            await self._client.delete(
                PODS, metadata["name"], namespace=metadata["namespace"], uid=metadata["uid"], grace_period_seconds=0
            )

    async def _clear(self, key: Key) -> None:
        process = self._running.pop(key)
        self._processes.pop(process.uid, None)
        self._services.unready(process.uid)
        await process.clear()
