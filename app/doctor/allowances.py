"""Whether the roles of an infra cluster allow tenants the same (--tenant-allow)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from app.doctor.cluster import Cluster
from app.doctor.installed import COMPONENT, Installed
from app.doctor.mending import retake
from app.doctor.model import Finding, Severity
from app.doctor.objects import kubectl, plain
from app.doctor.told import told
from app.settings.source import comma_list
from app.wire import encode_json

_CHECK = "deployments"
_ROLES = ("webhook", "controller", "gateway")


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


def _allowed(one: Installed) -> str:
    entries = comma_list(told(one).get("tenant_allow", ""))
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
