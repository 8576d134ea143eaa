"""The agent: caches of the tenant cluster, the connection to the gateway, and what goes between them.

Each part waits for what it needs, so that without the definition of rules the Pods' part still works.
"""

from __future__ import annotations

import asyncio
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cryptography import x509

from app.kube.client import KubeClient
from app.kube.events import EventRecorder
from app.kube.metrics import create_controller_series, create_watch_series
from app.kube.reflector import Reflector
from app.kube.resources import CONFIG_MAPS, PODS, Resource
from app.kube.running import problems_of, stand, start
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
from app.tenancy.agent.syncing import Syncer
from app.tenancy.agent.views import Objects, PodView, project_object, project_pod
from app.tenancy.agent.workloads import WorkloadSender
from app.workloads.model import UVS_PODS, UVS_RESOURCES, WORKLOAD_RULES

_POLL_SECONDS = 10.0
if TYPE_CHECKING:  # it needs OpenTelemetry, which need not be installed
    from app.tracing.spans import Spans

CONTROLLERS = ("agent-rules", "agent-mirrors", *(f"agent-{resource.plural}" for resource in UVS_RESOURCES))
_OBJECTS = (WORKLOAD_RULES, *UVS_RESOURCES)
WATCHED = (PODS, CONFIG_MAPS, *_OBJECTS)


class Agent:
    """`run()` works until cancelled, once: no cache is older than its agent. `waiting()` says what readiness waits for.

    `client` speaks to the tenant cluster: it may get namespace kube-system, list and watch Pods everywhere and the one
    ConfigMap, read and write WorkloadRules, UVS objects and their statuses in the namespace of the settings.
    """

    def __init__(
        self,
        client: KubeClient,
        events: EventRecorder | None = None,
        *,
        options: AgentOptions,
        calls: Spans | None = None,
    ) -> None:
        settings = options.settings
        self._runs = False
        self._cluster = ClusterIdentity(client, base=options.backoff_base, cap=options.backoff_cap)
        self._connection = connection = Connection(options, cluster=self._cluster, calls=calls)
        self._namespaces = Namespaces(settings)
        pods: Store[PodView] = Store(lambda obj: project_pod(obj, keep_finished=settings.keep_finished))
        objects: dict[Resource, Objects] = {resource: Store(project_object) for resource in _OBJECTS}
        self._reflectors = [
            Reflector(client, PODS, pods),
            Reflector(
                client,
                CONFIG_MAPS,
                self._namespaces.store,
                namespace=settings.configmap_namespace,
                field_selector=f"metadata.name={settings.configmap_name}",
            ),
            *(Reflector(client, resource, store, namespace=settings.namespace) for resource, store in objects.items()),
        ]
        self._sender = WorkloadSender(pods, self._namespaces, options=options)
        self._watches = rules, companions = Rules(connection), Pods(connection)
        local = {resource: Local(client, resource, store, options, events) for resource, store in objects.items()}
        # The mirrors subscribe first: what they know of a UVSPod decides whether it is a request. A mirror is not the
        # user's object: no Event is made of its status.
        mirrors = MirrorSync(Local(client, UVS_PODS, objects[UVS_PODS], options), companions)
        self._syncers: list[Syncer[Any]] = [
            RuleSync("rules", local[WORKLOAD_RULES], rules),
            mirrors,
            *(ResourceSync(local[resource], companions, is_mirror=mirrors.is_mirror) for resource in UVS_RESOURCES),
        ]

    def waiting(self) -> list[str]:
        """One line for each thing that is missing; empty when the agent works as it should."""
        if not self._runs:
            return ["agent: not running"]
        problems = problems_of(self._reflectors)
        if self._namespaces.problem:
            problems.append(f"namespaces of workloads: {self._namespaces.problem}")
        return problems + self._connection.waiting()

    async def run(self) -> None:
        connection, self._runs = self._connection, True
        try:
            async with asyncio.TaskGroup() as tasks:
                stand(tasks, "cluster", self._cluster.run)
                stand(tasks, "connection", connection.run)
                start(tasks, self._reflectors)
                stand(tasks, "stream-workloads", partial(connection.keep, "workloads", self._sender.session))
                for watch in self._watches:
                    stand(tasks, f"stream-{watch.stream}", partial(connection.keep, watch.stream, watch.session))
                for syncer in self._syncers:
                    syncer.start(tasks)
        finally:
            self._runs = False


def build(context: RoleContext) -> Runnable:
    settings = settings_as(context.settings, AgentSettings)
    create_series()
    create_controller_series(CONTROLLERS, lease="")
    create_watch_series(tuple(resource.kind for resource in WATCHED))
    work = context.elected(partial(Agent, options=AgentOptions(settings), calls=context.spans()))
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
