"""One tenant as `berth tenant show` shows it: what its Tenant object says, and what the infra cluster has of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from app.kube.client import KubeClient
from app.placement.model import PlacementOptions
from app.tenancy.model import link_of
from app.tenancy.tenants.changes import existing_tenant
from app.tenancy.tenants.contents import Dpu, contents_of, counted, dpus_of
from app.tenancy.tenants.namespace import Present, read_namespace
from app.text import moment
from app.wire import JSON
from app.workloads.model import tenant_namespace


@dataclass(frozen=True, slots=True)
class Pin:
    """A certificate that is accepted; `days` are the whole days that are left, None where `until` is not given."""

    sha256: str
    until: str
    days: int | None


@dataclass(frozen=True, slots=True)
class Summary:
    """A Tenant object and what belongs to it; `namespace` is None where it does not exist."""

    tenant: JSON
    cluster: str
    pins: tuple[Pin, ...]
    dpus: tuple[Dpu, ...]
    namespace: Present | None
    counts: Mapping[str, int]


async def summarize(client: KubeClient, name: str, *, placement: PlacementOptions, now: datetime) -> Summary:
    """Raises UsageError where there is no such tenant."""
    tenant = await existing_tenant(client, name)
    spec = tenant["spec"]
    pins = spec["identity"].get("certificates") or ()
    return Summary(
        tenant,
        link_of(tenant).cluster,
        tuple(_pin(pin, now) for pin in pins),
        tuple(await dpus_of(client, name, spec.get("hosts") or (), placement=placement)),
        await read_namespace(client, name),
        await contents_of(client, name),
    )


async def suspension(client: KubeClient, name: str) -> list[str]:
    """What follows where the tenant is suspended, one line each; [] where it is suspended already."""
    tenant = await existing_tenant(client, name)
    if tenant["spec"].get("suspended"):
        return []
    counts = counted(await contents_of(client, name))
    return [
        f"the gateway ends the streams of tenant {name} and refuses every call of its agent",
        f"namespace {tenant_namespace(name)} stays as it is and its Pods run on: {counts}",
        f"changes in the tenant's cluster do not arrive until berth tenant resume {name}",
    ]


def _pin(pin: JSON, now: datetime) -> Pin:
    end = moment(pin.get("until"))
    return Pin(pin["sha256"], pin.get("until") or "", None if end is None else (end - now).days)
