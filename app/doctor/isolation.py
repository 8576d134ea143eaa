"""Checks that Berth is asked about all that needs it: in tenants' namespaces, and by the matchConditions.

These are evaluated for made-up Pods by the sandbox's evaluator of CEL. It supports a part of the language, and a
finding says what it cannot decide.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence

from app.cel.matchconditions import ConditionFailed
from app.doctor import commands, namespaces, networks, objects
from app.doctor.cluster import Cluster
from app.doctor.model import Finding, error, info, or_default, warning
from app.doctor.tenant_namespaces import ANY, TenantNamespace, confines_tenants, tenant_namespaces
from app.doctor.wanted import uncovered
from app.doctor.webhooks import Registered, selecting
from app.registration.objects import further_webhooks, rules_of
from app.registry import asked_of_pods
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


_Key = tuple[str, str]
"""An annotation or a label of a Pod: `annotations` or `labels`, and the key."""


async def left_out(cluster: Cluster) -> AsyncIterator[Finding]:
    """Annotations by which Pods ask, and labels of the control switches, that no webhook is called for."""
    anywhere = {objects.NAME_LABEL: "default"}
    called = [one for one in await cluster.registered() if one.injects and one.selects_namespace(anywhere)]
    if not called or any(not one.conditions for one in called):
        return
    labels = await or_default(networks.injected_labels(cluster), [])
    keys = [("annotations", one) for one in asked_of_pods() if isinstance(one, str)]
    unknown: dict[str, str] = {}
    missing = [key for key in (*keys, *(("labels", one) for one in labels)) if not _any_admits(called, key, unknown)]
    one, of_labels = called[0], f"webhook.injectionLabels={{{','.join(labels)}}}"
    # All missing keys at once: of separate commands the last would undo the rest.
    wider = [_wider(one.conditions, missing)]
    command = commands.fix(
        cluster, one, "matchConditions", wider, *([of_labels] if any(place == "labels" for place, _ in missing) else [])
    )
    for place, key in missing:
        what = (
            f"annotation {key}" if place == "annotations" else f"label {key} of {networks.config_map(cluster).subject}"
        )
        yield error("BERTH0510", one, what=what, command=command)
    for subject, why in unknown.items():
        yield info("BERTH0511", subject, why=why)


def _any_admits(called: Sequence[Registered], key: _Key, unknown: dict[str, str]) -> bool:
    """Whether one is called, or may be; why that is not known goes to `unknown`."""
    may_be = False
    for one in called:
        try:
            if one.admits({"namespace": "default", key[0]: {key[1]: "true"}}):
                return True
        except ConditionFailed as failure:
            unknown.setdefault(one.subject, str(failure))
            may_be = True
    return may_be


def _wider(conditions: Sequence[JSON], missing: Sequence[_Key]) -> JSON:
    """All conditions as one, or else any of the keys."""
    all_of = " && ".join(f"({condition['expression']})" for condition in conditions)
    any_of = [f"(has(object.metadata.{place}) && '{key}' in object.metadata.{place})" for place, key in missing]
    expression = " || ".join([f"({all_of})", *any_of])
    return {"name": conditions[0].get("name") or "asks-for-injection", "expression": expression}
