"""Finds the namespace and the release of Berth, where the user did not say them."""

from __future__ import annotations

from app.doctor.cluster import Cluster
from app.doctor.installed import read_deployment
from app.doctor.objects import INSTANCE, PART_OF, labels
from app.doctor.webhooks import Registered
from app.errors import ApiError
from app.kube.resources import DEPLOYMENTS, MUTATING_WEBHOOKS

_FALLBACK = "berth-system"
"""Where nothing of Berth is found; what the documents install into."""
_OURS = f"{PART_OF}=berth"


async def locate(cluster: Cluster) -> None:
    """Set namespace and release to those of the assumed release, else to those of any Deployment that runs Berth.

    Where the cluster has a namespace already, only that one counts.

    Commands that upgrade name the release that is there, whatever was assumed. Where nothing runs any more, the
    registrations that were left say both. Raises ApiError where the API server does not answer at all.
    """
    namespace, found = cluster.namespace or None, list[tuple[str, str]]()
    try:
        deployments = await cluster.listed(DEPLOYMENTS, namespace=namespace, label_selector=_OURS)
        if not deployments:
            deployments = list(filter(read_deployment, await cluster.listed(DEPLOYMENTS, namespace=namespace)))
        homes = [(one["metadata"].get("namespace"), labels(one).get(INSTANCE)) for one in deployments]
        found = [(home, release or cluster.release) for home, release in homes if home]
        if not found:
            left = await cluster.listed(MUTATING_WEBHOOKS, label_selector=_OURS)
            calling = [Registered(MUTATING_WEBHOOKS, one, 0, (one.get("webhooks") or [{}])[0]) for one in left]
            found = [(one.home, one.release) for one in calling if one.home and one.release]
    except ApiError as error:
        if not error.status:
            raise
        # The checks meet the same refusal, and report it.
    found = [one for one in found if namespace in (None, one[0])]
    first = next(iter(found), (namespace or _FALLBACK, cluster.release))
    cluster.namespace, cluster.release = next((one for one in found if one[1] == cluster.release), first)
