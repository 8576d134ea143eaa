"""What the controller keeps of RmdWorkloads, Pods of daemons, nodes, and the RmdConfig. Pure projections."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from app.kube.conditions import status_of
from app.kube.resources import controller_of
from app.kube.store import Head, Identity, Key, head_of, identity_of, key_of
from app.numbers import whole_or
from app.rmd.model import CONFIG_NAME, DEFAULT_NODES, FINALIZER, PLAIN_PORT, TEMPLATE_HASH, TLS_PORT
from app.rmd.requests import Read, read_spec
from app.wire import JSON


@dataclass(frozen=True, slots=True)
class Workload(Head):
    """An RmdWorkload. `states` are its reservations by node, `pod` is (name, UID) of the Pod that it is made for."""

    version: str
    generation: int
    created: str
    finalizers: tuple[str, ...]
    read: Read
    status: JSON
    pod: tuple[str, str] | None

    @property
    def finalized(self) -> bool:
        return FINALIZER in self.finalizers

    @property
    def states(self) -> Mapping[str, JSON]:
        states = self.status.get("workloadStates")
        pairs = states.items() if isinstance(states, dict) else ()
        return {node: state if isinstance(state, dict) else {} for node, state in pairs}


def stored_workload(obj: JSON) -> Workload:
    metadata = obj["metadata"]
    owner = controller_of(metadata)
    return Workload(
        *head_of(obj),
        version=metadata["resourceVersion"],
        generation=metadata.get("generation", 0),
        created=metadata.get("creationTimestamp", ""),
        finalizers=tuple(metadata.get("finalizers") or ()),
        read=read_spec(obj.get("spec") or {}),
        status=status_of(obj),
        pod=(owner["name"], owner["uid"]) if owner.get("kind") == "Pod" else None,
    )


@dataclass(frozen=True, slots=True)
class DaemonPod:
    """A Pod with a daemon. `url` is "" until it has an address."""

    key: Key
    node: str
    url: str
    usable: bool


def stored_daemon(obj: JSON) -> DaemonPod | None:
    """None where it is on no node yet. The daemon is the first container, its API the first port of that."""
    spec, status = obj.get("spec") or {}, status_of(obj)
    if not spec.get("nodeName"):
        return None
    address = status.get("podIP") or next((entry.get("ip") for entry in status.get("podIPs") or ()), "") or ""
    ports = (spec.get("containers") or [{}])[0].get("ports") or [{}]
    port = whole_or(ports[0].get("containerPort"), 0) or PLAIN_PORT
    scheme = "https" if port == TLS_PORT or ports[0].get("name") == "https" else "http"
    host = f"[{address}]" if ":" in address else address
    gone = status.get("phase") in ("Succeeded", "Failed") or "deletionTimestamp" in obj["metadata"]
    return DaemonPod(key_of(obj), spec["nodeName"], f"{scheme}://{host}:{port}" if address else "", not gone)


@dataclass(frozen=True, slots=True)
class Node:
    uid: str
    labels: Mapping[str, str]


def stored_node(obj: JSON) -> Node:
    return Node(obj["metadata"]["uid"], dict(obj["metadata"].get("labels") or {}))


@dataclass(frozen=True, slots=True)
class Config(Identity):
    """The RmdConfig. `selector` are the labels of nodes with daemons; `agent`: whether the node agent runs there."""

    generation: int
    selector: Mapping[str, str]
    image: str
    agent: bool
    status: JSON


def stored_config(obj: JSON) -> Config | None:
    """None of an object with another name, and of one that is being deleted."""
    metadata, spec = obj["metadata"], obj.get("spec") or {}
    if metadata["name"] != CONFIG_NAME or "deletionTimestamp" in metadata:
        return None
    return Config(
        *identity_of(obj),
        generation=metadata.get("generation", 0),
        selector=dict(spec.get("rmdNodeSelector") or DEFAULT_NODES),
        image=str(spec.get("rmdImage") or ""),
        agent=bool(spec.get("deployNodeAgent")),
        status=status_of(obj),
    )


@dataclass(frozen=True, slots=True)
class DaemonSet(Identity):
    """`owner` is the UID of its controller, `applied` the hash of what was applied."""

    owner: str
    applied: str
    selector: Mapping[str, str]


def stored_daemon_set(obj: JSON) -> DaemonSet:
    metadata = obj["metadata"]
    return DaemonSet(
        *identity_of(obj),
        owner=controller_of(metadata).get("uid", ""),
        applied=(metadata.get("annotations") or {}).get(TEMPLATE_HASH, ""),
        selector=dict(obj["spec"]["template"]["spec"].get("nodeSelector") or {}),
    )


@dataclass(frozen=True, slots=True)
class NodeState(Identity):
    generation: int
    owner: str
    node: str
    node_uid: str
    status: JSON


def stored_node_state(obj: JSON) -> NodeState:
    metadata = obj["metadata"]
    return NodeState(
        *identity_of(obj),
        generation=metadata.get("generation", 0),
        owner=controller_of(metadata).get("uid", ""),
        node=str((obj.get("spec") or {}).get("node") or ""),
        node_uid=str((obj.get("spec") or {}).get("nodeUid") or ""),
        status=status_of(obj),
    )
