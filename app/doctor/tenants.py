"""Check `tenants`: tenants that are not served, or not as wanted, and nodes that no tenant's workloads will find.

Also namespaces that are labeled for another tenant than they are named for.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Sequence

from app.doctor import acting, commands, contacts, objects, tenant_bounds
from app.doctor.cluster import Cluster
from app.doctor.dpus import Dpus, dpus_of
from app.doctor.model import REGISTERED, Check, Finding, Severity, error, info, listed, plain, sound, warning
from app.doctor.tenant_namespaces import confines_tenants, tenant_namespaces
from app.kube.resources import MUTATING_WEBHOOKS
from app.placement.model import TENANT_LABEL, TENANT_NAMESPACE_PREFIX
from app.tenancy.model import SUSPENDED
from app.text import several
from app.wire import JSON
from app.workloads.model import TENANTS, tenant_namespace

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


async def _statuses(cluster: Cluster) -> AsyncIterator[Finding]:
    late: list[str] = []
    for tenant in await cluster.listed(TENANTS):
        name, about = tenant["metadata"]["name"], objects.subject(TENANTS.kind, tenant)
        said, ready = objects.status(tenant), objects.condition(tenant, "Ready")
        reason = str(ready.get("reason") or "NotReady")
        if reason != SUSPENDED and (ready.get("status") == "False" or said.get("result") == "error"):
            text = plain(f"is not ready ({reason}): {ready.get('message') or said.get('message') or ''}")
            follows = _CONSEQUENCES.get(reason, "its rules and workloads are refused, or have no companions")
            yield error("BERTH2001", about, text, follows, _command(name, reason))
        if (tenant.get("spec") or {}).get("suspended"):
            follows = f"{_TURNED_AWAY}; its companions stay as they are"
            yield info("BERTH2002", about, "is suspended", follows, contacts.resume(name))
        if objects.unseen(tenant) and objects.unchanged(tenant, cluster.now()) > PATIENCE:
            late.append(about)
    if late:
        yield await acting.late(cluster, "controller", "BERTH2003", late)


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


async def _unconfined(cluster: Cluster) -> AsyncIterator[Finding]:
    """Tenants that are to be confined, where no webhook is called for any Pod.

    Where one is called, the check `registrations` looks at each namespace.
    """
    found = await tenant_namespaces(cluster)
    called = any(one.injects for one in await cluster.registered())
    if found and not called and await confines_tenants(cluster):
        names = listed([one.name for one in found])
        text = f"no webhook is called for Pods, by which tenants are confined: {names}"
        yield error("BERTH2009", MUTATING_WEBHOOKS.kind, text, because=(REGISTERED,))


async def _nodes(cluster: Cluster) -> AsyncIterator[Finding]:
    if tenants := await cluster.listed(TENANTS):
        for finding in nodes_and_hosts(tenants, await dpus_of(cluster)):
            yield finding


def nodes_and_hosts(tenants: Sequence[JSON], dpus: Dpus) -> Iterator[Finding]:
    """Nodes of a tenant without a host; hosts of a tenant without a node."""
    hosts = {objects.labels(node).get(dpus.host_label) or "" for node in dpus.nodes}
    for node in dpus.nodes:
        own, name = objects.labels(node), node["metadata"]["name"]
        if dpus.tenant_label and own.get(dpus.tenant_label) and not own.get(dpus.host_label):
            yield warning(
                "BERTH2004",
                f"Node {name}",
                f"is a DPU of tenant {own[dpus.tenant_label]}, but its label {dpus.host_label} does not say of which "
                "host",
                command=f'kubectl label node {name} {dpus.host_label}="$HOST"  # HOST: that of the tenant\'s cluster',
            )
    for tenant in tenants:
        if missing := sorted(set((tenant.get("spec") or {}).get("hosts") or ()) - hosts):
            some = f"{several(len(missing), 'host')} {plain(', '.join(missing))}"
            text = f"no node has label {dpus.host_label} for its {some}"
            yield warning("BERTH2005", objects.subject(TENANTS.kind, tenant), text, command=dpus.label(missing[0]))


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
    for namespace in await cluster.namespaces() if tenants else ():
        name, labeled = namespace["metadata"]["name"], objects.labels(namespace).get(TENANT_LABEL)
        named = name.removeprefix(TENANT_NAMESPACE_PREFIX)
        if name != named and labeled and labeled != named and named not in reported:
            text = f"is named for tenant {named}, and its label {TENANT_LABEL} says {labeled}"
            command = commands.set_label("namespace", name, TENANT_LABEL, named)
            yield error(
                "BERTH2006", f"Namespace {name}", text, f"its Pods are placed on DPUs of tenant {labeled}", command
            )


async def _all_well(cluster: Cluster) -> AsyncIterator[Finding]:
    if tenants := await cluster.listed(TENANTS):
        yield sound(len(tenants), "tenant", unless=Severity.warning)


CHECK = Check(
    "tenants", (_statuses, contacts.unconnected, _unconfined, _nodes, _mislabeled, tenant_bounds.missing, _all_well)
)
