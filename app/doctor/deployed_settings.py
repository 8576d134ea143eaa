"""Reads the settings of the installed webhook and controller from the arguments and variables of their Deployments.

A value that Berth would refuse counts as not given: that Deployment does not run, and another check reports it.
"""

from __future__ import annotations

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
from app.workloads.quota import DEFAULT_QUOTA, parse_quota

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
    try:
        found = next((one for one in await installed(cluster) if one.role == "webhook"), None)
    except ApiError:
        found = None
    settings = settings_of("webhook")
    given = {} if found is None else deployed(found)
    given = {name: value for name, value in given.items() if name in _DECIDING and value != ""}
    try:
        loaded = settings.load({"namespace": cluster.namespace, **given}, environment=False)
    except UsageError:
        loaded = settings.load({"namespace": cluster.namespace}, environment=False)
    return settings_as(loaded, kind)


async def tenant_bounds(cluster: Cluster) -> tuple[Bound, ...]:
    """What the installed controller is to keep in tenants' namespaces; by default where none is found."""
    try:
        found = next((one for one in await installed(cluster) if one.role == "controller"), None)
        given = "" if found is None else flag(found.arguments, "--tenant-quota")
        if found is not None and given is None:
            given = _variables(found.object).get("BERTH_TENANT_QUOTA")
        return bounds_of(parse_quota(item.strip() for item in (given or "").split(",") if item.strip()))
    except (ApiError, ValueError):
        return bounds_of(DEFAULT_QUOTA)


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
