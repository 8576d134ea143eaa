"""The node agent: Pods of its node become RmdWorkloads, and the daemon's cache ways become devices of kubelet.

It keeps nothing: what was made while it was down is compared when it starts.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from app.kube.client import KubeClient
from app.kube.events import EventRecorder
from app.kube.kit import Kit
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
    interval: float = 15.0
    timeout: float = 10.0


def attend(kit: Kit, *, options: Options) -> None:
    """Make the agent of this kit."""
    caches = Caches(kit, node=options.node, namespace=options.namespace)
    kubelet = PodResources(options.kubelet, timeout=options.timeout)
    certificates = Certificates(lambda: _files(options.certificate), place=f"folder {options.certificate}")
    daemons = DaemonClient(timeout=options.timeout)

    async def daemon() -> Daemon:
        pod = caches.daemon()
        if pod is None or not pod.url:
            raise Unanswered("no daemon of RMD runs on this node")
        tls = certificates.context() if pod.url.startswith("https://") else None
        return daemons.at(pod.url, tls, server_name=SERVER_NAME if tls else "")

    kit.reconcile(
        _PODS,
        PodSync(kit.client, caches, kubelet, kit.events).reconcile,
        stores=(caches.pods, caches.made),
        keys=caches.keys,
        wakes=caches.wakes(),
        backoff=(_FIRST_PAUSE, _LONGEST_PAUSE),
    )
    kit.within(daemons)
    kit.waits_for(lambda: filter(None, (kubelet.problem,)))
    if options.announce:
        announcing = Announcing(options.kubelet, daemon, interval=options.interval)
        kit.waits_for(lambda: filter(None, (announcing.problem,)))
        kit.beside("announcing", announcing.run)


def _files(folder: Path) -> dict[str, bytes] | None:
    """The files of the folder, None where there are none."""
    return {name: (folder / name).read_bytes() for name in FILES if (folder / name).is_file()} or None


def build(context: RoleContext) -> Runnable:
    settings = settings_as(context.settings, NodeSettings)
    metrics.create_series(PROBLEMS)
    options = Options(
        node=settings.node_name,
        kubelet=Path(settings.kubelet_folder),
        namespace=settings.rmd_namespace,
        certificate=Path(settings.daemon_certificate),
        announce=settings.announce_cache_ways,
    )

    def agent(client: KubeClient, events: EventRecorder) -> Kit:
        kit = Kit(client, events=events, resync=settings.resync_seconds)
        attend(kit, options=options)
        return kit

    return context.elected(agent)
