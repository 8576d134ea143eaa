"""The wings of Berth, and its roles in the order in which the help shows them.

A wing is entered here and nowhere else: everything that treats all wings or all roles alike reads this.
"""

from __future__ import annotations

from dataclasses import replace

from app.certs.wing import WING as CERTS
from app.networks.wing import WING as NETWORKS
from app.placement.wing import ARGUMENTS as PLACEMENT_ARGUMENTS
from app.placement.wing import WING as PLACEMENT
from app.tenancy.wing import WING as TENANCY
from app.wiring import TLS_FILES, Argument, Chart, Permission, Port, Role, Wing
from app.workloads.wing import WING as WORKLOADS

WINGS: tuple[Wing, ...] = (NETWORKS, PLACEMENT, WORKLOADS, TENANCY, CERTS)

CONTROLLER_LEASE = "berth-controller"

WEBHOOK = Role(
    name="webhook",
    command=("webhook",),
    settings="app.settings.webhook:WebhookSettings",
    run="app.runtime.webhook:run_webhook",
    summary="Answer AdmissionReviews on /mutate and /validate over TLS.",
    examples=(
        "berth webhook --tls-cert-file tls.crt --tls-private-key-file tls.key",
        "berth webhook --manifests nads --insecure",
        "berth webhook --client-ca ca.crt --client-ca old-ca.crt --workers 2",
    ),
    notes="One dash is enough (-insecure=true). Lists in variables have commas (BERTH_CLIENT_CA=a.crt,b.crt).",
    ignored=(
        "--logtostderr/--no-logtostderr",
        "--alsologtostderr/--no-alsologtostderr",
        "--vmodule",
        "--log_dir",
        "--log-dir",
        "--stderrthreshold",
        "--log_backtrace_at",
        "--log_link",
        "--logbuflevel",
    ),
    needs="app.networks.permissions:NEEDS",
    chart=Chart(
        ports=(Port("https", 8443, 443),),
        arguments=(
            Argument("port", text="8443"),
            *TLS_FILES,
            Argument("network_resource_name_keys"),
            Argument("existing_resources"),
            Argument("node_selector_conflict"),
            Argument("default_network_namespace"),
            Argument("workers"),
            Argument("drain_seconds"),
            Argument("deadline_seconds"),
            *PLACEMENT_ARGUMENTS,
            Argument("inject_hugepage_down_api"),
            Argument("confine_tenants"),
            Argument("events"),
            Argument("client_ca", "berth.clientCAFile"),
            Argument("insecure", "berth.withoutClientCA"),
        ),
        tls="berth.webhookSecret",
        volumes={"client-ca": "berth.clientCAVolume"},
        grace=("drain_seconds", "deadline_seconds"),
    ),
    when_down="nothing is injected into Pods, and with failurePolicy Fail none can be created",
    when_refused={
        "network-attachment-definitions": "attachments cannot be read: the webhook does not get ready, and where it "
        "runs already, new attachments stay unknown: Pods that select them are denied",
        "configmaps": "the control switches are not read: the webhook does not get ready",
        "namespaces": "whose a namespace is cannot be told: the webhook gets not ready, and refuses Pods of tenants",
    },
)
CONTROLLER = Role(
    name="controller",
    command=("controller",),
    settings="app.settings.controller:ControllerSettings",
    run="app.runtime.controller:run_controller",
    summary="Reconcile companions and tenants in the infra cluster.",
    examples=("berth controller", "berth controller --controllers workloads --kubeconfig infra.kubeconfig"),
    needs="app.definitions:INFRA",
    lease=CONTROLLER_LEASE,
    chart=Chart(
        arguments=(
            Argument("max_concurrent_reconciles"),
            Argument("resync_seconds"),
            Argument("namespace_grant", "berth.controllerGrant"),
            *PLACEMENT_ARGUMENTS,
            Argument("namespace_grant", "berth.gatewayGrant", when="gateway.enabled"),
            Argument("tenant_quota"),
        )
    ),
    when_down="no companion is created or removed",
    when_idle="companions are neither created nor removed",
    when_refused={
        "leases": f"no replica can hold Lease {CONTROLLER_LEASE}: none of them works",
        "nodes": "DPU nodes are not labeled for their tenants: companions find no node",
        "namespaces": "new tenants get no namespace",
        "rolebindings": "controller and gateway cannot act in the namespaces of new tenants",
        "clusterroles": "controller and gateway cannot act in the namespaces of new tenants",
        "tenants": "tenants are not served",
        "": "companions are neither made nor removed, or no status says so",
    },
)

ROLES = (WEBHOOK, CONTROLLER, *(role for wing in WINGS for role in wing.roles))
BY_NAME = {role.name: role for role in ROLES}

_EVENTS = Permission("cluster", "", ("events",), ("create", "patch"))
_LEASES = "coordination.k8s.io"
SHARED: dict[str, tuple[Permission, ...]] = {
    "webhook": (replace(_EVENTS, when="events"),),
    "controller": (
        Permission("release", _LEASES, ("leases",), ("create",)),
        Permission("release", _LEASES, ("leases",), ("get", "update"), (CONTROLLER_LEASE,)),
        _EVENTS,
    ),
}
"""What a role needs for itself, whichever wings work in it."""
