"""Check `tenants`: tenants that are not served, or not as wanted, and nodes that no tenant's workloads will find."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from app.doctor.belonging import mislabeled
from app.doctor.bounds import bound_findings
from app.doctor.cluster import Cluster
from app.doctor.commands import restart
from app.doctor.deployed_settings import webhook_settings
from app.doctor.installed import Installed, installed
from app.doctor.model import Finding, Severity
from app.doctor.objects import condition, kubectl, labels, plain, plural, several, status, subject, unchanged, unseen
from app.doctor.running import unchecked
from app.errors import ApiError
from app.kube.resources import NAMESPACES, NODES
from app.placement.model import TENANT_LABEL, PlacementOptions
from app.placement.settings import PlacementSettings
from app.wire import JSON
from app.workloads.model import TENANTS, tenant_namespace

PATIENCE = 120.0
"""Seconds in which the controller may take notice of a tenant."""


@dataclass(frozen=True, slots=True)
class Tenants:
    name: str = "tenants"

    async def run(self, cluster: Cluster) -> list[Finding]:
        tenants = await cluster.listed(TENANTS)
        if not tenants:
            return []
        findings: list[Finding] = []
        for tenant in tenants:
            findings += judge(self.name, tenant)
            if unseen(tenant) and unchanged(tenant, cluster.now()) > PATIENCE:
                findings.append(await self._unseen(cluster, tenant))
        try:
            nodes = await cluster.listed(NODES) or []
        except ApiError as error:
            findings.append(unchecked(self.name, error))
        else:
            options = (await webhook_settings(cluster, PlacementSettings)).placement
            findings += judge_nodes(self.name, tenants, nodes, options)
        try:
            findings += mislabeled(self.name, await cluster.listed(NAMESPACES) or [], tenants)
            findings += await bound_findings(cluster, self.name, tenants, command=await self._restart(cluster))
        except ApiError as error:
            findings.append(unchecked(self.name, error))
        if all(finding.severity <= Severity.info for finding in findings):
            findings.append(
                Finding(self.name, Severity.ok, "", f"{several(len(tenants), 'tenant')} and their nodes are well")
            )
        return findings

    async def _unseen(self, cluster: Cluster, tenant: JSON) -> Finding:
        running = await _controller(cluster)
        return Finding(
            self.name,
            Severity.error,
            subject(TENANTS.kind, tenant),
            "changed, and no controller has looked at it"
            + ("" if running else f": none was found in namespace {cluster.namespace}"),
            "its namespace, its nodes and its certificates are not kept as the Tenant says",
            await self._restart(cluster),
        )

    async def _restart(self, cluster: Cluster) -> str:
        if running := await _controller(cluster):
            return restart(running.namespace, running.name)
        return kubectl("get", "deployments", "--all-namespaces", "--selector", "app.kubernetes.io/component=controller")


async def _controller(cluster: Cluster) -> Installed | None:
    try:
        return next((one for one in await installed(cluster) if one.role == "controller"), None)
    except ApiError:
        return None


def judge(check: str, tenant: JSON) -> Iterator[Finding]:
    """What a Tenant and its status say against it."""
    name, about = tenant["metadata"]["name"], subject(TENANTS.kind, tenant)
    ready = condition(tenant, "Ready")
    if ready.get("status") == "False" or status(tenant).get("result") == "error":
        reason = str(ready.get("reason") or "NotReady")
        text = plain(f"is not ready ({reason}): {ready.get('message') or status(tenant).get('message') or ''}")
        yield Finding(check, Severity.error, about, text, _consequence(reason), _command(name, reason))
    if (tenant.get("spec") or {}).get("suspended"):
        yield Finding(
            check,
            Severity.info,
            about,
            "is suspended",
            "the gateway turns its agents away; its companions stay as they are",
            kubectl("patch", plural(TENANTS), name, "--type=merge", "--patch", '{"spec":{"suspended":false}}'),
        )


def judge_nodes(
    check: str, tenants: Sequence[JSON], nodes: Iterable[JSON], options: PlacementOptions
) -> Iterator[Finding]:
    """Nodes of a tenant without a host; hosts of a tenant without a node."""
    host_label, tenant_label = options.host_label, options.tenant_node_label
    hosts: set[str] = set()
    for node in nodes:
        own = labels(node)
        host, tenant = own.get(host_label) or "", own.get(tenant_label) or "" if tenant_label else ""
        hosts.add(host)
        if tenant and not host:
            name = node["metadata"]["name"]
            yield Finding(
                check,
                Severity.warning,
                f"Node {name}",
                f"is a DPU of tenant {tenant}, but its label {host_label} does not say of which host",
                "companions of the workloads of that host stay Pending",
                f'{kubectl("label", "node", name)} {host_label}="$HOST"  # HOST: the node in the tenant\'s cluster',
            )
    for tenant_obj in tenants:
        missing = sorted(set((tenant_obj.get("spec") or {}).get("hosts") or ()) - hosts)
        if missing:
            label = shlex.quote(f"{host_label}={missing[0]}")
            yield Finding(
                check,
                Severity.warning,
                subject(TENANTS.kind, tenant_obj),
                f"no node has label {host_label} for its {several(len(missing), 'host')} {plain(', '.join(missing))}",
                "companions of the workloads of these hosts stay Pending",
                f'{kubectl("label", "node")} "$DPU" {label}  # DPU: the node in that host',
            )


def _consequence(reason: str) -> str:
    match reason:
        case "Invalid" | "IdentityShared":
            return "the gateway turns its agents away: it cannot tell whose they are"
        case "CertificatesExpired":
            return "the gateway turns its agents away"
        case "HostTaken":
            return "DPUs of the host keep the tenant that they have: companions may run at the wrong tenant's"
    return "its rules and workloads are refused, or have no companions"


def _command(name: str, reason: str) -> str:
    namespace = tenant_namespace(name)
    match reason:
        case "CertificatesExpired":
            return f"berth tenant rotate {name}"
        case "ForeignNamespace":
            return kubectl("label", "namespace", namespace, f"{TENANT_LABEL}={name}", "--overwrite")
        case "NamespaceEnding" | "NamespaceRefused":
            return kubectl("describe", "namespace", namespace)
        case "QuotaPending" | "ForeignResourceQuota":
            return kubectl("describe", "resourcequota", namespace=namespace)
    return kubectl("edit", plural(TENANTS), name)
