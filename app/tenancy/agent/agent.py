"""The agent: caches of the tenant cluster, the connection to the gateway, and what goes between them.

Each part waits for what it needs, so that without the definition of rules the Pods' part still works.
"""

from __future__ import annotations

import asyncio
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from cryptography import x509

from app.kube.client import KubeClient
from app.kube.events import EventRecorder
from app.kube.kit import Kit
from app.kube.resources import PODS, Resource
from app.kube.running import stand
from app.kube.store import Store
from app.serving.metrics import refresh
from app.settings.reconciling import RoleContext, Runnable
from app.settings.source import settings_as
from app.tenancy.agent.cluster import ClusterIdentity
from app.tenancy.agent.connection import Connection
from app.tenancy.agent.local import Local
from app.tenancy.agent.metrics import create_series
from app.tenancy.agent.mirrors import MirrorSync
from app.tenancy.agent.namespaces import Namespaces
from app.tenancy.agent.remote import Pods, Rules
from app.tenancy.agent.requests import ResourceSync, RuleSync
from app.tenancy.agent.settings import AgentOptions, AgentSettings
from app.tenancy.agent.views import Objects, PodView, project_object, project_pod
from app.tenancy.agent.workloads import WorkloadSender
from app.workloads.model import UVS_PODS, UVS_RESOURCES, WORKLOAD_RULES

_POLL_SECONDS = 10.0
_WORKERS = 4
if TYPE_CHECKING:  # it needs OpenTelemetry, which need not be installed
    from app.tracing.spans import Spans

_OBJECTS = (WORKLOAD_RULES, *UVS_RESOURCES)


def connect(kit: Kit, *, options: AgentOptions, calls: Spans | None = None) -> None:
    """Make the agent of this kit, whose client speaks to the tenant cluster.

    It may get namespace kube-system, list and watch Pods everywhere and the one ConfigMap, read and write
    WorkloadRules, UVS objects and their statuses in the namespace of the settings. The kit gets ready when the streams
    are up and the namespaces of workloads are known.
    """
    settings, client = options.settings, kit.client
    cluster = ClusterIdentity(client, base=options.backoff_base, cap=options.backoff_cap)
    connection = Connection(options, cluster=cluster, calls=calls)
    kit.beside("cluster", cluster.run)
    kit.beside("connection", connection.run)
    pods: Store[PodView] = kit.cache(PODS, partial(project_pod, keep_finished=settings.keep_finished))
    namespaces = Namespaces(kit, settings)
    sender = WorkloadSender(pods, namespaces, options=options)
    kit.beside("stream-workloads", partial(connection.keep, "workloads", sender.session))
    rules, companions = Rules(connection), Pods(connection)
    for watch in (rules, companions):
        kit.beside(f"stream-{watch.stream}", partial(connection.keep, watch.stream, watch.session))
    objects: dict[Resource, Objects] = {
        resource: kit.cache(resource, project_object, namespace=settings.namespace) for resource in _OBJECTS
    }
    local = {resource: Local(client, resource, store, options, kit.events) for resource, store in objects.items()}
    RuleSync("rules", kit, local[WORKLOAD_RULES], rules)
    # What the mirrors know of a UVSPod decides whether it is a request: they are told of each change before a key of it
    # is looked at. A mirror is not the user's object: no Event is made of its status.
    mirrors = MirrorSync(kit, Local(client, UVS_PODS, objects[UVS_PODS], options), companions)
    for resource in UVS_RESOURCES:
        ResourceSync(kit, local[resource], companions, is_mirror=mirrors.is_mirror)
    kit.waits_for(lambda: filter(None, (namespaces.problem and f"namespaces of workloads: {namespaces.problem}",)))
    kit.waits_for(connection.waiting)


def build(context: RoleContext) -> Runnable:
    settings = settings_as(context.settings, AgentSettings)
    create_series()
    options, spans = AgentOptions(settings), context.spans()

    def agent(client: KubeClient, events: EventRecorder) -> Kit:
        kit = Kit(client, events=events, workers=_WORKERS, resync=None)
        connect(kit, options=options, calls=spans)
        return kit

    work = context.elected(agent)
    return _CertificateDate(work, Path(settings.tls_cert_file)) if context.alone else work


class _CertificateDate:
    """Runs the work of a process, and sets the metric of when the certificate in a file ends."""

    def __init__(self, work: Runnable, path: Path) -> None:
        self._work, self._path = work, path

    def waiting(self) -> list[str]:
        return self._work.waiting()

    async def run(self) -> None:
        async with asyncio.TaskGroup() as tasks:
            following = stand(tasks, "certificate", self._follow)
            await self._work.run()
            following.cancel()

    async def _follow(self) -> None:
        while True:
            refresh(await asyncio.to_thread(_not_after, self._path))
            await asyncio.sleep(_POLL_SECONDS)


def _not_after(path: Path) -> datetime | None:
    try:
        return x509.load_pem_x509_certificates(path.read_bytes())[0].not_valid_after_utc
    except (OSError, ValueError):
        return None
