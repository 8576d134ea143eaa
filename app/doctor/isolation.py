"""Whether Berth is asked about what is written in tenants' namespaces, where it confines tenants."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from app.doctor.cluster import Cluster
from app.doctor.commands import patch_configuration
from app.doctor.conditions import may_hold
from app.doctor.deployed_settings import webhook_settings
from app.doctor.model import Finding, Severity
from app.doctor.objects import labels, namespace_labels
from app.doctor.remediation import again
from app.doctor.webhooks import Registered
from app.errors import ApiError
from app.kube.resources import NAMESPACES
from app.placement.model import TENANT_LABEL
from app.placement.namespaces import tenant_of
from app.placement.settings import ConfinementSettings
from app.registration.isolation import isolation_webhooks
from app.registry import reviews_of
from app.wire import JSON

_CHECK = "registrations"
_CONSEQUENCE = (
    "what others than the gateway write there is not checked: a Pod can keep Pods of all other namespaces from being "
    "scheduled"
)
_ANY: JSON = {"metadata": {"name": "tenant-any", "labels": {TENANT_LABEL: "any"}}}
_OWN_FIELDS = frozenset({"name", "rules", "namespaceSelector", "objectSelector", "matchConditions"})


async def isolation_findings(cluster: Cluster, found: Sequence[Registered]) -> list[Finding]:
    """Kinds that Berth is not asked about in any tenant's namespace, else the namespaces that it is not asked about.

    That nothing at all is checked here is said elsewhere.
    """
    checking = [one for one in found if not one.mutating]
    if not checking or not (await webhook_settings(cluster, ConfinementSettings)).confine_tenants:
        return []
    if unasked := _unasked(checking, _ANY):
        message = f"Berth is not asked about {', '.join(unasked)} in tenants' namespaces"
        return [_finding(checking[0].subject, message, _register(cluster, checking))]
    try:
        namespaces = await cluster.listed(NAMESPACES) or []
    except ApiError:
        return []  # the look at the namespaces of Pods says so
    return list(_left_out(cluster, checking, namespaces))


def _left_out(cluster: Cluster, checking: Sequence[Registered], namespaces: Sequence[JSON]) -> Iterator[Finding]:
    for namespace in namespaces:
        tenant, name = tenant_of(namespace), namespace["metadata"]["name"]
        if not tenant or name in _exempt(cluster) or not (unasked := _unasked(checking, namespace)):
            continue
        message = f"belongs to tenant {tenant}, and Berth is not asked about its {', '.join(unasked)}"
        label = f"kubectl label namespace {name} {TENANT_LABEL}={tenant}"
        command = _register(cluster, checking) if labels(namespace).get(TENANT_LABEL) else label
        yield _finding(f"Namespace {name}", message, command)


def _finding(subject: str, message: str, command: str) -> Finding:
    return Finding(_CHECK, Severity.error, subject, message, _CONSEQUENCE, command)


def _unasked(checking: Sequence[Registered], namespace: JSON) -> list[str]:
    """The kinds that no webhook without an opt-out is called for in this namespace."""
    name = namespace["metadata"]["name"]
    calling = [
        one
        for one in checking
        if one.selects_namespace(namespace_labels(namespace))
        and not one.webhook.get("objectSelector")
        and may_hold(one, namespace=name)
    ]
    return [
        plural
        for rule in reviews_of("tenants")
        for plural in rule.resources
        if not all(any(one.covers(rule.group, plural, operation) for one in calling) for operation in rule.operations)
    ]


def _register(cluster: Cluster, checking: Sequence[Registered]) -> str:
    """Has the webhooks made that are missing, and those put right that are there."""
    first = checking[0]
    if first.by_chart:
        return again(cluster, first, "webhook.args.confineTenants=true")
    shared = {field: value for field, value in first.webhook.items() if field not in _OWN_FIELDS}
    present = {one.webhook.get("name"): one for one in checking if one.name == first.name}
    operations: list[JSON] = []
    for wanted in isolation_webhooks(shared, exempt=_exempt(cluster)):
        path = "-"
        if (there := present.get(wanted["name"])) is not None:
            path = str(there.index)
            operations.append({"op": "test", "path": f"/webhooks/{path}/name", "value": wanted["name"]})
        operations.append({"op": "replace" if there else "add", "path": f"/webhooks/{path}", "value": wanted})
    return patch_configuration(first, operations)


def _exempt(cluster: Cluster) -> tuple[str, ...]:
    return tuple(dict.fromkeys(("kube-system", cluster.namespace)))
