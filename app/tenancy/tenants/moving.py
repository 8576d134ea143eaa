"""Moves a cluster from one Tenant to another, for an agent that gets another tenant's bundle for good."""

from __future__ import annotations

import asyncio
from datetime import datetime

from app.errors import UsageError
from app.kube.client import KubeClient
from app.kube.retry import until_no_conflict
from app.tenancy.link import CLUSTER, MOVED, holder_of, link_of
from app.tenancy.tenants.changes import list_tenants
from app.text import stamp
from app.workloads.model import TENANTS

_ATTEMPTS = 5


async def cluster_to_move(client: KubeClient, source: str, target: str) -> str:
    """The cluster of `source`, or "" where `target` has it already. Raises UsageError where it cannot be moved."""
    links = {item["metadata"]["name"]: link_of(item) for item in await list_tenants(client)}
    if source == target or source not in links:
        problem = "that is the tenant itself" if source == target else f"there is no tenant {source}"
        raise UsageError(f"--move: {problem}; want the tenant that has the cluster now")
    cluster = links[source].cluster
    if not cluster:
        raise UsageError(
            f"--move: no cluster is noted on tenant {source}. Leave --move out: tenant {target} gets the cluster "
            "of the first agent that calls"
        )
    holder = holder_of(cluster, links.items())
    if holder not in (source, target):
        raise UsageError(f"--move: the cluster of tenant {source} belongs to tenant {holder}: --move {holder}")
    noted = links[target].cluster if target in links else ""
    if noted not in ("", cluster) and holder_of(noted, links.items()) == target:
        raise UsageError(
            f"--move: tenant {target} has cluster {noted}, and a tenant has one. If that one is gone for good: "
            f"kubectl annotate tenant {target} {CLUSTER}-"
        )
    return "" if holder == target else cluster


async def move_cluster(client: KubeClient, cluster: str, *, source: str, target: str, now: datetime) -> list[str]:
    """Note the cluster on `target`, as taken over now; the lines say what follows. Safe to repeat.

    The note on `source` stays: the gateway removes by it what agents of `source` have written of the cluster.
    """
    if not cluster:
        return [f"tenant {target} has the cluster of tenant {source} already"]

    async def attempt() -> None:
        found = await client.get(TENANTS, target)
        patch = {"metadata": {"annotations": {CLUSTER: cluster, MOVED: stamp(now)}}}
        version = found["metadata"]["resourceVersion"]
        await client.patch(TENANTS, target, patch, patch_type="merge", version=version)

    await until_no_conflict(attempt, sleep=asyncio.sleep, attempts=_ATTEMPTS)
    refused = f"the gateway refuses agents of tenant {source} there"
    otherwise = f"until its agent in another cluster removes them or you do: berth tenant remove {source}"
    return [
        f"cluster {cluster} belongs to tenant {target} from now on: {refused}",
        f"workloads of tenant {source} are removed when the agent of tenant {target} has sent its own",
        f"rules and UVS objects of tenant {source} and their Pods stay, {otherwise}",
    ]
