"""Composes the controller role: the chosen controllers, led by one Lease of the infra cluster."""

from __future__ import annotations

from itertools import chain

from app.kube.client import KubeClient
from app.kube.resources import NAMESPACES, NODES, PODS
from app.kube.transport import connect
from app.metrics import controllers, watches
from app.metrics.controllers import ControllerMetrics
from app.metrics.watches import WatchMetrics
from app.runtime.background import identity, run_background
from app.runtime.standing import Connected, Led, Part, Together
from app.settings.controller import ControllerSettings
from app.tenancy.control.controller import TenantsController, TenantsOptions
from app.workloads.control.controller import ControllerOptions, WorkloadsController
from app.workloads.model import ADMIN_RULES, TENANT_RULES, TENANTS, WORKLOADS

LEASE = "berth-controller"


def run_controller(settings: ControllerSettings) -> int:
    """Run until a signal and return the exit status."""
    return run_background(controller_part(settings), settings, role="controller")


def controller_part(settings: ControllerSettings) -> Part:
    """The controllers of these settings, to be run in a loop."""
    names, watched = zip(*(_SERIES[name] for name in settings.controllers), strict=True)
    controllers.create_series(tuple(chain(*names)), lease=LEASE)
    watches.create_series(tuple(resource.kind for resource in chain(*watched)))

    def build(client: KubeClient) -> Part:
        def chosen() -> Part:
            return Together(*(_BUILDERS[name](client, settings) for name in settings.controllers))

        if not settings.leader_elect:
            return chosen()
        return Led(chosen, client=client, namespace=settings.namespace, lease=LEASE, identity=identity())

    return Connected(lambda: connect(kubeconfig=settings.kubeconfig, context=settings.context), build)


def _workloads(client: KubeClient, settings: ControllerSettings) -> Part:
    options = ControllerOptions(
        placement=settings.placement,
        workers=settings.max_concurrent_reconciles,
        resync=settings.resync_seconds,
    )
    return WorkloadsController(
        client, options=options, watch_observer=WatchMetrics(), controller_observer=ControllerMetrics()
    )


def _tenants(client: KubeClient, settings: ControllerSettings) -> Part:
    options = TenantsOptions(
        placement=settings.placement, admin_names=settings.admin_names, resync=settings.resync_seconds
    )
    return TenantsController(
        client, options=options, watch_observer=WatchMetrics(), controller_observer=ControllerMetrics()
    )


_BUILDERS = {"workloads": _workloads, "tenants": _tenants}
_SERIES = {
    "workloads": (
        ("companions", "workload-status", "rule-status"),
        (WORKLOADS, TENANT_RULES, ADMIN_RULES, PODS),
    ),
    "tenants": (("tenants", "tenant-nodes"), (TENANTS, NODES, NAMESPACES)),
}
"""What each counts under: the names of its reconcilers, and what it watches."""
