"""Composes the controller role: the chosen controllers, elected by one Lease of the infra cluster."""

from __future__ import annotations

from itertools import chain

from app.kube.client import KubeClient
from app.kube.events import Events
from app.kube.metrics import create_controller_series, create_watch_series
from app.kube.resources import NAMESPACES, NODES, PODS
from app.kube.transport import AioKubeClient, connect
from app.registry import CONTROLLER_LEASE as LEASE
from app.runtime.background import identity, run_background
from app.runtime.events import Recorded, recorder
from app.runtime.manager import Connected, Group, LeaderElected, Runnable
from app.settings.controller import ControllerSettings
from app.tenancy.controller.bounds import companion_bounds_of, places_of
from app.tenancy.controller.controller import TenantsController, TenantsOptions
from app.workloads.controller.controller import ControllerOptions, WorkloadsController
from app.workloads.model import ADMIN_RULES, TENANT_RULES, TENANTS, WORKLOADS


def run_controller(settings: ControllerSettings) -> int:
    """Run until a signal and return the exit status."""
    return run_background(controller_part(settings), settings, role="controller")


def controller_part(settings: ControllerSettings) -> Runnable:
    """The controllers of these settings, to be run in a loop."""
    names, watched = zip(*(_SERIES[name] for name in settings.controllers), strict=True)
    create_controller_series(tuple(chain(*names)), lease=LEASE if settings.leader_elect else "")
    create_watch_series(tuple(resource.kind for resource in chain(*watched)))

    def build(client: AioKubeClient) -> Runnable:
        events = recorder("controller", lambda: client)

        def chosen(client: KubeClient) -> Runnable:
            return Group(*(_BUILDERS[name](client, settings, events) for name in settings.controllers))

        if not settings.leader_elect:
            return Recorded(chosen(client), events)
        elected = LeaderElected(chosen, client=client, namespace=settings.namespace, lease=LEASE, identity=identity())
        return Recorded(elected, events)

    return Connected(lambda: connect(kubeconfig=settings.kubeconfig, context=settings.context), build)


def _workloads(client: KubeClient, settings: ControllerSettings, events: Events) -> Runnable:
    options = ControllerOptions(
        placement=settings.placement,
        workers=settings.max_concurrent_reconciles,
        resync=settings.resync_seconds,
        places=places_of(settings.quota),
        companion_bounds=companion_bounds_of(settings.quota),
    )
    return WorkloadsController(client, options=options, events=events)


def _tenants(client: KubeClient, settings: ControllerSettings, _events: Events) -> Runnable:
    options = TenantsOptions(
        placement=settings.placement,
        admin_names=settings.admin_names,
        grants=settings.grants,
        quota=settings.quota,
        resync=settings.resync_seconds,
    )
    return TenantsController(client, options=options)


_BUILDERS = {"workloads": _workloads, "tenants": _tenants}
_SERIES = {
    "workloads": (
        ("companions", "workload-status", "rule-status"),
        (WORKLOADS, TENANT_RULES, ADMIN_RULES, PODS),
    ),
    "tenants": (("tenants", "tenant-nodes"), (TENANTS, NODES, NAMESPACES)),
}
"""What each counts under: the names of its reconcilers, and what it watches."""
