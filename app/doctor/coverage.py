"""What registrations leave out: tenants' namespaces, Pods that ask for something, and kinds that Berth checks.

In tenants' namespaces no kind and no Pod may be left out. Of matchConditions the evaluator of CEL says whether they let
made-up Pods through; it supports a part of the language, and a finding says what it cannot decide.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence

from app.cel.literals import literal
from app.cel.matchconditions import ConditionFailed
from app.doctor import commands, namespaces, objects
from app.doctor.cluster import Cluster
from app.doctor.model import Finding, error, info, or_default, warning
from app.doctor.namespaces import ANY, TenantNamespace, confines_tenants, tenant_namespaces
from app.doctor.webhooks import Registered, selecting, uncovered
from app.kube.resources import CUSTOM_RESOURCE_DEFINITIONS
from app.registration import further_webhooks, rules_of
from app.registry import WINGS, asked_of_pods, webhooks_of
from app.wire import JSON
from app.wiring import resolve

_CONFINE = "webhook.args.confineTenants=true"
_OWN_FIELDS = frozenset({"name", "rules", "namespaceSelector", "objectSelector", "matchConditions"})


async def tenants_confined(cluster: Cluster) -> AsyncIterator[Finding]:
    """Tenants' namespaces that no webhook selects.

    Where tenants are confined, also those whose Pods can opt out of every webhook that selects them.
    """
    pods = [webhook for webhook in await cluster.registered() if webhook.injects]
    of_tenants = await tenant_namespaces(cluster) if pods else []
    confined = bool(of_tenants) and await confines_tenants(cluster)
    hidden = [namespace.object for namespace in of_tenants if not selecting(pods, namespace.object)]
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
        webhook.selects_namespace(own) and not webhook.conditions and not webhook.webhook.get("objectSelector")
        for webhook in pods
    )


async def tenants_isolated(cluster: Cluster) -> AsyncIterator[Finding]:
    """Kinds that Berth is not asked about in any tenant's namespace, else the namespaces that it is not asked about.

    Only where Berth confines tenants. That nothing at all is checked here is another finding.
    """
    checking = [webhook for webhook in await cluster.registered() if not webhook.mutating]
    if not checking or not await confines_tenants(cluster):
        return
    if unasked := _unasked(checking, ANY):
        fix = _register(cluster, checking)
        yield error("BERTH0509", checking[0], case="any", unasked=", ".join(unasked), command=fix)
        return
    for namespace in await tenant_namespaces(cluster):
        if namespace.name not in (namespaces.SYSTEM, cluster.namespace) and (unasked := _unasked(checking, namespace)):
            fix = _register(cluster, checking) if namespace.is_labeled else namespace.label()
            yield error("BERTH0509", namespace, unasked=", ".join(unasked), command=fix)


def _unasked(checking: Sequence[Registered], namespace: TenantNamespace) -> list[str]:
    """The kinds that no webhook without an opt-out is called for in this namespace."""
    calling = [
        webhook
        for webhook in selecting(checking, namespace.object)
        if not webhook.webhook.get("objectSelector") and webhook.may_admit({"namespace": namespace.name})
    ]
    return list(uncovered(calling, rules_of("tenants")))


def _register(cluster: Cluster, checking: Sequence[Registered]) -> str:
    first = checking[0]
    if first.by_chart:
        return commands.again(cluster, first, _CONFINE)
    shared = {field: value for field, value in first.webhook.items() if field not in _OWN_FIELDS}
    present = {webhook.webhook.get("name"): webhook for webhook in checking if webhook.name == first.name}
    operations: list[JSON] = []
    exempt = tuple(dict.fromkeys((namespaces.SYSTEM, cluster.namespace)))
    for entry in further_webhooks("tenants", shared, exempt=exempt):
        registered = present.get(entry["name"])
        path = f"/webhooks/{registered.index if registered else '-'}"
        if registered:
            operations.append({"op": "test", "path": f"{path}/name", "value": entry["name"]})
        operations.append({"op": "replace" if registered else "add", "path": path, "value": entry})
    return commands.json_patch(first.resource.plural, first.name, operations)


_Key = tuple[str, str]
"""An annotation or a label of a Pod: `annotations` or `labels`, and the key."""


async def left_out(cluster: Cluster) -> AsyncIterator[Finding]:
    """Annotations and labels by which Pods ask, and that no webhook is called for."""
    anywhere = {objects.NAME_LABEL: "default"}
    called = [
        webhook for webhook in await cluster.registered() if webhook.injects and webhook.selects_namespace(anywhere)
    ]
    if not called or any(not webhook.conditions for webhook in called):
        return
    labels = await _labels(cluster)
    keys = [("annotations", key) for key in asked_of_pods() if isinstance(key, str)]
    unknown: dict[str, str] = {}
    missing = [
        key for key in (*keys, *(("labels", label) for label in labels)) if not _any_admits(called, key, unknown)
    ]
    first, of_labels = called[0], f"webhook.injectionLabels={{{','.join(labels)}}}"
    # All missing keys at once: of separate commands the last would undo the rest.
    wider = [_wider(first.conditions, missing)]
    command = commands.fix(
        cluster,
        first,
        "matchConditions",
        wider,
        *([of_labels] if any(place == "labels" for place, _ in missing) else []),
    )
    for place, key in missing:
        what = f"annotation {key}" if place == "annotations" else f"label {key} of {labels[key].subject}"
        yield error("BERTH0510", first, what=what, command=command)
    for subject, why in unknown.items():
        yield info("BERTH0511", subject, why=why)


async def _labels(cluster: Cluster) -> dict[str, objects.Object]:
    """The labels by which Pods ask for something of a wing, each with the object that says so."""
    labels: dict[str, objects.Object] = {}
    for wing in (wing for wing in WINGS if wing.labels):
        read: Callable[[Cluster], Awaitable[dict[str, objects.Object]]] = resolve(wing.labels)
        labels |= await or_default(read(cluster), {})
    return labels


def _any_admits(called: Sequence[Registered], key: _Key, unknown: dict[str, str]) -> bool:
    """Whether one is called, or may be; why that is not known goes to `unknown`."""
    may_be = False
    for webhook in called:
        try:
            if webhook.admits({"namespace": "default", key[0]: {key[1]: "true"}}):
                return True
        except ConditionFailed as failure:
            unknown.setdefault(webhook.subject, str(failure))
            may_be = True
    return may_be


def _wider(conditions: Sequence[JSON], missing: Sequence[_Key]) -> JSON:
    """All conditions as one, or else any of the keys."""
    all_of = " && ".join(f"({condition['expression']})" for condition in conditions)
    any_of = [f"(has(object.metadata.{place}) && {literal(key)} in object.metadata.{place})" for place, key in missing]
    expression = " || ".join([f"({all_of})", *any_of])
    return {"name": conditions[0].get("name") or "asks-for-injection", "expression": expression}


async def unasked_kinds(cluster: Cluster) -> AsyncIterator[Finding]:
    """Kinds that this cluster has, that Berth checks, and that no release of it is asked about."""
    validating = [webhook for webhook in await cluster.registered() if not webhook.mutating]
    asked = [webhook for webhook in await cluster.of_all_releases() if not webhook.mutating]
    defined = await or_default(cluster.listed(CUSTOM_RESOURCE_DEFINITIONS), [])
    names = {definition["metadata"]["name"] for definition in defined}
    present = {webhook.webhook.get("name") for webhook in validating}
    for ours in webhooks_of("attachments", "objects") if validating else ():
        values = [] if f"{ours.name}.berth.dev" in present else [f"{ours.when}=true"]
        for rule in rules_of(ours.kind):
            plurals = [plural for plural in rule["resources"] if f"{plural}.{rule['apiGroups'][0]}" in names]
            for plural, operations in uncovered(asked, [rule | {"resources": plurals}]).items():
                fix = commands.fix(cluster, validating[0], "rules/-", rule | {"resources": [plural]}, *values)
                unasked = " and ".join(operations)
                yield warning("BERTH0512", validating[0], operations=unasked, plural=plural, command=fix)
