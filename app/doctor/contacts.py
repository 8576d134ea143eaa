"""Tenants whose agents the gateway does not accept, for the check `tenants`: the condition Connected."""

from __future__ import annotations

import shlex
from collections.abc import AsyncIterator, Sequence

from app.doctor import commands, objects
from app.doctor.cluster import Cluster
from app.doctor.model import Finding, depends_on, error, info, plain
from app.tenancy import model
from app.tenancy.link import CLUSTER, Link, holder_of, link_of
from app.workloads.model import SYSTEM_NAMESPACE, TENANTS

_CUT_OFF = "its workloads and rules do not arrive; what it has here stays as it was"
_TENANT = "--kubeconfig TENANT"
"""Of a command that is for the tenant's cluster."""


async def unconnected(cluster: Cluster) -> AsyncIterator[Finding]:
    tenants = await cluster.listed(TENANTS)
    links = [(one["metadata"]["name"], link_of(one)) for one in tenants]
    for tenant, (name, link) in zip(tenants, links, strict=True):
        said, about = objects.condition(tenant, model.CONNECTED), objects.subject(TENANTS.kind, tenant)
        reason, text = said.get("reason"), f"its agent is not connected: {plain(said.get('message'))}"
        if reason == model.NO_CONTACT:
            yield info("BERTH2008", about, text, command=_apply(name))
        elif said.get("status") == "False" and reason != model.SUSPENDED:
            fix, because = _command(cluster, name, str(reason), link, links), depends_on("gateway")
            yield error("BERTH2008", about, text, _CUT_OFF, fix, because=because)


def _command(cluster: Cluster, name: str, reason: str, link: Link, links: Sequence[tuple[str, Link]]) -> str:
    match reason:
        case model.CLUSTER_TAKEN:
            return _issue(cluster, _taker(name, link, links) or "OTHER")
        case model.OTHER_CLUSTER:
            return f"{move(name)}  # where its agent has moved to another cluster for good"
        case model.AGENT_SILENT:
            return f"berth doctor --only agent {_TENANT}"
    return _issue(cluster, name)


def _taker(name: str, link: Link, links: Sequence[tuple[str, Link]]) -> str:
    """The other tenant that has the cluster: of a move or of an older version, it is noted; else it was refused."""
    clusters = (link.cluster, link.refused.cluster if link.refused else "")
    return next((holder for one in clusters if (holder := holder_of(one, links)) not in ("", name)), "")


def _issue(cluster: Cluster, name: str) -> str:
    """Gives the agent in a tenant's cluster a new certificate; its namespace is taken to be that of Berth here."""
    return f"{rotate(name, agent_namespace=cluster.namespace)} && {_apply(name)}"


def rotate(name: str, *options: str, agent_namespace: str, verb: str = "rotate") -> str:
    """Writes a bundle with a new certificate; with the verb `add` for a Tenant that is not there."""
    where = [] if agent_namespace == SYSTEM_NAMESPACE else ["--agent-namespace", agent_namespace]
    return shlex.join(["berth", "tenant", verb, name, *options, *where])


def resume(name: str) -> str:
    """Has the gateway accept the agent of a tenant that is suspended."""
    return shlex.join(["berth", "tenant", "resume", name])


def move(name: str) -> str:
    """Lets the next cluster that calls for a tenant be its cluster."""
    return commands.kubectl("annotate", objects.plural(TENANTS), name, f"{CLUSTER}-")


def _apply(name: str) -> str:
    return f"kubectl {_TENANT} apply -f {shlex.quote(f'tenant-{name}/secret.yaml')}"
