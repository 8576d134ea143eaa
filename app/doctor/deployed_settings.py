"""Reads the settings of the installed webhook and controller from the arguments and variables of their Deployments.

A value that Berth would refuse counts as not given: that Deployment does not run, and another check reports it.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import get_origin

from app.doctor.arguments import flag
from app.doctor.cluster import Cluster
from app.doctor.installed import Installed, installed
from app.errors import ApiError, UsageError
from app.registry import settings_of
from app.settings.flags import flag_names, flags_of, parsed_type
from app.settings.source import S, comma_list, settings_as
from app.tenancy.controller.bounds import Bound, bounds_of
from app.wire import JSON
from app.workloads.settings import QuotaSettings

_DECIDING = (
    "network_resource_name_keys",
    "existing_resources",
    "node_selector_conflict",
    "default_network_namespace",
    "host_label",
    "tenant_node_label",
    "tenant_allow",
    "inject_hugepage_down_api",
    "honor_resources",
    "confine_tenants",
)
"""The settings that decide about Pods."""
_FALSE = frozenset({"0", "f", "false", "no", "off"})


async def webhook_settings(cluster: Cluster, kind: type[S]) -> S:
    """The settings of a wing that decide about Pods; the defaults where no webhook is found or it may not be read."""
    return await _settings(cluster, "webhook", _DECIDING, kind)


async def tenant_bounds(cluster: Cluster) -> tuple[Bound, ...]:
    """What the installed controller is to keep in tenants' namespaces; by default where none is found."""
    return bounds_of((await _settings(cluster, "controller", ("tenant_quota",), QuotaSettings)).quota)


async def _settings(cluster: Cluster, role: str, fields: Collection[str], kind: type[S]) -> S:
    """These fields as they are deployed; the defaults where the role is not found, not readable or does not run."""
    try:
        found = next((one for one in await installed(cluster) if one.role == role), None)
    except ApiError:
        found = None
    settings, given = settings_of(role), {} if found is None else deployed(found)
    given = {name: value for name, value in given.items() if name in fields and value != ""}
    try:
        loaded = settings.load({"namespace": cluster.namespace, **given}, environment=False)
    except UsageError:
        loaded = settings.load({"namespace": cluster.namespace}, environment=False)
    return settings_as(loaded, kind)


def deployed(one: Installed) -> dict[str, object]:
    """The settings that flags, else environment variables, of the container give, by field."""
    settings = settings_of(one.role)
    variables = _variables(one.object)
    given: dict[str, object] = {}
    for field, known in flags_of(settings).items():
        info = settings.model_fields[field]
        kind = parsed_type(info, known)
        value = flag(one.arguments, flag_names(field, known)[0], switch=kind is bool)
        value = variables.get(f"BERTH_{field.upper()}") if value is None else value
        if value is not None:
            given[field] = value.lower() not in _FALSE if kind is bool else value
            if get_origin(info.annotation) is tuple:
                given[field] = comma_list(value)
    return given


def _variables(deployment: JSON) -> dict[str, str]:
    containers = deployment["spec"]["template"]["spec"].get("containers") or []
    return {
        entry["name"]: str(entry["value"])
        for container in containers
        for entry in container.get("env") or []
        if entry.get("value")
    }
