"""A tenant's Pod as the message that the gateway is sent of it: the projection of the Pod cache.

Pure. What is kept of a Pod is its UID and the encoded message, as it is sent: a cluster's worth of them stays small.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from app.tenancy.messages import workload_message
from app.tenancy.proto import workload_pb
from app.wire import JSON

_FINISHED = ("Succeeded", "Failed")


@dataclass(frozen=True, slots=True)
class PodView:
    """`id` is the UID of the Pod, `message` the encoded request that updates its Workload."""

    id: str
    message: bytes


def project_pod(obj: JSON, *, keep_finished: bool) -> PodView | None:
    """None for a Pod that counts as gone: deleting, or finished unless `keep_finished`. ValueError without a UID."""
    metadata, status = obj["metadata"], obj.get("status") or {}
    if metadata.get("deletionTimestamp"):
        return None
    if status.get("phase") in _FINISHED and not keep_finished:
        return None
    uid = metadata.get("uid")
    if not isinstance(uid, str) or not uid:
        raise ValueError("a Pod without metadata.uid")
    spec = {
        "metadata": {
            "id": uid,
            "resourceName": metadata["name"],
            "resourceNamespace": metadata.get("namespace"),
        },
        "state": {
            "nodeName": (obj.get("spec") or {}).get("nodeName"),
            "ready": _ready(status.get("conditions")),
            "extra": {"labels": metadata.get("labels"), "annotations": metadata.get("annotations")},
        },
    }
    request = workload_pb.WorkloadStreamRequest(update=workload_message(spec))
    return PodView(uid, request.SerializeToString(deterministic=True))


def _ready(conditions: Any) -> bool:
    return any(each.get("type") == "Ready" and each.get("status") == "True" for each in conditions or ())
