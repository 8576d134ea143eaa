"""Tenants whose agents the gateway does not accept, for the check `tenants`: the condition Connected."""

from __future__ import annotations

import shlex
from collections.abc import AsyncIterator, Sequence
from typing import Any

from app.doctor import commands, objects
from app.doctor.cluster import Cluster
from app.doctor.model import Finding, depends_on, error, info
from app.tenancy import model
from app.tenancy.link import CLUSTER, Link, holder_of, link_of
from app.workloads.model import SYSTEM_NAMESPACE, TENANTS


async def unconnected(cluster: Cluster) -> AsyncIterator[Finding]:
    tenants = await cluster.listed(TENANTS)
    links = [(one["metadata"]["name"], link_of(one)) for one in tenants]
    for tenant, (name, link) in zip(tenants, links, strict=True):
        said, it = objects.condition(tenant, model.CONNECTED), objects.Object(TENANTS, tenant)
        reason = str(said.get("reason"))
        issued = (_taker(name, link, links) or "OTHER") if reason == model.CLUSTER_TAKEN else name
        issue = rotate(issued, agent_namespace=cluster.namespace)
        values: dict[str, Any] = {"said": said.get("message"), "issued": issued, "issue": issue, "move": move(name)}
        if reason == model.NO_CONTACT:
            yield info("BERTH2008", it, case=reason, **values)
        elif said.get("status") == "False" and reason != model.SUSPENDED:
            yield error("BERTH2008", it, case=reason, **values, because=depends_on("gateway"))


def _taker(name: str, link: Link, links: Sequence[tuple[str, Link]]) -> str:
    """The other tenant that has the cluster: of a move or of an older version, it is noted; else it was refused."""
    clusters = (link.cluster, link.refused.cluster if link.refused else "")
    return next((holder for one in clusters if (holder := holder_of(one, links)) not in ("", name)), "")


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
