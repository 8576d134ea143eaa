"""`berth controller`: parses the flags and hands over to the runtime."""

from __future__ import annotations

from typing import Annotated

from app.cli.options import ABSENT, given, option
from app.settings import controller as settings

SWITCHES = ("leader-elect",)
_SERVING, _CLUSTER, _WORK, _PLACEMENT, _LOGS = "Serving", "Cluster", "Reconciling", "Placement", "Logs"

EPILOG = """Examples:

  berth controller

  berth controller --controllers workloads --kubeconfig infra.kubeconfig

Environment: BERTH_ and the flag in capitals stand for every flag; NAMESPACE for
the namespace of the Lease. A flag beats the environment.

Exit status: 0 after a stop, 1 after a fault, 2 for a wrong flag."""


def controller(
    controllers: Annotated[
        str | None,
        option("--controllers", panel=_WORK, text="Comma list of workloads, tenants (default: both)"),
    ] = ABSENT,
    max_concurrent_reconciles: Annotated[
        int | None,
        option("--max-concurrent-reconciles", panel=_WORK, text="Keys reconciled at a time (default: 16)"),
    ] = ABSENT,
    resync_seconds: Annotated[
        float | None,
        option("--resync-seconds", panel=_WORK, text="How often everything is looked at anew (default: 60)"),
    ] = ABSENT,
    admin_resources_namespace: Annotated[
        str | None,
        option(
            "--admin-resources-namespace",
            panel=_WORK,
            text="Namespace of admin rules and their companions (default: universe)",
        ),
    ] = ABSENT,
    leader_elect: Annotated[
        bool | None,
        option("--leader-elect/--no-leader-elect", panel=_WORK, text="Work only while holding the Lease (default: on)"),
    ] = ABSENT,
    host_label: Annotated[
        str | None,
        option(
            "--host-label",
            panel=_PLACEMENT,
            text="Label of DPU nodes that names their host (default: provisioning.dpu.nvidia.com/host)",
        ),
    ] = ABSENT,
    tenant_node_label: Annotated[
        str | None,
        option(
            "--tenant-node-label",
            panel=_PLACEMENT,
            text='Label of DPU nodes that names their tenant; "" confines nobody (default: berth.dev/tenant)',
        ),
    ] = ABSENT,
    kubeconfig: Annotated[
        str | None, option("--kubeconfig", panel=_CLUSTER, text="The infra cluster (default: in-cluster)")
    ] = ABSENT,
    context: Annotated[str | None, option("--context", panel=_CLUSTER, text="Context of the kubeconfig")] = ABSENT,
    namespace: Annotated[
        str | None,
        option("--namespace", panel=_CLUSTER, text="Namespace of the Lease (default: $NAMESPACE or universe)"),
    ] = ABSENT,
    bind_address: Annotated[
        str | None, option("--bind-address", panel=_SERVING, text="Address of the health server (default: 0.0.0.0)")
    ] = ABSENT,
    health_check_port: Annotated[
        int | None,
        option("--health-check-port", panel=_SERVING, text="Plain port of /healthz, /readyz, /metrics (default: 8444)"),
    ] = ABSENT,
    log_level: Annotated[
        str | None, option("--log-level", panel=_LOGS, text="debug, info, warning or error (default: info)")
    ] = ABSENT,
) -> int:
    """Reconcile companions and tenants in the infra cluster."""
    loaded = settings.load(given(locals()))
    # Imported late: the runtime brings the servers with it, which no other command needs.
    from app.runtime.controller import run_controller  # noqa: PLC0415

    return run_controller(loaded)
