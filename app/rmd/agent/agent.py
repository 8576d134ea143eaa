"""The node agent: Pods of its node become RmdWorkloads, and the daemon's cache ways become devices of kubelet.

It keeps nothing: what was made while it was down is compared when it starts.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from pathlib import Path

from app.kube.client import KubeClient
from app.kube.controller import Controller
from app.kube.events import EventRecorder
from app.kube.metrics import create_controller_series, create_watch_series
from app.kube.running import stand, start
from app.kube.store import Key
from app.rmd.agent import metrics
from app.rmd.agent.caches import Caches
from app.rmd.agent.device_plugin import Announcing
from app.rmd.agent.kubelet import PodResources
from app.rmd.agent.pods import PROBLEMS, PodSync
from app.rmd.daemon.certificates import FILES, Certificates
from app.rmd.daemon.client import Daemon, DaemonClient, Unanswered
from app.rmd.model import SERVER_NAME
from app.rmd.settings import NodeSettings
from app.settings.reconciling import RoleContext, Runnable
from app.settings.source import settings_as

_PODS = "rmd-node-pods"
_FIRST_PAUSE, _LONGEST_PAUSE = 0.5, 30.0
"""Seconds until a Pod without cores is looked at again."""
_WORKERS = 16


@dataclass(frozen=True, slots=True)
class Options:
    """Times are in seconds.

    `kubelet` has the folders of its sockets, `certificate` the client certificate for a daemon with TLS. Daemons are in
    `namespace`.
    """

    node: str
    kubelet: Path
    namespace: str
    certificate: Path
    announce: bool = True
    resync: float | None = 60.0
    interval: float = 15.0
    timeout: float = 10.0


class NodeAgent:
    """`run` it once."""

    def __init__(self, client: KubeClient, events: EventRecorder | None = None, *, options: Options) -> None:
        self._caches = Caches(client, node=options.node, namespace=options.namespace, wake=self._wake)
        self._kubelet = PodResources(options.kubelet, timeout=options.timeout)
        self._certificates = Certificates(lambda: _files(options.certificate), place=f"folder {options.certificate}")
        self._daemons = DaemonClient(timeout=options.timeout)
        self._announcing = Announcing(options.kubelet, self._daemon, interval=options.interval)
        self._announces = options.announce
        self._pods: Controller[Key] = Controller(
            _PODS,
            PodSync(client, self._caches, self._kubelet, events).reconcile,
            stores=self._caches.stores,
            keys=self._caches.keys,
            workers=_WORKERS,
            resync=options.resync,
            backoff=(_FIRST_PAUSE, _LONGEST_PAUSE),
        )

    def waiting(self) -> list[str]:
        """What readiness waits for, one line each."""
        problems = [self._kubelet.problem, self._announcing.problem if self._announces else ""]
        return self._caches.waiting() + [problem for problem in problems if problem]

    async def run(self) -> None:
        """Until cancelled."""
        async with self._daemons, asyncio.TaskGroup() as tasks:
            start(tasks, self._caches.reflectors, (self._pods,))
            if self._announces:
                stand(tasks, "announcing", self._announcing.run)

    async def _daemon(self) -> Daemon:
        pod = self._caches.daemon()
        if pod is None or not pod.url:
            raise Unanswered("no daemon of RMD runs on this node")
        tls = self._certificates.context() if pod.url.startswith("https://") else None
        return self._daemons.at(pod.url, tls, server_name=SERVER_NAME if tls else "")

    def _wake(self, key: Key) -> None:
        self._pods.enqueue(key)


def _files(folder: Path) -> dict[str, bytes] | None:
    """The files of the folder, None where there are none."""
    found = {name: (folder / name).read_bytes() for name in FILES if (folder / name).is_file()}
    return found or None


def build(context: RoleContext) -> Runnable:
    settings = settings_as(context.settings, NodeSettings)
    metrics.create_series(PROBLEMS)
    create_controller_series((_PODS,), lease="")
    create_watch_series(("Pod", "RmdWorkload", "RmdDaemonPod"))
    options = Options(
        node=settings.node_name,
        kubelet=Path(settings.kubelet_folder),
        namespace=settings.rmd_namespace,
        certificate=Path(settings.daemon_certificate),
        announce=settings.announce_cache_ways,
        resync=settings.resync_seconds,
    )
    return context.elected(lambda client, events: NodeAgent(client, events, options=options))
