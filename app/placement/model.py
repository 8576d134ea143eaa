"""The names that placement goes by, and the values that its planner takes."""

from __future__ import annotations

from dataclasses import dataclass

HOST_LABEL = "provisioning.dpu.nvidia.com/host"
"""On an infra node (a DPU): the name of the host that it sits in, as DPF labels it."""

TENANT_LABEL = "berth.dev/tenant"
"""On a namespace of the infra cluster: the tenant whose it is. By default the same key marks the tenant's DPUs."""

DPU_OF_HOST = "berth.dev/dpu-of-host"
"""Annotation on a Pod: it must run on a DPU of this host."""


@dataclass(frozen=True, slots=True)
class PlacementOptions:
    """Which node labels carry the facts. An empty `tenant_node_label` turns confinement off."""

    host_label: str = HOST_LABEL
    tenant_node_label: str = TENANT_LABEL


@dataclass(frozen=True, slots=True)
class Requirement:
    """The node must carry the label `key` with this value."""

    key: str
    value: str
