"""Finds owners whose Pods the webhook denies: such Pods do not exist, so the templates of the owners are checked.

The planner that judges existing Pods also judges these.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable

from app.doctor.cluster import Cluster
from app.doctor.objects import condition
from app.doctor.owners import Owner
from app.doctor.planning import Lack, Planner
from app.errors import ApiError
from app.kube.resources import DEPLOYMENTS, JOBS, Resource
from app.wire import JSON

OWNERS = (
    DEPLOYMENTS,
    Resource("apps", "v1", "statefulsets", "StatefulSet"),
    Resource("apps", "v1", "daemonsets", "DaemonSet"),
    JOBS,
)


async def denied(
    cluster: Cluster, planner: Planner, *, asked: Callable[[JSON], bool]
) -> AsyncIterator[tuple[Owner, Lack] | ApiError]:
    """Owners with what keeps their Pods from being admitted, or why owners of a kind could not be looked at.

    `asked` says whether the webhook is called for such a Pod.
    """
    for resource in OWNERS:
        try:
            async for obj in cluster.paged(resource):
                pod = _pod(obj)
                if not asked(pod) or not _wants_pods(obj):
                    continue
                for lack in [*await planner.networks(pod), *await planner.placement(pod)]:
                    if lack.want in ("attachment", "refused"):
                        yield Owner(resource.kind, obj["metadata"]["namespace"], obj["metadata"]["name"]), lack
        except ApiError as error:
            if not error.not_found:
                yield error


def _pod(obj: JSON) -> JSON:
    """The Pod as it would be created."""
    template = (obj.get("spec") or {}).get("template") or {}
    metadata = {**(template.get("metadata") or {}), "namespace": obj["metadata"]["namespace"]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": template.get("spec") or {}}


def _wants_pods(obj: JSON) -> bool:
    """Not one that is scaled to nothing, done, suspended or on its way out."""
    spec = obj.get("spec") or {}
    done = any(condition(obj, kind).get("status") == "True" for kind in ("Complete", "Failed"))
    return not (done or spec.get("suspend") or spec.get("replicas") == 0 or obj["metadata"].get("deletionTimestamp"))
