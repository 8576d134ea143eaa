"""What the node agent reads of the API server: the Pods of its node, the daemon among them, and its RmdWorkloads."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from app.kube.conditions import status_of
from app.kube.kit import Kit, Wakes, itself
from app.kube.names import shorten
from app.kube.resources import PODS, controller_of
from app.kube.store import Head, Key, Store, head_of
from app.rmd.model import DAEMON_LABEL, DAEMON_VALUE, NODE_LABEL, RMD_WORKLOADS
from app.rmd.pods import PodAsks, read_pod
from app.rmd.stored import DaemonPod, stored_daemon
from app.wire import JSON

_ENDED = ("Succeeded", "Failed")


class NodeCaches:
    """Daemons are in `namespace`."""

    def __init__(self, kit: Kit, *, node: str, namespace: str) -> None:
        on_node = f"spec.nodeName={node}"
        (label,) = node_labels(node).items()
        self.pods = kit.cache(PODS, stored_pod, fields=on_node)
        self.made = kit.cache(
            RMD_WORKLOADS,
            stored_made,
            indices={"pod": lambda made: ("/".join(_pod_of(made)),)},
            labels="=".join(label),
        )
        self._daemons: Store[DaemonPod] = kit.cache(
            PODS,
            stored_daemon,
            namespace=namespace,
            labels=f"{DAEMON_LABEL}={DAEMON_VALUE}",
            fields=on_node,
            called="RmdDaemonPod",
        )

    def wakes(self) -> Mapping[Store[Any], Wakes]:
        """Which Pod a change wakes."""
        return {
            self.pods: itself,
            self.made: lambda _key, old, new: [_pod_of(made) for made in (old, new) if made],
        }

    def keys(self) -> set[Key]:
        """The Pods of the node, and those that have RmdWorkloads."""
        return {*self.pods.keys(), *(_pod_of(made) for made in self.made.values())}

    def made_of(self, pod: Key) -> list[Made]:
        """The RmdWorkloads of Pods of this name."""
        return self.made.by_index("pod", "/".join(pod))

    def daemon(self) -> DaemonPod | None:
        daemons = (daemon for daemon in self._daemons.values() if daemon.usable)
        return min(daemons, key=lambda daemon: (not daemon.url, daemon.key), default=None)


def _pod_of(made: Made) -> Key:
    return made.key[0], made.pod[0]


@dataclass(frozen=True, slots=True)
class NodePod(Head):
    """A Pod of the node. `identity` is what an owner reference and an RmdWorkload take from it.

    `acknowledged`: kubelet has it, and not an earlier Pod of this name. `ended`: none of its containers runs any more.
    `over` are containers that have ended and will not start again.
    """

    phase: str
    acknowledged: bool
    ended: bool
    over: frozenset[str]
    asks: PodAsks
    identity: JSON


def stored_pod(obj: JSON) -> NodePod:
    metadata, spec, status = obj["metadata"], obj["spec"], status_of(obj)
    phase = str(status.get("phase") or "")
    return NodePod(
        *head_of(obj),
        phase=phase,
        acknowledged="startTime" in status,
        ended=phase in _ENDED,
        over=frozenset(_over(spec, status)),
        asks=read_pod(obj),
        identity={
            "metadata": {name: metadata[name] for name in ("name", "namespace", "uid")},
            "spec": {"nodeName": spec.get("nodeName", "")},
        },
    )


def _over(spec: JSON, status: JSON) -> list[str]:
    policy = spec.get("restartPolicy", "Always")
    names = []
    for container in status.get("containerStatuses") or ():
        terminated = (container.get("state") or {}).get("terminated")
        if terminated is not None and (
            policy == "Never" or (policy == "OnFailure" and terminated.get("exitCode") == 0)
        ):
            names.append(container["name"])
    return names


@dataclass(frozen=True, slots=True)
class Made(Head):
    """An RmdWorkload of the node agent of this node. `pod` is (name, UID) of the Pod that owns it."""

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
        *head_of(obj),
        pod=(owner["name"], owner["uid"]) if owner.get("kind") == "Pod" else ("", ""),
        labels=dict(metadata.get("labels") or {}),
        spec=dict(obj.get("spec") or {}),
    )


def node_labels(node: str) -> dict[str, str]:
    """The label of RmdWorkloads that the agent of this node made."""
    return {NODE_LABEL: shorten(node)}
