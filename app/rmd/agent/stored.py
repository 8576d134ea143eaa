"""What the node agent keeps of the Pods of its node, and of the RmdWorkloads that it made. Pure projections."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from app.kube.conditions import status_of
from app.kube.names import shorten
from app.kube.owners import controller_of
from app.kube.store import Key, key_of
from app.rmd.model import NODE_LABEL
from app.rmd.pods import PodAsks, read_pod
from app.wire import JSON

_ENDED = ("Succeeded", "Failed")


@dataclass(frozen=True, slots=True)
class NodePod:
    """A Pod of the node. `identity` is what an owner reference and an RmdWorkload take from it.

    `acknowledged`: kubelet has it, and not an earlier Pod of this name. `ended`: none of its containers runs any more.
    `over` are containers that have ended and will not start again.
    """

    key: Key
    uid: str
    phase: str
    acknowledged: bool
    ended: bool
    deleting: bool
    over: frozenset[str]
    asks: PodAsks
    identity: JSON


def stored_pod(obj: JSON) -> NodePod:
    metadata, spec, status = obj["metadata"], obj["spec"], status_of(obj)
    phase = str(status.get("phase") or "")
    return NodePod(
        key=key_of(obj),
        uid=metadata["uid"],
        phase=phase,
        acknowledged="startTime" in status,
        ended=phase in _ENDED,
        deleting="deletionTimestamp" in metadata,
        over=frozenset(_over(spec, status)),
        asks=read_pod(obj),
        identity={
            "metadata": {name: metadata[name] for name in ("name", "namespace", "uid")},
            "spec": {"nodeName": spec.get("nodeName", "")},
        },
    )


def _over(spec: JSON, status: JSON) -> list[str]:
    policy = spec.get("restartPolicy", "Always")
    found = []
    for container in status.get("containerStatuses") or ():
        terminated = (container.get("state") or {}).get("terminated")
        if terminated is not None and (
            policy == "Never" or (policy == "OnFailure" and terminated.get("exitCode") == 0)
        ):
            found.append(container["name"])
    return found


@dataclass(frozen=True, slots=True)
class Made:
    """An RmdWorkload of the node agent of this node. `pod` is (name, UID) of the Pod that owns it."""

    key: Key
    uid: str
    deleting: bool
    pod: tuple[str, str]
    labels: Mapping[str, str]
    spec: JSON


def stored_made(obj: JSON) -> Made | None:
    """None of one that no Pod owns: whatever its labels say, a user made it."""
    metadata = obj["metadata"]
    owner = controller_of(metadata)
    if not owner:
        return None
    return Made(
        key=key_of(obj),
        uid=metadata["uid"],
        deleting="deletionTimestamp" in metadata,
        pod=(owner["name"], owner["uid"]) if owner.get("kind") == "Pod" else ("", ""),
        labels=dict(metadata.get("labels") or {}),
        spec=dict(obj.get("spec") or {}),
    )


def node_labels(node: str) -> dict[str, str]:
    """The label of RmdWorkloads that the agent of this node made."""
    return {NODE_LABEL: shorten(node)}
