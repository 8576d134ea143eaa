"""Tenant objects."""

from __future__ import annotations

from typing import Any

from app.workloads.model import TENANTS


def tenant(name: str = "tenant1", /, **spec: Any) -> dict[str, Any]:
    """A Tenant object; without `identity`, one of the usual name."""
    identity = {"names": [f"{name}.tenant.local"]}
    return {
        "apiVersion": TENANTS.api_version,
        "kind": TENANTS.kind,
        "metadata": {"name": name},
        "spec": {"identity": identity, **spec},
    }
