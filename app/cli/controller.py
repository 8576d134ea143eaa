"""`berth controller`: parses the flags and hands over to the runtime."""

from __future__ import annotations

from typing import Annotated

from app.cli.options import (
    ABSENT,
    CLUSTER,
    Context,
    HealthAddress,
    HealthPort,
    HostLabel,
    InfraKubeconfig,
    LogLevel,
    RefusedNames,
    TenantAllow,
    TenantNodeLabel,
    given,
    option,
    paragraphs,
)
from app.settings import controller as settings

SWITCHES = ("leader-elect",)
_WORK = "Reconciling"

EPILOG = paragraphs("""Examples:

  berth controller

  berth controller --controllers workloads --kubeconfig infra.kubeconfig

Environment: BERTH_ and the flag in capitals stand for every flag; NAMESPACE for
the namespace of the Lease. A flag beats the environment.

Exit status: 0 after a stop, 1 after a fault, 2 for a wrong flag.""")


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
    leader_elect: Annotated[
        bool | None,
        option("--leader-elect/--no-leader-elect", panel=_WORK, text="Work only while holding the Lease (default: on)"),
    ] = ABSENT,
    namespace_grant: Annotated[
        list[str] | None,
        option(
            "--namespace-grant",
            panel=_WORK,
            text="A ClusterRole to bind in each tenant's namespace, ROLE=NAMESPACE/ACCOUNT; repeatable",
        ),
    ] = ABSENT,
    tenant_quota: Annotated[
        str | None,
        option(
            "--tenant-quota",
            panel=_WORK,
            text="Comma list of RESOURCE=NUMBER, bounds of objects in each tenant's namespace, of companions of admin "
            "rules (companions/Any, companions/SameNode), of the bytes of all its companions (companions/bytes, "
            "companions/pending-bytes) and of those without a node (companions/pending, companions/pending-of-host, "
            "companions/queued), in place of the defaults; RESOURCE= removes one",
        ),
    ] = ABSENT,
    host_label: HostLabel = ABSENT,
    tenant_node_label: TenantNodeLabel = ABSENT,
    tenant_allow: TenantAllow = ABSENT,
    admin_names: RefusedNames = ABSENT,
    kubeconfig: InfraKubeconfig = ABSENT,
    context: Context = ABSENT,
    namespace: Annotated[
        str | None,
        option("--namespace", panel=CLUSTER, text="Namespace of the Lease (default: $NAMESPACE or universe)"),
    ] = ABSENT,
    bind_address: HealthAddress = ABSENT,
    health_check_port: HealthPort = ABSENT,
    log_level: LogLevel = ABSENT,
) -> int:
    """Reconcile companions and tenants in the infra cluster."""
    loaded = settings.load(given(locals()))
    # Imported late: the runtime brings the servers with it, which no other command needs.
    from app.runtime.controller import run_controller  # noqa: PLC0415

    return run_controller(loaded)
