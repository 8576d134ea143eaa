"""Runs the Pods of Berth's image that are bound to the sandbox's nodes, and says of each what a kubelet would.

Each process has a loopback address of its own, so that every replica has the ports that its Pod names. What it
speaks to the API server is what its ServiceAccount may: the node's own identity does not lend it any right.
"""

from __future__ import annotations

import asyncio
import contextlib
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import structlog
import yaml

from app.devtools.clusters.kubeconfigs import write_private
from app.devtools.clusters.node.addresses import Claim, claim
from app.devtools.clusters.node.containers import Container, is_berth
from app.devtools.clusters.node.endpoints import shown, write_endpoints
from app.devtools.clusters.node.services import Backend, Route, ServiceRouter
from app.devtools.clusters.node.status import Seen, pod_status
from app.devtools.clusters.node.volumes import Volumes
from app.errors import ApiError
from app.kube.client import KubeClient
from app.kube.controller import Controller, Done, RequeueAfter, Result
from app.kube.reflector import Reflector
from app.kube.resources import PODS, SERVICES
from app.kube.store import Key, Store
from app.text import stamp
from app.wire import JSON, load_yaml

_log = structlog.get_logger(__name__)
_LOOK_SECONDS = 0.3
_RESTART_SECONDS = 1.0
_GRACE = 30.0


class BerthNode:
    """`kubeconfig` is the administrator's; `found` is told where Services listen. `run` it once, until cancelled.

    What the processes print is in `directory/logs`.
    """

    def __init__(
        self, client: KubeClient, *, kubeconfig: Path, directory: Path, found: Callable[[Route, tuple[str, int]], None]
    ) -> None:
        self._client = client
        self._kubeconfig = kubeconfig
        self._directory = directory
        self._running: dict[str, _Running] = {}
        self._router = ServiceRouter(self._backends, found)
        self._pods: Store[JSON] = Store(lambda obj: obj if is_berth(obj) else None)
        self._services: Store[JSON] = Store(lambda obj: obj)
        self._controllers = (
            Controller("pods-as-processes", self._reconcile, stores=[self._pods], keys=self._pods.keys, workers=32),
            Controller("services", self._route, stores=[self._services], keys=self._services.keys, workers=1),
        )
        self._pods.subscribe(lambda _, key, __, ___: self._controllers[0].enqueue(key))
        self._services.subscribe(lambda _, key, __, ___: self._controllers[1].enqueue(key))

    async def run(self) -> None:
        (self._directory / "logs").mkdir(parents=True, exist_ok=True, mode=0o700)
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(Reflector(self._client, PODS, self._pods).run())
                group.create_task(Reflector(self._client, SERVICES, self._services).run())
                for controller in self._controllers:
                    group.create_task(controller.run())
        finally:
            await self._router.close()
            await asyncio.gather(*(one.container.stop(grace=5.0) for one in self._running.values()))
            for one in self._running.values():
                one.claimed.release()

    async def _route(self, key: Key) -> Result:
        service = self._services.get(*key)
        await self._router.follow(key, service)
        if service is not None and service["spec"].get("selector"):
            await write_endpoints(self._client, service, [one for one in self._backends() if one.is_behind(service)])
        return Done()

    def _turn(self, running: _Running, *, ready: bool) -> None:
        """A Pod that becomes ready, or is so no longer, changes who is behind its Services."""
        if running.ready != ready:
            running.ready = ready
            for key in self._services.keys():  # noqa: SIM118  not a dict
                if key[0] == running.key[0]:
                    self._controllers[1].enqueue(key)

    def _backends(self) -> list[Backend]:
        return [one.backend for one in self._running.values() if one.ready]

    async def _reconcile(self, key: Key) -> Result:
        pod = self._pods.get(*key)
        if pod is None:
            await self._clear({uid for uid, one in self._running.items() if one.key == key})
            return Done()
        uid = pod["metadata"]["uid"]
        await self._clear({known for known, one in self._running.items() if one.key == key and known != uid})
        if not pod["spec"].get("nodeName") or (pod.get("status") or {}).get("phase") in ("Succeeded", "Failed"):
            return Done()
        with contextlib.suppress(_Gone):
            if pod["metadata"].get("deletionTimestamp"):
                await self._end(pod)
                return Done()
            return await self._keep(key, pod)
        return Done()

    async def _keep(self, key: Key, pod: JSON) -> Result:
        running = self._running.get(pod["metadata"]["uid"])
        if running is None:
            running = await self._prepare(key, pod)
        await running.volumes.refresh()
        code = running.container.exit_code
        if not running.started:
            await running.container.start()
            running.started = True
        elif code is not None:
            self._turn(running, ready=False)
            if pod["spec"].get("restartPolicy", "Always") == "Never":
                await self._report(pod, running, exit_code=code)
                return Done()
            _log.warning("a container ended", pod=key[1], exit_code=code)
            running.restarts += 1
            await self._report(pod, running)
            await asyncio.sleep(_RESTART_SECONDS)
            await running.container.start()
        self._turn(running, ready=await running.container.ready())
        await self._report(pod, running)
        return RequeueAfter(_LOOK_SECONDS)

    async def _prepare(self, key: Key, pod: JSON) -> _Running:
        uid = pod["metadata"]["uid"]
        folder = self._directory / "pods" / uid
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        volumes = Volumes(self._client, pod, folder / "volumes")
        spec: JSON = pod["spec"]["containers"][0]
        await volumes.refresh()
        claimed = claim()
        account = f"system:serviceaccount:{key[0]}:{pod['spec'].get('serviceAccountName') or 'default'}"
        kubeconfig = folder / "kubeconfig"
        write_private(kubeconfig, _acting_as(self._kubeconfig.read_text(), account))
        container = Container(
            pod,
            address=claimed.address,
            kubeconfig=kubeconfig,
            places=volumes.places(spec),
            log=self._directory / "logs" / f"{key[0]}_{key[1]}.log",
        )
        ports: dict[str | int, int] = {one["name"]: one["containerPort"] for one in spec.get("ports") or []}
        backend = Backend(key[0], pod["metadata"].get("labels") or {}, claimed.address, ports)
        self._running[uid] = _Running(key, container, volumes, backend, claimed)
        return self._running[uid]

    async def _end(self, pod: JSON) -> None:
        metadata = pod["metadata"]
        running = self._running.get(metadata["uid"])
        if running is not None:
            self._turn(running, ready=False)  # no new connections, as an endpoint that is ending
            await running.container.stop(grace=float(metadata.get("deletionGracePeriodSeconds", _GRACE)))
        await self._clear({metadata["uid"]})
        if metadata.get("deletionGracePeriodSeconds") != 0:
            with _gone():
                await self._client.delete(
                    PODS, metadata["name"], namespace=metadata["namespace"], uid=metadata["uid"], grace_period_seconds=0
                )

    async def _clear(self, uids: set[str]) -> None:
        for uid in uids:
            running = self._running.pop(uid, None)
            if running is not None:
                await running.container.stop(grace=1.0)
                running.claimed.release()
            # Its Secrets are no longer needed.
            await asyncio.to_thread(shutil.rmtree, self._directory / "pods" / uid, ignore_errors=True)

    async def _report(self, pod: JSON, running: _Running, *, exit_code: int | None = None) -> None:
        seen = Seen(shown(running.backend.address), running.ready, running.restarts, exit_code)
        metadata, status = pod["metadata"], pod_status(pod, seen, now=stamp())
        if all((pod.get("status") or {}).get(name) == value for name, value in status.items()):
            return
        body = {"metadata": {"uid": metadata["uid"]}, "status": status}
        with _gone():
            await self._client.patch(
                PODS,
                metadata["name"],
                body,
                patch_type="strategic",
                namespace=metadata["namespace"],
                subresource="status",
            )


class _Running:
    """A Pod that this node has taken on."""

    def __init__(self, key: Key, container: Container, volumes: Volumes, backend: Backend, claimed: Claim) -> None:
        self.key, self.container, self.volumes, self.backend = key, container, volumes, backend
        self.claimed = claimed
        self.started = self.ready = False
        self.restarts = 0


class _Gone(Exception):
    """The Pod was deleted, or changed, while we looked after it."""


@contextlib.contextmanager
def _gone() -> Iterator[None]:
    """An object that is no longer there, or another by now, is not ours to write."""
    try:
        yield
    except ApiError as error:
        if not (error.not_found or error.conflict):
            raise
        raise _Gone from error


def _acting_as(kubeconfig: str, account: str) -> str:
    config = load_yaml(kubeconfig)
    for user in config["users"]:
        user["user"]["as"] = account
    return yaml.safe_dump(config)
