"""Tenant objects, and their controller."""

from __future__ import annotations

from typing import Any

from app.kube.client import KubeClient
from app.kube.events import EventRecorder
from app.kube.kit import Kit
from app.tenancy.controller.controller import keep_tenants
from app.workloads.model import TENANTS


def tenant(name: str = "tenant1", /, **spec: Any) -> dict[str, Any]:
    """A Tenant object; without `identity`, one of the usual name."""
    identity = {"names": [f"{name}.tenant.local"]}
    return TENANTS.body({"name": name}, spec={"identity": identity, **spec})


def tenants_kit(
    client: KubeClient, *, events: EventRecorder | None = None, resync: float = 600.0, **arguments: Any
) -> Kit:
    """The controller of tenants; the rest is as of `keep_tenants`."""
    kit = Kit(client, events=events, resync=resync)
    keep_tenants(kit, **arguments)
    return kit
