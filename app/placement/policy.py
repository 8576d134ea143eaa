"""What the cloud admin allows tenants' Pods beyond what every tenant may do: names by kind, such as priority classes.

Nothing is allowed by default. All roles of an infra cluster need the same list.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, Literal, get_args

from app.kinds.tables import fields_of
from app.kube.names import check_dns_subdomain

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
