"""The names that placement goes by, and the values that its planner takes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec

from app.placement.policy import TenantPolicy
from app.wire import JSON

HOST_LABEL = "provisioning.dpu.nvidia.com/host"
"""Label on an infra node (a DPU), by DPF: the name of the host that it sits in. --host-label names another."""

TENANT_LABEL = "berth.dev/tenant"
"""Label on a tenant's namespace and DPUs in the infra cluster, by the controller: the tenant whose they are.

--tenant-node-label names another for the DPUs.
"""

TENANT_NAMESPACE_PREFIX = "tenant-"
"""Prefix of the names of tenants' namespaces in the infra cluster; other namespaces must not have it."""

DPU_OF_HOST = "berth.dev/dpu-of-host"
"""Annotation on a Pod, by its author: it must run on a DPU of this host."""


def tenant_of(obj: JSON) -> str:
    """What the cache keeps of a Namespace: its tenant, "" for a namespace of no tenant.

    Without the label, the `tenant-` prefix of the name decides.
    """
    labels = obj["metadata"].get("labels")
    labeled = labels.get(TENANT_LABEL) if isinstance(labels, dict) else None
    if labeled:
        return str(labeled)
    name = str(obj["metadata"].get("name") or "")
    return name.removeprefix(TENANT_NAMESPACE_PREFIX) if name.startswith(TENANT_NAMESPACE_PREFIX) else ""


@dataclass(frozen=True, slots=True)
class PlacementOptions:
    """Which node labels carry the facts. An empty `tenant_node_label` turns confinement off.

    `policy` is what tenants' Pods may ask for beyond what every tenant may.
    """

    host_label: str = HOST_LABEL
    tenant_node_label: str = TENANT_LABEL
    policy: TenantPolicy = field(default_factory=TenantPolicy)


@dataclass(frozen=True, slots=True)
class Requirement:
    """The node must carry the label `key` with this value."""

    key: str
    value: str


class Expression(msgspec.Struct, frozen=True):
    """One condition of a node selector term."""

    key: str | None = None
    operator: str | None = None
    values: list[str | None] | None = None


class Term(msgspec.Struct, frozen=True, rename="camel"):
    """One alternative of a node selector: all of it must hold. A term without any condition matches no node."""

    match_expressions: list[Expression] | None = None
    match_fields: list[Any] | None = None

    @property
    def empty(self) -> bool:
        return not self.match_expressions and not self.match_fields


class NodeSelector(msgspec.Struct, frozen=True, rename="camel"):
    node_selector_terms: list[Term | None] | None = None


class NodeAffinity(msgspec.Struct, frozen=True, rename="camel"):
    """What a node must fulfill; preferred terms are not read."""

    required_during_scheduling_ignored_during_execution: NodeSelector | None = None


class Affinity(msgspec.Struct, frozen=True, rename="camel"):
    node_affinity: NodeAffinity | None = None


class PodSpec(msgspec.Struct, frozen=True, rename="camel"):
    """The part of a Pod's spec that decides where it may run; null stands for absent, as in the API."""

    node_name: str | None = None
    node_selector: dict[str, str | None] | None = None
    affinity: Affinity | None = None

    @property
    def required(self) -> NodeSelector | None:
        """The required node affinity, None where there is none."""
        node_affinity = self.affinity.node_affinity if self.affinity else None
        return node_affinity.required_during_scheduling_ignored_during_execution if node_affinity else None

    @property
    def terms(self) -> Sequence[Term]:
        """The terms of the required node affinity; a null one is an empty one."""
        required = self.required
        return [term or _EMPTY for term in required.node_selector_terms or ()] if required else ()


_EMPTY = Term()
