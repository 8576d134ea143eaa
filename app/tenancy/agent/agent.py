"""Puts the agent together: caches of the tenant cluster, the connection to the gateway, and what goes between them.

Owns the order of things and what readiness says. Each part waits for what it needs, so a missing definition of rules
leaves the Pods' part at work.
"""

from __future__ import annotations

import asyncio
from typing import Any

from app.kube.client import KubeClient
from app.kube.events import Events
from app.kube.reflector import Reflector
from app.kube.resources import CONFIG_MAPS, PODS
from app.kube.store import Store
from app.tenancy.agent.cluster import ClusterIdentity
from app.tenancy.agent.connection import Connection
from app.tenancy.agent.mirrors import MirrorSync
from app.tenancy.agent.namespaces import Namespaces
from app.tenancy.agent.options import AgentOptions
from app.tenancy.agent.pods import PodView, project_pod
from app.tenancy.agent.resource_sync import ResourceSync
from app.tenancy.agent.rules import RuleSync
from app.tenancy.agent.syncing import Context, Syncer
from app.tenancy.agent.targets import TARGETS
from app.tenancy.agent.views import ObjectView, project_object
from app.tenancy.agent.watches import pod_watch, rule_watch
from app.tenancy.agent.workloads import WorkloadSender
from app.tenancy.callspans import CallSpans
from app.workloads.model import UVS_PODS, WORKLOAD_RULES


class Agent:
    """`run()` works until cancelled, once: no cache is older than its agent. `waiting()` says what readiness waits for.

    `client` speaks to the tenant cluster: it may get namespace kube-system, list and watch Pods everywhere and the one
    ConfigMap, read and write WorkloadRules, UVS objects and their statuses in `options.namespace`. `events` is
    told when one of these meets an error or is well again, `calls` of each call of the gateway.
    """

    def __init__(
        self,
        client: KubeClient,
        *,
        options: AgentOptions,
        events: Events | None = None,
        calls: CallSpans | None = None,
    ) -> None:
        namespace = options.namespace
        self._runs = False
        self._cluster = ClusterIdentity(client, base=options.backoff_base, cap=options.backoff_cap)
        self._connection = connection = Connection(options, cluster=self._cluster, calls=calls)
        self._namespaces = Namespaces(options)
        pods: Store[PodView] = Store(lambda obj: project_pod(obj, keep_finished=options.keep_finished))
        rules: Store[ObjectView] = Store(project_object)
        uvs: dict[str, Store[ObjectView]] = {target.resource.plural: Store(project_object) for target in TARGETS}
        self._reflectors = [
            Reflector(client, PODS, pods),
            Reflector(
                client,
                CONFIG_MAPS,
                self._namespaces.store,
                namespace=options.config_map_namespace,
                field_selector=f"metadata.name={options.config_map}",
            ),
            Reflector(client, WORKLOAD_RULES, rules, namespace=namespace),
            *(
                Reflector(client, target.resource, uvs[target.resource.plural], namespace=namespace)
                for target in TARGETS
            ),
        ]
        self._sender = WorkloadSender(pods, self._namespaces, options=options)
        self._rule_watch, self._pod_watch = rule_watch(), pod_watch()
        context = Context(client, connection, options, events)
        remote = self._pod_watch.remote
        # The mirrors subscribe first: what they know of a UVSPod decides whether it is a request.
        mirrors = MirrorSync(context, uvs[UVS_PODS.plural], remote)
        self._syncers: list[Syncer[Any]] = [
            RuleSync(context, rules, self._rule_watch.remote),
            mirrors,
            *(
                ResourceSync(context, target, uvs[target.resource.plural], remote, is_mirror=mirrors.is_mirror)
                for target in TARGETS
            ),
        ]

    def waiting(self) -> list[str]:
        """One line for each thing that is missing; empty when the agent works as it should."""
        if not self._runs:
            return ["agent: not running"]
        problems = [reflector.problem for reflector in self._reflectors if reflector.problem]
        if self._namespaces.problem:
            problems.append(f"namespaces of workloads: {self._namespaces.problem}")
        return problems + self._connection.waiting()

    async def run(self) -> None:
        self._runs = True
        try:
            await self._run()
        finally:
            self._runs = False

    async def _run(self) -> None:
        connection = self._connection
        async with asyncio.TaskGroup() as tasks:
            for reflector in self._reflectors:
                tasks.create_task(reflector.run())
            tasks.create_task(self._cluster.learn())
            tasks.create_task(connection.run())
            tasks.create_task(connection.keep("workloads", self._sender.session))
            tasks.create_task(connection.keep("rules", self._rule_watch.session))
            tasks.create_task(connection.keep("resources", self._pod_watch.session))
            for syncer in self._syncers:
                tasks.create_task(syncer.run())
