"""What is noted on a Tenant of its agent: its cluster, the last call that was accepted, the last one refused. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

from app.text import moment
from app.wire import JSON

CLUSTER = "berth.dev/cluster"
"""Annotation on a Tenant, by the gateway: the cluster of its agent at first sight; calls from another are refused."""
MOVED = "berth.dev/cluster-moved"
"""Annotation on a Tenant, by `berth tenant add --move`: when it took its cluster over from another Tenant."""
CONTACT_SECONDS = 60.0
"""How often the gateway notes on a Tenant that its agent is connected."""


@dataclass(frozen=True, slots=True)
class Refused:
    """The last call of a tenant that was refused: a reason of the condition Connected, and the gateway's answer.

    `cluster` is the one that the call named, where that is why.
    """

    at: datetime
    reason: str
    message: str
    cluster: str = ""


@dataclass(frozen=True, slots=True)
class Link:
    """What is noted on a Tenant of its agent.

    `cluster` is the one it was first seen in ("": none yet), `moved` when it took that over from another Tenant.
    `contact` is the last call that was accepted.
    """

    cluster: str = ""
    moved: datetime | None = None
    contact: datetime | None = None
    refused: Refused | None = None
    created: str = ""


def link_of(obj: JSON) -> Link:
    """What is noted of the agent of a Tenant object. What cannot be read counts as absent."""
    metadata, status = obj["metadata"], obj.get("status")
    annotations = metadata.get("annotations")
    annotations = annotations if isinstance(annotations, dict) else {}
    status = status if isinstance(status, dict) else {}
    cluster, refusal = annotations.get(CLUSTER), status.get("lastRefusal")
    refused = None
    if isinstance(refusal, dict) and (at := moment(refusal.get("time"))):
        texts = (str(refusal.get(name) or "") for name in ("reason", "message", "cluster"))
        refused = Refused(at, *texts)
    return Link(
        cluster=cluster if isinstance(cluster, str) else "",
        moved=moment(annotations.get(MOVED)),
        contact=moment(status.get("lastContact")),
        refused=refused,
        created=str(metadata.get("creationTimestamp") or ""),
    )


def holder_of(cluster: str, noted: Iterable[tuple[str, Link]]) -> str:
    """Which of these Tenants, by name, has the cluster; "" where it is noted on none.

    The one that took it over last; where none did, the one that was created first. An older version of Berth noted one
    cluster on several Tenants.
    """
    if not cluster:
        return ""
    found = [(name, link) for name, link in noted if link.cluster == cluster]
    moved = [(link.moved, name) for name, link in found if link.moved is not None]
    if moved:
        return max(moved)[1]
    return min(((link.created, name) for name, link in found), default=("", ""))[1]
