"""Check `tenants`: tenants that are not served, not connected, or not as wanted, and nodes that no workloads will find.

Also namespaces that are labeled for another tenant than they are named for.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Sequence
from typing import Any

from app.doctor import acting, commands, objects
from app.doctor.cluster import Cluster
from app.doctor.dpus import Dpus, dpus_of
from app.doctor.model import REGISTERED, Check, Finding, Severity, depends_on, error, info, sound, warning
from app.doctor.tenant_namespaces import bounded, confines_tenants, tenant_namespaces
from app.kube.resources import MUTATING_WEBHOOKS, NAMESPACES, NODES
from app.placement.model import TENANT_LABEL, TENANT_NAMESPACE_PREFIX
from app.tenancy import model
from app.tenancy.model import SUSPENDED, Link, holder_of, link_of
from app.wire import JSON
from app.workloads.model import TENANTS

PATIENCE = 120.0
"""Seconds in which the controller processes a change of a tenant."""


async def _statuses(cluster: Cluster) -> AsyncIterator[Finding]:
    late: list[str] = []
    for tenant in await cluster.listed(TENANTS):
        it, said, ready = objects.Object(TENANTS, tenant), objects.status(tenant), objects.condition(tenant, "Ready")
        reason = str(ready.get("reason") or "NotReady")
        if reason != SUSPENDED and (ready.get("status") == "False" or said.get("result") == "error"):
            text = ready.get("message") or said.get("message") or ""
            yield error("BERTH2001", it, case=reason, reason=reason, said=text, label=TENANT_LABEL)
        if objects.spec(tenant).get("suspended"):
            yield info("BERTH2002", it)
        if objects.unseen(tenant) and objects.unchanged(tenant, cluster.now()) > PATIENCE:
            late.append(it.subject)
    if late:
        yield await acting.late(cluster, "controller", "BERTH2003", late)


async def _unconnected(cluster: Cluster) -> AsyncIterator[Finding]:
    tenants = await cluster.listed(TENANTS)
    links = [(tenant["metadata"]["name"], link_of(tenant)) for tenant in tenants]
    for tenant, (name, link) in zip(tenants, links, strict=True):
        said, it = objects.condition(tenant, model.CONNECTED), objects.Object(TENANTS, tenant)
        reason = str(said.get("reason"))
        issued = (_taker(name, link, links) or "OTHER") if reason == model.CLUSTER_TAKEN else name
        issue = commands.rotate(issued, agent_namespace=cluster.namespace)
        values: dict[str, Any] = {"said": said.get("message"), "issued": issued, "issue": issue}
        values["move"] = commands.move(name)
        if reason == model.NO_CONTACT:
            yield info("BERTH2008", it, case=reason, **values)
        elif said.get("status") == "False" and reason != model.SUSPENDED:
            yield error("BERTH2008", it, case=reason, **values, because=depends_on("gateway"))


def _taker(name: str, link: Link, links: Sequence[tuple[str, Link]]) -> str:
    """The other tenant that has the cluster: of a move or of an older version, it is noted; else it was refused."""
    clusters = (link.cluster, link.refused.cluster if link.refused else "")
    return next((holder for cluster in clusters if (holder := holder_of(cluster, links)) not in ("", name)), "")


async def _unconfined(cluster: Cluster) -> AsyncIterator[Finding]:
    """Tenants that are to be confined, where no webhook is called for any Pod.

    Where one is called, the check `registrations` looks at each namespace.
    """
    namespaces = await tenant_namespaces(cluster)
    called = any(webhook.injects for webhook in await cluster.registered())
    if namespaces and not called and await confines_tenants(cluster):
        names = [namespace.name for namespace in namespaces]
        yield error("BERTH2009", MUTATING_WEBHOOKS.kind, names=names, because=(REGISTERED,))


async def _nodes(cluster: Cluster) -> AsyncIterator[Finding]:
    if tenants := await cluster.listed(TENANTS):
        for finding in nodes_and_hosts(tenants, await dpus_of(cluster)):
            yield finding


def nodes_and_hosts(tenants: Sequence[JSON], dpus: Dpus) -> Iterator[Finding]:
    """Nodes of a tenant without a host; hosts of a tenant without a node."""
    hosts = {objects.labels(node).get(dpus.host_label) or "" for node in dpus.nodes}
    for node in dpus.nodes:
        own = objects.labels(node)
        if dpus.tenant_label and (tenant := own.get(dpus.tenant_label)) and not own.get(dpus.host_label):
            yield warning("BERTH2004", objects.Object(NODES, node), tenant=tenant, label=dpus.host_label)
    for obj in tenants:
        if missing := sorted(set(objects.spec(obj).get("hosts") or ()) - hosts):
            names, it, fix = ", ".join(missing), objects.Object(TENANTS, obj), dpus.label(missing[0])
            yield warning("BERTH2005", it, label=dpus.host_label, count=len(missing), names=names, command=fix)


async def _mislabeled(cluster: Cluster) -> AsyncIterator[Finding]:
    """Namespaces that are named for one tenant and labeled for another: Pods there are placed by the label.

    Only those that no Tenant's status reports: the Tenant is suspended, missing, or not processed yet.
    """
    tenants = await cluster.listed(TENANTS)
    reported = {
        tenant["metadata"]["name"]
        for tenant in tenants
        if objects.condition(tenant, "NamespaceReady").get("reason") == "ForeignNamespace"
    }
    for namespace in await cluster.namespaces() if tenants else ():
        it, labeled = objects.Object(NAMESPACES, namespace), objects.labels(namespace).get(TENANT_LABEL)
        named = it.name.removeprefix(TENANT_NAMESPACE_PREFIX)
        if it.name != named and labeled and labeled != named and named not in reported:
            yield error("BERTH2006", it, named=named, label=TENANT_LABEL, labeled=labeled)


async def _all_well(cluster: Cluster) -> AsyncIterator[Finding]:
    if tenants := await cluster.listed(TENANTS):
        yield sound(len(tenants), "tenant", unless=Severity.warning)


CHECK = Check("tenants", (_statuses, _unconnected, _unconfined, _nodes, _mislabeled, bounded, _all_well))
