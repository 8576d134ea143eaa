"""Whether the roles of an infra cluster allow tenants the same (--tenant-allow), and what every Pod of theirs needs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from app.doctor.cluster import Cluster
from app.doctor.commands import helm_upgrade
from app.doctor.deployed_settings import deployed, webhook_settings
from app.doctor.installed import COMPONENT, Installed
from app.doctor.model import Finding, Severity
from app.doctor.objects import kubectl, plain
from app.doctor.remediation import retake
from app.doctor.running import unchecked
from app.errors import ApiError
from app.kube.resources import PRIORITY_CLASSES
from app.placement.settings import ConfinementSettings
from app.registry import ROLES, settings_of
from app.settings.source import comma_list
from app.wire import encode_json

_CHECK = "deployments"
_ROLES = tuple(role.name for role in ROLES if "tenant_allow" in settings_of(role.name).model_fields)


def unlike(cluster: Cluster, found: Sequence[Installed]) -> Iterator[Finding]:
    """One finding where the lists of the roles differ; their order does not count."""
    lists = {one.role: _allowed(one) for one in found if one.role in _ROLES}
    if len(set(lists.values())) < 2:
        return
    by_list: dict[str, list[str]] = {}
    for role, allowed in lists.items():
        by_list.setdefault(allowed, []).append(role)
    parts = "; ".join(f"{', '.join(roles)}: {allowed or 'nothing'}" for allowed, roles in by_list.items())
    yield Finding(
        _CHECK,
        Severity.warning,
        "roles",
        f"allow tenants different things by --tenant-allow ({plain(parts)})",
        "what one role accepts, another refuses: a tenant's rule is taken, and its companions are denied",
        _command(cluster, [one for one in found if one.role in _ROLES]),
    )


async def unlisted_default(cluster: Cluster, found: Sequence[Installed]) -> list[Finding]:
    """The PriorityClass that the API server gives to every Pod without one, where tenants' Pods may not have it."""
    roles = [one for one in found if one.role in _ROLES]
    settings = await webhook_settings(cluster, ConfinementSettings)
    if not settings.confine_tenants or not any(one.role == "webhook" for one in roles):
        return []
    try:
        classes = await cluster.listed(PRIORITY_CLASSES) or []
    except ApiError as error:
        return [unchecked(_CHECK, error)]
    name = next((one["metadata"]["name"] for one in classes if one.get("globalDefault")), None)
    if name is None or settings.placement.policy.allows("priorityClass", name):
        return []
    message = f"is the default of the cluster (globalDefault), and --tenant-allow does not have priorityClass={name}"
    consequence = "the API server gives it to every Pod without a class: all new Pods of tenants are refused"
    command = _allow(cluster, roles, settings.tenant_allow, name)
    return [Finding(_CHECK, Severity.error, f"PriorityClass {name}", message, consequence, command)]


def _allow(cluster: Cluster, roles: Sequence[Installed], allowed: Sequence[str], name: str) -> str:
    """Has all roles allow the class beside what the webhook allows."""
    wanted = sorted({*allowed, f"priorityClass={name}"})
    if any(one.by_chart for one in roles):
        classes = ",".join(entry.partition("=")[2] for entry in wanted if entry.startswith("priorityClass="))
        return helm_upgrade(cluster, f"placement.tenantAllow.priorityClass={{{classes}}}")
    return " && ".join(_set(one, ",".join(wanted)) for one in roles)


def _allowed(one: Installed) -> str:
    entries = comma_list(deployed(one).get("tenant_allow", ""))
    return ",".join(sorted(set(entries))) if isinstance(entries, tuple) else ""


def _command(cluster: Cluster, roles: Sequence[Installed]) -> str:
    """The chart has one list for all. Elsewhere that of the webhook counts, which every other role's Pods must pass."""
    charted = next((one for one in roles if one.by_chart), None)
    if charted is not None:
        return retake(cluster, charted.object, f"{COMPONENT} in ({','.join(_ROLES)})")
    model = next((one for one in roles if one.role == "webhook"), roles[0])
    wanted = _allowed(model)
    return " && ".join(_set(one, wanted) for one in roles if _allowed(one) != wanted)


def _set(one: Installed, wanted: str) -> str:
    """The last of several flags counts."""
    operation = {"op": "add", "path": f"{one.words_path}/-", "value": f"--tenant-allow={wanted}"}
    patch = encode_json([operation]).decode()
    return kubectl("patch", "deployment", one.name, "--type=json", "--patch", patch, namespace=one.namespace)
