"""Checks that Berth is asked about all that is created in tenants' namespaces, and that no Pod there can opt out."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence

from app.doctor import commands, namespaces
from app.doctor.cluster import Cluster
from app.doctor.model import Finding, error, warning
from app.doctor.tenant_namespaces import ANY, TenantNamespace, confines_tenants, tenant_namespaces
from app.doctor.wanted import uncovered
from app.doctor.webhooks import Registered, selecting
from app.registration.objects import further_webhooks, rules_of
from app.wire import JSON

_CONFINE = "webhook.args.confineTenants=true"
_OWN_FIELDS = frozenset({"name", "rules", "namespaceSelector", "objectSelector", "matchConditions"})


async def tenants_confined(cluster: Cluster) -> AsyncIterator[Finding]:
    """Tenants' namespaces that no webhook selects.

    Where tenants are confined, also those whose Pods can opt out of every webhook that selects them.
    """
    pods = [one for one in await cluster.registered() if one.injects]
    of_tenants = await tenant_namespaces(cluster) if pods else []
    confined = bool(of_tenants) and await confines_tenants(cluster)
    hidden = [one.object for one in of_tenants if not selecting(pods, one.object)]
    for namespace in of_tenants:
        calling = selecting(pods, namespace.object)
        if not calling:
            fix = namespaces.unhide(cluster, namespace.object, pods[0], hidden)
            yield error("BERTH0506", namespace, case="confined" if confined else "", command=fix)
        elif confined and not _strict(pods, namespace.labels):
            fix = namespace.label()
            if not _strict(pods, namespace.wanted_labels):
                fix = commands.fix(cluster, calling[0], "objectSelector", {}, _CONFINE)
            yield warning("BERTH0507", namespace, command=fix)


def _strict(pods: Sequence[Registered], own: dict[str, str]) -> bool:
    """Whether a webhook without an opt-out is called for a namespace with these labels."""
    return any(
        one.selects_namespace(own) and not one.conditions and not one.webhook.get("objectSelector") for one in pods
    )


async def tenants_isolated(cluster: Cluster) -> AsyncIterator[Finding]:
    """Kinds that Berth is not asked about in any tenant's namespace, else the namespaces that it is not asked about.

    Only where Berth confines tenants. That nothing at all is checked here is another finding.
    """
    checking = [one for one in await cluster.registered() if not one.mutating]
    if not checking or not await confines_tenants(cluster):
        return
    if unasked := _unasked(checking, ANY):
        fix = _register(cluster, checking)
        yield error("BERTH0509", checking[0], case="any", unasked=", ".join(unasked), command=fix)
        return
    for one in await tenant_namespaces(cluster):
        if one.name not in (namespaces.SYSTEM, cluster.namespace) and (unasked := _unasked(checking, one)):
            fix = _register(cluster, checking) if one.is_labeled else one.label()
            yield error("BERTH0509", one, unasked=", ".join(unasked), command=fix)


def _unasked(checking: Sequence[Registered], namespace: TenantNamespace) -> list[str]:
    """The kinds that no webhook without an opt-out is called for in this namespace."""
    calling = [
        one
        for one in selecting(checking, namespace.object)
        if not one.webhook.get("objectSelector") and one.may_admit({"namespace": namespace.name})
    ]
    return list(uncovered(calling, rules_of("tenants")))


def _register(cluster: Cluster, checking: Sequence[Registered]) -> str:
    first = checking[0]
    if first.by_chart:
        return commands.again(cluster, first, _CONFINE)
    shared = {field: value for field, value in first.webhook.items() if field not in _OWN_FIELDS}
    present = {one.webhook.get("name"): one for one in checking if one.name == first.name}
    operations: list[JSON] = []
    exempt = tuple(dict.fromkeys((namespaces.SYSTEM, cluster.namespace)))
    for wanted in further_webhooks("tenants", shared, exempt=exempt):
        there = present.get(wanted["name"])
        path = f"/webhooks/{there.index if there else '-'}"
        if there:
            operations.append({"op": "test", "path": f"{path}/name", "value": wanted["name"]})
        operations.append({"op": "replace" if there else "add", "path": path, "value": wanted})
    return commands.json_patch(first.resource.plural, first.name, operations)
