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
    namespace, candidates = cluster.namespace or None, list[tuple[str, str]]()
    try:
        deployments = await cluster.listed(DEPLOYMENTS, namespace=namespace, label_selector=_OURS)
        if not deployments:
            deployments = list(filter(read_deployment, await cluster.listed(DEPLOYMENTS, namespace=namespace)))
        homes = [
            (deployment["metadata"].get("namespace"), labels(deployment).get(INSTANCE)) for deployment in deployments
        ]
        candidates = [(home, release or cluster.release) for home, release in homes if home]
        if not candidates:
            left = await cluster.listed(MUTATING_WEBHOOKS, label_selector=_OURS)
            calling = [
                Registered(MUTATING_WEBHOOKS, configuration, 0, (configuration.get("webhooks") or [{}])[0])
                for configuration in left
            ]
            candidates = [(webhook.home, webhook.release) for webhook in calling if webhook.home and webhook.release]
    except ApiError as error:
        if not error.status:
            raise
        # The checks meet the same refusal, and report it.
    candidates = [candidate for candidate in candidates if namespace in (None, candidate[0])]
    first = next(iter(candidates), (namespace or _FALLBACK, cluster.release))
    cluster.namespace, cluster.release = next(
        (candidate for candidate in candidates if candidate[1] == cluster.release), first
    )
