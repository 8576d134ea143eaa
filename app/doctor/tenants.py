"""Check `tenants`: tenants that are not served, or not as wanted, and nodes that no tenant's workloads will find.

Also namespaces that are labeled for another tenant than they are named for, and namespaces without the quotas and the
ServiceAccount by which the controller limits them without a webhook.
"""

from __future__ import annotations

import shlex
from collections.abc import AsyncIterator, Iterator, Sequence

from app.doctor import commands, objects
from app.doctor.cluster import Cluster
from app.doctor.model import Check, Finding, Severity, all_well, error, info, plain, several, warning
from app.kube.resources import NAMESPACES, NODES, RESOURCE_QUOTAS, SERVICE_ACCOUNTS
from app.placement.model import TENANT_LABEL, TENANT_NAMESPACE_PREFIX, PlacementOptions, tenant_of
from app.placement.settings import PlacementSettings
from app.tenancy.controller.namespace_objects import ISOLATION, OBJECTS, NamespaceObject, bounds_of, uncounted_in
from app.wire import JSON
from app.workloads.model import TENANTS, tenant_namespace
from app.workloads.settings import QuotaSettings

PATIENCE = 120.0
"""Seconds in which the controller processes a change of a tenant."""
_TURNED_AWAY = "the gateway turns its agents away"
_CONSEQUENCES = {
    "Invalid": f"{_TURNED_AWAY}: it cannot tell whose they are",
    "IdentityShared": f"{_TURNED_AWAY}: it cannot tell whose they are",
    "CertificatesExpired": _TURNED_AWAY,
    "HostTaken": "DPUs of the host keep the tenant that they have: companions may run at the wrong tenant's",
}
"""What follows from the reason for which a Tenant is not ready."""
_UNBOUNDED = {
    ISOLATION: (
        error,
        "while the webhook is away, a Pod of the tenant can keep Pods of other namespaces from every node",
    ),
    OBJECTS: (warning, "the tenant can fill the API server with objects, until no write succeeds"),
    "default": (warning, "Pods of the tenant get a token for the API server of this cluster"),
}
"""What follows where the object of this name is missing in a tenant's namespace."""


async def _statuses(cluster: Cluster) -> AsyncIterator[Finding]:
    for tenant in await cluster.listed(TENANTS):
        name, about = tenant["metadata"]["name"], objects.subject(TENANTS.kind, tenant)
        said, ready = objects.status(tenant), objects.condition(tenant, "Ready")
        if ready.get("status") == "False" or said.get("result") == "error":
            reason = str(ready.get("reason") or "NotReady")
            text = plain(f"is not ready ({reason}): {ready.get('message') or said.get('message') or ''}")
            follows = _CONSEQUENCES.get(reason, "its rules and workloads are refused, or have no companions")
            yield error(about, text, follows, _command(name, reason))
        if (tenant.get("spec") or {}).get("suspended"):
            patch = '{"spec":{"suspended":false}}'
            command = commands.kubectl("patch", objects.plural(TENANTS), name, "--type=merge", "--patch", patch)
            yield info(about, "is suspended", f"{_TURNED_AWAY}; its companions stay as they are", command)
        if objects.unseen(tenant) and objects.unchanged(tenant, cluster.now()) > PATIENCE:
            running = await cluster.running("controller")
            text = "changed, and no controller has looked at it"
            text += "" if running else f": none was found in namespace {cluster.namespace}"
            follows = "its namespace, its nodes and its certificates are not kept as the Tenant says"
            yield error(about, text, follows, await commands.restart_role(cluster, "controller"))


def _command(name: str, reason: str) -> str:
    namespace = tenant_namespace(name)
    match reason:
        case "CertificatesExpired":
            return f"berth tenant rotate {name}"
        case "ForeignNamespace":
            return commands.set_label("namespace", namespace, TENANT_LABEL, name)
        case "NamespaceEnding" | "NamespaceRefused":
            return commands.kubectl("describe", "namespace", namespace)
        case "QuotaPending" | "ForeignResourceQuota":
            return commands.kubectl("describe", "resourcequota", namespace=namespace)
    return commands.edit(TENANTS, name)


async def _nodes(cluster: Cluster) -> AsyncIterator[Finding]:
    tenants = await cluster.listed(TENANTS)
    nodes = await cluster.listed(NODES) if tenants else []
    settings = await cluster.settings(PlacementSettings)
    for finding in nodes_and_hosts(tenants, nodes, settings.placement):
        yield finding


def nodes_and_hosts(tenants: Sequence[JSON], nodes: Sequence[JSON], options: PlacementOptions) -> Iterator[Finding]:
    """Nodes of a tenant without a host; hosts of a tenant without a node."""
    host_label, tenant_label = options.host_label, options.tenant_node_label
    hosts = {objects.labels(node).get(host_label) or "" for node in nodes}
    for node in nodes:
        own, name = objects.labels(node), node["metadata"]["name"]
        if tenant_label and own.get(tenant_label) and not own.get(host_label):
            yield warning(
                f"Node {name}",
                f"is a DPU of tenant {own[tenant_label]}, but its label {host_label} does not say of which host",
                "companions of the workloads of that host stay Pending",
                f'kubectl label node {name} {host_label}="$HOST"  # HOST: the node in the tenant\'s cluster',
            )
    for tenant in tenants:
        if missing := sorted(set((tenant.get("spec") or {}).get("hosts") or ()) - hosts):
            label = shlex.quote(f"{host_label}={missing[0]}")
            yield warning(
                objects.subject(TENANTS.kind, tenant),
                f"no node has label {host_label} for its {several(len(missing), 'host')} {plain(', '.join(missing))}",
                "companions of the workloads of these hosts stay Pending",
                f'kubectl label node "$DPU" {label}  # DPU: the node in that host',
            )


async def _mislabeled(cluster: Cluster) -> AsyncIterator[Finding]:
    """Namespaces that are named for one tenant and labeled for another: Pods there are placed by the label.

    Only those that no Tenant's status reports: the Tenant is suspended, missing, or not processed yet.
    """
    tenants = await cluster.listed(TENANTS)
    reported = {
        one["metadata"]["name"]
        for one in tenants
        if objects.condition(one, "NamespaceReady").get("reason") == "ForeignNamespace"
    }
    for namespace in await cluster.listed(NAMESPACES) if tenants else ():
        name, labeled = namespace["metadata"]["name"], objects.labels(namespace).get(TENANT_LABEL)
        named = name.removeprefix(TENANT_NAMESPACE_PREFIX)
        if name != named and labeled and labeled != named and named not in reported:
            text = f"is named for tenant {named}, and its label {TENANT_LABEL} says {labeled}"
            command = commands.set_label("namespace", name, TENANT_LABEL, named)
            yield error(f"Namespace {name}", text, f"its Pods are placed on DPUs of tenant {labeled}", command)


async def _bounds(cluster: Cluster) -> AsyncIterator[Finding]:
    """What is missing or differs; a namespace that is not ready is a finding of its Tenant."""
    settled = {tenant_namespace(one["metadata"]["name"]) for one in await cluster.listed(TENANTS) if _is_settled(one)}
    namespaces = [
        one["metadata"]["name"]
        for one in (await cluster.listed(NAMESPACES) if settled else ())
        if tenant_of(one) and one["metadata"]["name"] in settled and not one["metadata"].get("deletionTimestamp")
    ]
    if not namespaces:
        return
    quotas = await cluster.listed(RESOURCE_QUOTAS)
    accounts = [one async for one in cluster.paged(SERVICE_ACCOUNTS, field_selector="metadata.name=default")]
    present = {
        (kind, one["metadata"]["namespace"], one["metadata"]["name"]): one
        for kind, found in ((RESOURCE_QUOTAS, quotas), (SERVICE_ACCOUNTS, accounts))
        for one in found
    }
    bounds = bounds_of((await cluster.settings(QuotaSettings, role="controller")).quota)
    command = await commands.restart_role(cluster, "controller")
    for namespace in namespaces:
        for bound in bounds:
            if problem := _problem(bound, present.get((bound.resource, namespace, bound.name))):
                unbounded, follows = _UNBOUNDED[bound.name]
                yield unbounded(f"{bound.resource.kind} {namespace}/{bound.name}", problem, follows, command)


def _is_settled(tenant: JSON) -> bool:
    ending = objects.condition(tenant, "NamespaceReady").get("status") == "False"
    return not (ending or objects.unseen(tenant) or (tenant.get("spec") or {}).get("suspended"))


def _problem(bound: NamespaceObject, present: JSON | None) -> str:
    if present is None:
        return "is missing"
    if not bound.holds_in(present):
        return "differs from what the controller keeps there"
    if bound.resource == RESOURCE_QUOTAS and (missing := uncounted_in(present)):
        return f"does not hold: kube-controller-manager has not counted {', '.join(missing)}"
    return ""


async def _all_well(cluster: Cluster) -> AsyncIterator[Finding]:
    if tenants := await cluster.listed(TENANTS):
        text = f"{several(len(tenants), 'tenant')} and their nodes are well"
        yield all_well("", text, unless=Severity.warning)


CHECK = Check("tenants", (_statuses, _nodes, _mislabeled, _bounds, _all_well))
