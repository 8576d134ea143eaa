"""The controller `rmd`: an RmdConfig and RmdWorkloads in; daemons, their reservations, statuses and Events out.

All state is in the cluster and in the daemons. A node is one key: a daemon has one writer, which makes one request at a
time, and a daemon that hangs holds up no other.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime

from app.kube.kit import Kit
from app.rmd import metrics
from app.rmd.controller.caches import Caches
from app.rmd.controller.configuring import ConfigSync
from app.rmd.controller.nodes import NodeSync
from app.rmd.controller.showing import Showing
from app.rmd.controller.workloads import WorkloadSync
from app.rmd.daemon.client import DaemonClient
from app.rmd.model import TEMPLATES_NAME
from app.rmd.settings import RmdSettings
from app.settings.reconciling import ControllerContext
from app.settings.source import settings_as
from app.text import utc_now

_FIRST_PAUSE, _LONGEST_PAUSE = 1.0, 60.0
"""Seconds until a daemon that refuses or is silent is asked again."""


@dataclass(frozen=True, slots=True)
class Options:
    """Times are in seconds.

    `namespace` has the daemons, the RmdConfig, and the Secret `secret` with the client certificate for daemons.
    In `own` the ConfigMap `templates` has the DaemonSets.

    `daemons` are asked at a time: each one that hangs takes one for `timeout`.
    """

    namespace: str
    secret: str
    own: str
    templates: str = TEMPLATES_NAME
    daemons: int = 64
    interval: float = 15.0
    timeout: float = 10.0


def build(context: ControllerContext) -> Kit:
    settings, kit = settings_as(context.settings, RmdSettings), context.kit()
    metrics.create_series()
    options = Options(
        namespace=settings.rmd_namespace,
        secret=settings.rmd_client_certificate,
        own=context.settings.namespace,
        templates=settings.rmd_daemon_sets,
    )
    reserve(kit, options=options)
    return kit


def reserve(kit: Kit, *, options: Options, now: Callable[[], datetime] = utc_now) -> None:
    """Make the controller of this kit, whose workers are for RmdWorkloads."""
    client = kit.client
    daemons = DaemonClient(timeout=options.timeout, passing=client.passing)
    caches = Caches(
        kit, namespace=options.namespace, secret=options.secret, own=options.own, templates=options.templates
    )
    kit.reconcile(
        "rmd-nodes",
        NodeSync(client, daemons, caches, Showing(client, now), interval=options.interval).reconcile,
        keys=caches.node_names,
        wakes=caches.nodes_woken(),
        turn=None,
        workers=options.daemons,
        backoff=(_FIRST_PAUSE, _LONGEST_PAUSE),
    )
    kit.reconcile(
        "rmd-workloads",
        WorkloadSync(client, caches, kit.events, now).reconcile,
        keys=caches.workloads.keys,
        wakes=caches.workloads_woken(),
    )
    kit.reconcile(
        "rmd-config",
        ConfigSync(client, caches, now, namespace=options.namespace).reconcile,
        keys=caches.config_namespaces,
        wakes=caches.configs_woken(),
        turn=None,
        workers=1,
    )
    kit.within(daemons)
    kit.at_end(metrics.forget_all)
