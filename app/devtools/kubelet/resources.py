"""What kubelet's device manager knows of an extended resource. Pure.

Source: pkg/kubelet/cm/devicemanager of Kubernetes 1.36.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from app.kube.names import check_qualified_name
from app.rmd.proto import plugin_pb

HEALTHY = "Healthy"
Given = dict[str, frozenset[int]]
"""Ids of devices, with their NUMA nodes as they were at the time."""


@dataclass(slots=True)
class Resource:
    """`devices` are those that the plugin listed last, by their ids; `healthy` are the ids that may be given.

    `known`: kubelet gives out its devices, or rejects the Pod. It starts Pods that ask for what it does not know.
    """

    devices: Mapping[str, plugin_pb.Device] = field(default_factory=dict)
    healthy: frozenset[str] = frozenset()
    known: bool = True

    @property
    def counts(self) -> tuple[int, int]:
        """Capacity and allocatable."""
        return len(self.devices), len(self.healthy)

    def replace(self, devices: Mapping[str, plugin_pb.Device]) -> None:
        """The plugin has listed these."""
        self.devices, self.known = devices, True
        self.healthy = frozenset(name for name, one in devices.items() if one.health == HEALTHY)

    def disconnect(self) -> None:
        """The plugin has ended: the capacity stays."""
        self.healthy = frozenset()

    def restart(self) -> None:
        """After a restart of kubelet, while no plugin has listed devices."""
        self.devices, self.healthy = {}, frozenset()

    def forget(self) -> None:
        """No plugin came back in time. The Node goes on to show the resource, with none of it."""
        self.restart()
        self.known = False


def numa_nodes(device: plugin_pb.Device) -> frozenset[int]:
    return frozenset(node.ID for node in device.topology.nodes)


def is_extended(name: str) -> bool:
    """Whether a plugin may register the name of a resource."""
    if "/" not in name or "kubernetes.io/" in name or name.startswith("requests."):
        return False
    try:
        # Quota names it like this.
        check_qualified_name(f"requests.{name}")
    except ValueError:
        return False
    return True
