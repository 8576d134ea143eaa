"""The descriptor of the wing, with the roles at the two ends of the wire."""

from __future__ import annotations

from app.placement.wing import ARGUMENTS as PLACEMENT_ARGUMENTS
from app.wiring import TLS_FILES, Argument, Chart, Controller, Port, Role, Wing

AGENT_LEASE = "berth-agent"
_NEXT = (
    (
        "berth tenant add tenant1 --berth-namespace {{ .Release.Namespace }} --host HOST --out tenant1"
        "   # HOST: a node of the tenant's cluster"
    ),
    "kubectl get tenants.workload.infra.universe.nvidia.com",
)

GATEWAY = Role(
    name="gateway",
    settings="app.tenancy.gateway.settings:GatewaySettings",
    build="app.tenancy.gateway.server:build",
    summary="Serve tenants and the cloud admin over gRPC with mutual TLS.",
    examples=(
        "berth gateway --tls-cert-file tls.crt --tls-private-key-file tls.key --client-ca ca.crt",
        "berth gateway --kubeconfig infra.kubeconfig --port 30001",
    ),
    needs="infra",
    chart=Chart(
        ports=(Port("grpc", 9090, 9090),),
        arguments=(
            Argument("port", text="9090"),
            *TLS_FILES,
            Argument("client_ca", text="/etc/berth/tls/ca.crt"),
            Argument("drain_seconds"),
            Argument("max_message_bytes"),
            Argument("streams_per_tenant"),
            Argument("calls_per_second"),
            Argument("calls_burst"),
            Argument("workloads_per_tenant"),
            Argument("writes_per_tenant"),
            *PLACEMENT_ARGUMENTS,
        ),
        tls="berth.gatewaySecret",
        grace=("drain_seconds",),
        next=_NEXT,
    ),
    when_down="tenants' agents are cut off: neither their workloads nor their rules arrive",
    when_expired="agents refuse the gateway: no workload and no rule arrives",
    renew="app.tenancy.why.commands:renew_gateway",
    when_refused={
        "pods": "tenants do not see their companions, and their Pods cannot be stored",
        "tenants": "callers cannot be distinguished: all of them are refused",
        "": "calls of tenants and of the admin fail with PermissionDenied or Internal",
    },
)
AGENT = Role(
    name="agent",
    settings="app.tenancy.agent.settings:AgentSettings",
    build="app.tenancy.agent.agent:build",
    summary="Report the workloads of this tenant cluster to the infra cluster, and show their companions here.",
    examples=(
        "berth agent --gateway 10.0.0.1:9090 --gateway-ca ca.crt --tls-cert-file a.crt --tls-private-key-file a.key",
    ),
    needs="tenant",
    lease=AGENT_LEASE,
    chart=Chart(
        arguments=(
            Argument("gateway", "agent.gateway"),
            Argument("gateway_name"),
            Argument("gateway_ca", text="/etc/berth/tls/ca.crt"),
            *TLS_FILES,
            Argument("namespace", "berth.systemNamespace"),
            Argument("configmap_namespace", "berth.systemNamespace"),
            Argument("resync_seconds"),
            Argument("tenant"),
            Argument("keep_finished"),
        ),
        tls="agent.secretName",
        egress=("agent.gateway",),
        notes=(
            (
                "Its Pods wait for Secret {{ .Values.agent.secretName }}. `berth tenant add --agent-namespace "
                "{{ .Release.Namespace }}` in the infra cluster writes it into secret.yaml."
            ),
        ),
        first=("kubectl -n {{ .Release.Namespace }} apply -f tenant1/secret.yaml",),
        next=('kubectl -n {{ include "berth.systemNamespace" . }} get workloadrules,uvspods',),
    ),
    when_down="this tenant's Pods get no companions, and its mirrors grow stale",
    when_idle="workloads and mirrors stand still",
    when_expired="the gateway refuses the agent: this tenant's workloads get no companions",
    renew="app.tenancy.why.commands:renew_agent",
    when_refused={
        "leases": f"no replica can hold Lease {AGENT_LEASE}: none of them works",
        "pods": "the infra cluster does not see the tenant's workloads",
        "namespaces": "the cluster cannot be identified: the gateway refuses the agent",
        "": "rules and UVS objects of namespace universe do not reach the infra cluster, or have no status",
    },
)

WING = Wing(
    "tenancy",
    kinds={"infra": "app.tenancy.permissions:INFRA", "tenant": "app.tenancy.permissions:TENANT"},
    reviews="app.tenancy.permissions:REVIEWS",
    controllers=(
        Controller(
            "tenants",
            build="app.tenancy.controller.controller:build",
            next=_NEXT,
        ),
    ),
    parts="app.tenancy.webhook:review",
    permissions="app.tenancy.permissions:PERMISSIONS",
    settings={
        "webhook": "app.tenancy.settings:AdminSettings",
        "controller": "app.tenancy.settings:TenantsSettings",
        "certificates": "app.tenancy.authority:AuthoritySettings",
    },
    checks=("app.tenancy.checks:TENANTS_CHECK", "app.tenancy.checks:AGENT_CHECK"),
    status=("app.tenancy.sections:TENANTS_SECTION", "app.tenancy.sections:AGENT_SECTION"),
    why="app.tenancy.why.tenants:JUDGES",
    views=("app.tenancy.views.fabric:VIEW", "app.tenancy.views.tenants:VIEW"),
    metrics={
        "app.tenancy.agent.metrics": ("agent",),
        "app.tenancy.gateway.metrics": ("gateway",),
        "app.tenancy.controller.status": ("controller",),
    },
    roles=(GATEWAY, AGENT),
)
