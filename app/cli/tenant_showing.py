"""How `berth tenant list` shows Tenants: a table, or the objects in the forms that kubectl has. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import yaml

from app.tenancy.model import tenant_state
from app.wire import JSON, encode_json
from app.workloads.model import TENANTS, tenant_namespace

Form = Literal["table", "json", "yaml", "name"]

_SHOWN_DIGITS = 12


def render_tenants(tenants: Sequence[JSON], form: Form) -> str:
    """Text without a newline at its end."""
    match form:
        case "json":
            return encode_json(_listed(tenants)).decode()
        case "yaml":
            return yaml.safe_dump(_listed(tenants), sort_keys=False, allow_unicode=True).rstrip("\n")
        case "name":
            return "\n".join(f"tenant.{TENANTS.group}/{tenant['metadata']['name']}" for tenant in tenants)
        case "table":
            return _table([("NAME", "NAMESPACE", "HOSTS", "CERTIFICATES", "STATE"), *map(_row, tenants)])


def _listed(tenants: Sequence[JSON]) -> JSON:
    return {"apiVersion": "v1", "kind": "List", "items": [_shown(tenant) for tenant in tenants]}


def _shown(tenant: JSON) -> JSON:
    """As kubectl shows objects: without the owners of fields."""
    metadata = {name: value for name, value in tenant["metadata"].items() if name != "managedFields"}
    return {**tenant, "metadata": metadata}


def _row(tenant: JSON) -> tuple[str, ...]:
    name, spec = tenant["metadata"]["name"], tenant.get("spec") or {}
    identity = spec.get("identity") or {}
    hosts = spec.get("hosts")
    pins = [_pin(pin) for pin in identity.get("certificates") or ()]
    return (
        name,
        tenant_namespace(name),
        "<any>" if hosts is None else ",".join(hosts) or "<none>",
        ", ".join(pins) or f"by name: {','.join(identity.get('names') or ())}",
        _state(tenant),
    )


def _pin(pin: JSON) -> str:
    return f"{pin['sha256'][:_SHOWN_DIGITS]} until {pin.get('until') or 'it expires'}"


def _state(tenant: JSON) -> str:
    state = tenant_state(tenant)
    return f"error: {tenant['status'].get('message') or 'unknown'}" if state == "error" else state


def _table(rows: Sequence[Sequence[str]]) -> str:
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    lines = ("   ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) for row in rows)
    return "\n".join(line.rstrip() for line in lines)
