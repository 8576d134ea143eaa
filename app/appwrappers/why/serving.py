"""What Kueue serves: the version of its kinds, the Workloads of an AppWrapper, and what its Events say of these."""

from __future__ import annotations

from functools import partial

from app.appwrappers.kueue import model as kueue
from app.doctor.catalog import plain
from app.doctor.cluster import Cluster
from app.doctor.objects import Object, seen_at
from app.errors import ApiError
from app.kube.resources import EVENTS, Resource
from app.why.model import Asking, Unread, get, listed, or_else, read
from app.wire import JSON

Versions = tuple[tuple[Resource, Resource], ...]
_VERSIONS: Versions = ((kueue.LOCAL_QUEUES, kueue.WORKLOADS), (kueue.LOCAL_QUEUES_V1BETA1, kueue.WORKLOADS_V1BETA1))
"""LocalQueues and Workloads as a Kueue may serve them, the newest first."""


def served(it: Object) -> Asking[Versions]:
    """The version of Kueue's kinds to ask in; all where that is not known, or files may have either."""
    versions = yield from read(partial(_served_version, namespace=it.namespace), key="version of Kueue")
    return versions if it.json["metadata"].get("uid") else tuple(dict.fromkeys((*versions, *_VERSIONS)))


async def _served_version(cluster: Cluster, *, namespace: str) -> Versions:
    """By a request in one namespace, where rights may end."""
    try:
        await cluster.client.list_page(kueue.LOCAL_QUEUES, namespace=namespace, limit=1)
    except ApiError as refusal:
        return _VERSIONS[1:] if refusal.not_found else _VERSIONS
    return _VERSIONS[:1]


def having(versions: Versions, queue: str, namespace: str) -> Asking[Versions | None]:
    """The version that has a LocalQueue; none where there is no such queue, None where that may not be read."""
    try:
        for version in versions:
            if (yield from get(version[0], queue, namespace)) is not None:
                return (version,)
    except Unread:
        return None
    return ()


def unread_queue(queue: str, namespace: str) -> str:
    """The clause about a LocalQueue that may not be read."""
    return f"whether LocalQueue {queue} exists in {namespace} could not be read"


def workloads_of(it: Object, versions: Versions) -> Asking[list[Object]]:
    """Those that an AppWrapper owns, in the first version that has some."""
    for _, workloads in versions:
        if owned := (yield from listed(workloads, it.namespace, owner=str(it.json["metadata"]["uid"]))):
            return owned
    return []


def told_of_workload(it: Object) -> Asking[str]:
    """What Kueue said last of the Workload of an AppWrapper, for those who may read Events and no Workloads."""
    key = "Events of Workloads", it.namespace
    events = yield from or_else(read(partial(_events_of_workloads, namespace=it.namespace), key=key), [])
    # Kueue names Workloads by kind, name and five characters.
    prefix = f"{it.resource.kind.lower()}-{it.name}-"
    messages = [event.get("message") for event in events if _about(event).rpartition("-")[0] == prefix[:-1]]
    return plain(messages[-1] or "") if messages else ""


async def _events_of_workloads(cluster: Cluster, *, namespace: str) -> list[JSON]:
    """The oldest first."""
    selector = f"involvedObject.kind={kueue.WORKLOADS.kind}"
    events = [event async for event in cluster.paged(EVENTS, namespace=namespace, field_selector=selector)]
    return sorted(events, key=seen_at)


def _about(event: JSON) -> str:
    return str((event.get("involvedObject") or {}).get("name") or "")
