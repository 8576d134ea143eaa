"""The controller `rmd`: an RmdConfig and RmdWorkloads in; daemons, their reservations, statuses and Events out.

All state is in the cluster and in the daemons. A node is one key: a daemon has one writer, which makes one request at a
time, and a daemon that hangs holds up no other.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime

from app.kube.client import KubeClient
from app.kube.controller import Controller
from app.kube.events import EventRecorder
from app.kube.running import start
from app.kube.store import Key
from app.rmd import metrics
from app.rmd.controller.caches import Caches
from app.rmd.controller.configuring import ConfigSync
from app.rmd.controller.nodes import NodeSync
from app.rmd.controller.showing import Showing
from app.rmd.controller.workloads import WorkloadSync
from app.rmd.daemon.client import DaemonClient
from app.rmd.model import TEMPLATES_NAME
from app.text import utc_now

_FIRST_PAUSE, _LONGEST_PAUSE = 1.0, 60.0
"""Seconds until a daemon that refuses or is silent is asked again."""


@dataclass(frozen=True, slots=True)
class Options:
    """Times are in seconds.

    `namespace` has the daemons, the RmdConfig, and the Secret `secret` with the client certificate for daemons.
    In `own` the ConfigMap `templates` has the DaemonSets.

    `workers` are the daemons that are asked at a time: each one that hangs takes one for `timeout`.
    """

    namespace: str
    secret: str
    own: str
    templates: str = TEMPLATES_NAME
    workers: int = 16
    daemons: int = 64
    resync: float | None = 600.0
    interval: float = 15.0
    timeout: float = 10.0


class RmdController:
    """`run` it while this process leads; it runs once."""

    def __init__(
        self,
        client: KubeClient,
        *,
        options: Options,
        events: EventRecorder | None = None,
        now: Callable[[], datetime] = utc_now,
    ) -> None:
        self._daemons = DaemonClient(timeout=options.timeout, passing=client.passing)
        self._caches = caches = Caches(
            client,
            namespace=options.namespace,
            secret=options.secret,
            own=options.own,
            wake_workload=self._wake_workload,
            wake_node=self._wake_node,
            wake_config=self._wake_config,
            templates=options.templates,
        )
        self._nodes: Controller[str] = Controller(
            "rmd-nodes",
            NodeSync(client, self._daemons, caches, Showing(client, now), interval=options.interval).reconcile,
            stores=caches.stores,
            keys=caches.node_names,
            workers=options.daemons,
            resync=options.resync,
            turn=None,
            backoff=(_FIRST_PAUSE, _LONGEST_PAUSE),
        )
        self._workloads: Controller[Key] = Controller(
            "rmd-workloads",
            WorkloadSync(client, caches, events, now).reconcile,
            stores=caches.stores,
            keys=caches.workloads.keys,
            workers=options.workers,
            resync=options.resync,
        )

        self._configs: Controller[str] = Controller(
            "rmd-config",
            ConfigSync(client, caches, now, namespace=options.namespace).reconcile,
            stores=caches.stores,
            keys=caches.config_namespaces,
            workers=1,
            resync=options.resync,
            turn=None,
        )

    async def run(self) -> None:
        """Until cancelled; what is under way then gets a few seconds to end."""
        try:
            async with self._daemons, asyncio.TaskGroup() as group:
                start(group, self._caches.reflectors, (self._nodes, self._workloads, self._configs))
        finally:
            metrics.forget_all()

    def waiting(self) -> list[str]:
        """What readiness waits for, one line each."""
        return self._caches.waiting()

    def _wake_workload(self, key: Key) -> None:
        self._workloads.enqueue(key)

    def _wake_config(self, namespace: str) -> None:
        self._configs.enqueue(namespace)

    def _wake_node(self, node: str) -> None:
        self._nodes.enqueue(node)
