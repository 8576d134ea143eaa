"""The three clusters of the sandbox: their names and their nodes, as the walk-through of the Workload API has them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from app.devtools.sandbox.standins.kubelet import NodeSpec
from app.placement.model import HOST_LABEL
from app.rmd.model import DEFAULT_NODES

INFRA = "icp"
EVERY_WING = "tenant1"
"""Where AppWrappers are run, with quota from a stand-in for Kueue, and hosts have cache ways and devices
to give."""
_CONTROL_PLANE = "node-role.kubernetes.io/control-plane"


@dataclass(frozen=True, slots=True)
class ClusterPlan:
    """One cluster to stand up."""

    name: str
    nodes: tuple[NodeSpec, ...]
    hosts: tuple[str, ...] = ()


def _control_plane(name: str) -> NodeSpec:
    taint = {"key": _CONTROL_PLANE, "effect": "NoSchedule"}
    return NodeSpec(name=name, labels={_CONTROL_PLANE: ""}, taints=(taint,))


def _tenant(name: str, hosts: Sequence[str]) -> ClusterPlan:
    labels = DEFAULT_NODES if name == EVERY_WING else {}
    nodes = (*(NodeSpec(name=host, labels=labels) for host in hosts), _control_plane(f"{name}-master"))
    return ClusterPlan(name, nodes, tuple(hosts))


CLUSTERS = (
    ClusterPlan(
        INFRA,
        (
            *(
                NodeSpec(name=f"dpu1-{host}", labels={HOST_LABEL: host})
                for host in ("host-a", "host-b", "host-c", "host-d")
            ),
            _control_plane("icp-master"),
        ),
    ),
    _tenant("tenant1", ("host-a", "host-b")),
    _tenant("tenant2", ("host-c", "host-d")),
)
