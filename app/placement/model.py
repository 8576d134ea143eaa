"""The names that placement goes by, the values that its planner takes, and what the cloud admin allows tenants' Pods.

A policy has names by kind, such as priority classes, beyond what every tenant may do. Nothing is allowed by default.
All roles of an infra cluster need the same list.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal, get_args

import msgspec

from app.kinds.shapes import fields_of
from app.kube.names import check_dns_subdomain
from app.wire import JSON

Allowance = Literal["csiDriver", "deviceClass", "priorityClass", "runtimeClass", "scheduler", "volumeType"]
"""Kinds of names: CSI drivers of inline volumes, DeviceClasses, PriorityClasses, RuntimeClasses, schedulers, and types
of volumes as the Pod API spells them (`nfs`, `ephemeral`)."""
ALLOWANCES: Final[tuple[str, ...]] = get_args(Allowance)
SYSTEM_PRIORITY = "system-"
OWN_VOLUMES: Final = frozenset(
    {"configMap", "downwardAPI", "emptyDir", "image", "persistentVolumeClaim", "projected", "secret"}
)
"""Types of volumes that every tenant's Pods may have."""
_NEVER = {"hostPath": "files of the host", "csi": "inline CSI volumes as a whole: name drivers with csiDriver"}
DEFAULT_SCHEDULER = "default-scheduler"
HOST_LABEL = "provisioning.dpu.nvidia.com/host"
"""Label on an infra node (a DPU), by DPF: the name of the host that it sits in. --host-label names another."""
TENANT_LABEL = "berth.dev/tenant"
"""Label on a tenant's namespace and DPUs in the infra cluster, by the controller: the tenant whose they are.

--tenant-node-label names another for the DPUs.
"""
TENANT_NAMESPACE_PREFIX = "tenant-"
"""Prefix of the names of tenants' namespaces in the infra cluster; other namespaces must not have it."""
OF_TENANT_BY_NAME = f"request.namespace.startsWith('{TENANT_NAMESPACE_PREFIX}')"
"""CEL of a match condition: the object is in a namespace that is named as a tenant's, whatever labels that has."""
DPU_OF_HOST = "berth.dev/dpu-of-host"
"""Annotation on a Pod, by its author: it must run on a DPU of this host."""


@dataclass(frozen=True, slots=True)
class TenantPolicy:
    """The entries `KIND=NAME` that hold."""

    entries: frozenset[str] = frozenset()

    def allows(self, kind: Allowance, name: object) -> bool:
        return f"{kind}={name}" in self.entries

    def advice(self, kind: Allowance, *, whole: str = "it") -> str:
        """What a tenant should write in place of a name that is not allowed.

        `whole` is what can be left out, where the API requires the field itself.
        """
        names = sorted(entry.partition("=")[2] for entry in self.entries if entry.startswith(f"{kind}="))
        advice = f"use {' or '.join(names)}, or leave {whole} out" if names else f"leave {whole} out"
        return f"{advice} (the cloud admin allows more with --tenant-allow {kind}=NAME)"


def parse_policy(entries: Iterable[str]) -> TenantPolicy:
    """Raise ValueError for an entry that is not `KIND=NAME`, has no effect, or would take a wall away."""
    return TenantPolicy(frozenset(map(_checked, entries)))


def volume_types() -> list[str]:
    """Types of volumes that can be allowed."""
    return sorted(fields_of("Volume").keys() - {"name"} - OWN_VOLUMES - _NEVER.keys())


def tenant_of(obj: JSON) -> str:
    """The tenant of a Namespace, "" for a namespace of no tenant.

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


def _checked(entry: str) -> str:
    kind, equals, name = entry.partition("=")
    if not equals or kind not in ALLOWANCES:
        raise ValueError(f"{entry!r}: want KIND=NAME, with KIND one of {', '.join(ALLOWANCES)}")
    if (kind == "volumeType" and name in OWN_VOLUMES) or (kind == "scheduler" and name == DEFAULT_SCHEDULER):
        raise ValueError(f"{entry!r}: every tenant's Pods may have it; leave it out")
    if kind == "volumeType":
        if name in _NEVER:
            raise ValueError(f"{entry!r}: tenants cannot be allowed {_NEVER[name]}")
        if name not in volume_types():
            types = ", ".join(volume_types())
            raise ValueError(
                f"{entry!r}: {name!r} is not a type of volume that tenants can be allowed, want one of {types}"
            )
        return entry
    try:
        check_dns_subdomain(name)
    except ValueError as error:
        raise ValueError(f"{entry!r}: {error}") from error
    if kind == "priorityClass" and name.startswith(SYSTEM_PRIORITY):
        raise ValueError(f"{entry!r}: classes that begin with {SYSTEM_PRIORITY} are for the Pods of the cluster itself")
    return entry
