"""Checks which namespaces the webhooks are called for: all tenants' ones, and none that must be left out."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence

from app.admission.pods import INJECT
from app.doctor import commands, objects
from app.doctor.cluster import Cluster
from app.doctor.conditions import may_hold
from app.doctor.model import Finding, error, info, listed, warning
from app.doctor.webhooks import Registered
from app.kube.resources import NAMESPACES
from app.kube.selectors import label_selector_from_json
from app.placement.model import TENANT_LABEL, tenant_of
from app.placement.settings import ConfinementSettings
from app.registration.objects import isolation_webhooks
from app.registry import reviews_of
from app.wire import JSON

_SYSTEM = "kube-system"
_CONFINE = "webhook.args.confineTenants=true"
_ANY: JSON = {"metadata": {"name": "tenant-any", "labels": {TENANT_LABEL: "any"}}}
_OWN_FIELDS = frozenset({"name", "rules", "namespaceSelector", "objectSelector", "matchConditions"})


async def exempt(cluster: Cluster) -> AsyncIterator[Finding]:
    """Webhooks called for the namespace in which Berth's own Pods are, where its Service is, or for the system's."""
    pods = [one for one in await cluster.registered() if one.injects]
    for one in pods:
        if missing := [name for name in _exempt(one) if one.selects_namespace({objects.NAME_LABEL: name})]:
            text = f"does not leave out namespace {' and '.join(missing)}"
            selector = _exempting(one, one.webhook.get("namespaceSelector") or _whole(one, pods))
            command = commands.fix(cluster, one, "namespaceSelector", selector)
            if one.fails_closed:
                follows = "no Pod can be created there, Berth's own among them: the cluster cannot heal itself"
                yield error(one.subject, text, f"while Berth is away {follows}", command)
            else:
                follows = "each Pod of the system waits for Berth, and for its timeout while Berth is away"
                yield warning(one.subject, text, follows, command)


def _exempt(one: Registered) -> list[str]:
    return list(dict.fromkeys([_SYSTEM, *([one.service[0]] if one.service else [])]))


def _exempting(one: Registered, selector: JSON) -> JSON:
    """The selector, made to leave out what must be left out; what it leaves out by name already stays so."""
    expressions = selector.get("matchExpressions") or []
    names = [name for expression in expressions if _leaves_out_by_name(expression) for name in expression["values"]]
    wanted = {"key": objects.NAME_LABEL, "operator": "NotIn", "values": list(dict.fromkeys([*names, *_exempt(one)]))}
    others = [expression for expression in expressions if not _leaves_out_by_name(expression)]
    return {**selector, "matchExpressions": [*others, wanted]}


def _whole(one: Registered, pods: Sequence[Registered]) -> JSON:
    """The selector for a webhook whose selector was emptied, without names of namespaces.

    It leaves out namespaces that opted out, and tenants' namespaces if another webhook is for these alone.
    """
    expressions = [{"key": INJECT, "operator": "NotIn", "values": ["false"]}]
    plain, tenants = {objects.NAME_LABEL: "default"}, {objects.NAME_LABEL: "default", TENANT_LABEL: "any"}
    if any(pod.selects_namespace(tenants) and not pod.selects_namespace(plain) for pod in pods if pod != one):
        expressions.append({"key": TENANT_LABEL, "operator": "DoesNotExist"})
    return {"matchExpressions": expressions}


def _leaves_out_by_name(expression: JSON) -> bool:
    return expression.get("key") == objects.NAME_LABEL and expression.get("operator") == "NotIn"


async def tenants_confined(cluster: Cluster) -> AsyncIterator[Finding]:
    """Tenants' namespaces that no webhook selects.

    Where tenants are confined, also those whose Pods can opt out of every webhook that selects them.
    """
    pods = [one for one in await cluster.registered() if one.injects]
    of_tenants = [one for one in await cluster.listed(NAMESPACES) if tenant_of(one)] if pods else []
    confined = any(one.deployed.get("confine_tenants") for one in await cluster.running("webhook"))
    hidden = [one for one in of_tenants if not _selecting(pods, one)]
    for namespace in of_tenants:
        tenant, subject = tenant_of(namespace), f"Namespace {namespace['metadata']['name']}"
        calling = _selecting(pods, namespace)
        if not calling:
            text = f"belongs to tenant {tenant}, and no webhook is called for its Pods"
            follows = "they get nothing injected" + (", and are not kept on the tenant's nodes" if confined else "")
            yield error(subject, text, follows, _unhide(cluster, namespace, pods[0], hidden))
        elif confined and not _strict(pods, objects.namespace_labels(namespace)):
            text = f"belongs to tenant {tenant}, and its Pods can opt out of every webhook that is called for them"
            command = _label(namespace)
            if not _strict(pods, {**objects.namespace_labels(namespace), TENANT_LABEL: tenant}):
                command = commands.fix(cluster, calling[0], "objectSelector", {}, values=(_CONFINE,))
            yield warning(subject, text, "a Pod that opts out runs on any tenant's nodes", command)


def _selecting(webhooks: Sequence[Registered], namespace: JSON) -> list[Registered]:
    own = objects.namespace_labels(namespace)
    return [one for one in webhooks if one.selects_namespace(own)]


def _strict(pods: Sequence[Registered], own: dict[str, str]) -> bool:
    """Whether a webhook without an opt-out is called for a namespace with these labels."""
    return any(
        one.selects_namespace(own) and not one.conditions and not one.webhook.get("objectSelector") for one in pods
    )


def _label(namespace: JSON) -> str:
    name = namespace["metadata"]["name"]
    return commands.kubectl("label", "namespace", name, f"{TENANT_LABEL}={tenant_of(namespace)}")


def _unhide(cluster: Cluster, namespace: JSON, one: Registered, hidden: Sequence[JSON]) -> str:
    """The command that has the selector match the namespace.

    It also adds the other namespaces of `hidden`: of separate commands the last would overwrite the rest.
    """
    if objects.labels(namespace).get(INJECT) == "false":
        return commands.kubectl("label", "namespace", namespace["metadata"]["name"], f"{INJECT}-")
    selector = one.webhook.get("namespaceSelector") or {}
    for other in hidden:
        if objects.labels(other).get(INJECT) != "false":
            selector = _admitting(selector, other)
    wanted = _exempting(one, selector)
    names = [name for name in wanted["matchExpressions"][-1]["values"] if name not in _exempt(one)]
    # What was edited away by hand must not become the release's value.
    values = () if commands.edited(one.configuration) else (f"webhook.exemptNamespaces={{{','.join(names)}}}",)
    return commands.fix(cluster, one, "namespaceSelector", wanted, values=values)


def _admitting(selector: JSON, namespace: JSON) -> JSON:
    """What of the selector lets the namespace through."""
    own = objects.namespace_labels(namespace)
    expressions = []
    for expression in selector.get("matchExpressions") or []:
        if _leaves_out_by_name(expression):
            names = [name for name in expression["values"] if name != own[objects.NAME_LABEL]]
            expressions += [{**expression, "values": names}] if names else []
        elif label_selector_from_json({"matchExpressions": [expression]}).matches(own):
            expressions.append(expression)
    matching = {key: value for key, value in (selector.get("matchLabels") or {}).items() if own.get(key) == value}
    return {"matchExpressions": expressions} | ({"matchLabels": matching} if matching else {})


async def who_opted_out(cluster: Cluster) -> AsyncIterator[Finding]:
    """Namespaces with the label that opts out. A webhook for tenants' namespaces may be called there all the same."""
    pods = [one for one in await cluster.registered() if one.injects]
    namespaces = await cluster.listed(NAMESPACES) if pods else []
    out = [namespace for namespace in namespaces if (objects.labels(namespace).get(INJECT) or "").lower() == "false"]
    called = [one for one in out if _selecting(pods, one)]
    for some, follows in (
        ([one for one in out if one not in called], "nothing is injected there"),
        (called, "a webhook is called there all the same: the Pods of a tenant stay confined to the tenant's nodes"),
    ):
        if names := sorted(namespace["metadata"]["name"] for namespace in some):
            command = commands.kubectl("label", "namespace", names[0], f"{INJECT}-")
            yield info(f"Namespace {listed(names, 5)}", f"opted out by label {INJECT}=false", follows, command)


async def tenants_isolated(cluster: Cluster) -> AsyncIterator[Finding]:
    """Kinds that Berth is not asked about in any tenant's namespace, else the namespaces that it is not asked about.

    Only where Berth confines tenants. That nothing at all is checked here is another finding.
    """
    checking = [one for one in await cluster.registered() if not one.mutating]
    if not checking or not (await cluster.settings(ConfinementSettings)).confine_tenants:
        return
    follows = (
        "what others than the gateway write there is not checked: a Pod can keep Pods of all other namespaces from "
        "being scheduled"
    )
    if unasked := _unasked(checking, _ANY):
        text = f"Berth is not asked about {', '.join(unasked)} in tenants' namespaces"
        yield error(checking[0].subject, text, follows, _register(cluster, checking))
        return
    for namespace in await cluster.listed(NAMESPACES):
        tenant, name = tenant_of(namespace), namespace["metadata"]["name"]
        if tenant and name not in (_SYSTEM, cluster.namespace) and (unasked := _unasked(checking, namespace)):
            text = f"belongs to tenant {tenant}, and Berth is not asked about its {', '.join(unasked)}"
            labeled = objects.labels(namespace).get(TENANT_LABEL)
            command = _register(cluster, checking) if labeled else _label(namespace)
            yield error(f"Namespace {name}", text, follows, command)


def _unasked(checking: Sequence[Registered], namespace: JSON) -> list[str]:
    """The kinds that no webhook without an opt-out is called for in this namespace."""
    calling = [
        one
        for one in _selecting(checking, namespace)
        if not one.webhook.get("objectSelector") and may_hold(one, namespace=namespace["metadata"]["name"])
    ]
    return [
        plural
        for rule in reviews_of("tenants")
        for plural in rule.resources
        if not all(any(one.covers(rule.group, plural, operation) for one in calling) for operation in rule.operations)
    ]


def _register(cluster: Cluster, checking: Sequence[Registered]) -> str:
    first = checking[0]
    if first.by_chart:
        return commands.again(cluster, first, _CONFINE)
    shared = {field: value for field, value in first.webhook.items() if field not in _OWN_FIELDS}
    present = {one.webhook.get("name"): one for one in checking if one.name == first.name}
    operations: list[JSON] = []
    for wanted in isolation_webhooks(shared, exempt=tuple(dict.fromkeys((_SYSTEM, cluster.namespace)))):
        there = present.get(wanted["name"])
        path = f"/webhooks/{there.index if there else '-'}"
        if there:
            operations.append({"op": "test", "path": f"{path}/name", "value": wanted["name"]})
        operations.append({"op": "replace" if there else "add", "path": path, "value": wanted})
    return commands.json_patch(first.resource.plural, first.name, operations)
