"""Checks which namespaces the webhooks leave out: all that must be left out, and none that must not be."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from app.admission.pods import INJECT
from app.doctor.cluster import Cluster
from app.doctor.installed import installed
from app.doctor.model import Finding, Severity
from app.doctor.objects import NAME_LABEL, labels, listed, namespace_labels
from app.doctor.remediation import edited, fix
from app.doctor.running import unchecked
from app.doctor.webhooks import Registered
from app.errors import ApiError
from app.kube.resources import NAMESPACES
from app.kube.selectors import label_selector_from_json
from app.placement.model import TENANT_LABEL
from app.placement.namespaces import tenant_of
from app.wire import JSON

_CHECK = "registrations"
_SYSTEM = "kube-system"


async def namespace_findings(cluster: Cluster, found: Sequence[Registered]) -> list[Finding]:
    """Own and system namespaces are exempt (deadlock); tenants' are not; who opted out is said."""
    pods = [one for one in found if one.mutating and one.covers("", "pods", "CREATE")]
    findings = [finding for one in pods for finding in _must_be_exempt(cluster, one, pods)]
    try:
        namespaces = await cluster.listed(NAMESPACES) or []
    except ApiError as error:
        return [*findings, unchecked(_CHECK, error)]
    if pods:
        findings += _tenants(cluster, pods, namespaces, confined=await _confines(cluster))
        findings += _opted_out(pods, namespaces)
    return findings


def _must_be_exempt(cluster: Cluster, one: Registered, pods: Sequence[Registered]) -> Iterator[Finding]:
    """The namespace in which the webhook's own Pods are, where its Service is; and the system's."""
    missing = [name for name in _exempt(one) if one.selects_namespace({NAME_LABEL: name})]
    if not missing:
        return
    selector = one.webhook.get("namespaceSelector")
    yield Finding(
        _CHECK,
        Severity.error if one.fails_closed else Severity.warning,
        one.subject,
        f"does not leave out namespace {' and '.join(missing)}",
        "while Berth is away no Pod can be created there, Berth's own among them: the cluster cannot heal itself"
        if one.fails_closed
        else "each Pod of the system waits for Berth, and for its timeout while Berth is away",
        fix(
            cluster,
            one,
            "namespaceSelector",
            _exempting(one, selector or _whole(one, pods)),
        ),
    )


def _exempt(one: Registered) -> list[str]:
    return list(dict.fromkeys([_SYSTEM, *([one.service[0]] if one.service else [])]))


def _exempting(one: Registered, selector: JSON) -> JSON:
    """The selector, made to leave out what must be left out; what it leaves out by name already stays so."""
    expressions = selector.get("matchExpressions") or []
    by_name = [expression for expression in expressions if _leaves_out_by_name(expression)]
    others = [expression for expression in expressions if not _leaves_out_by_name(expression)]
    names = [name for expression in by_name for name in expression["values"]]
    wanted = {"key": NAME_LABEL, "operator": "NotIn", "values": list(dict.fromkeys([*names, *_exempt(one)]))}
    return {**selector, "matchExpressions": [*others, wanted]}


def _whole(one: Registered, pods: Sequence[Registered]) -> JSON:
    """The selector for a webhook whose selector was emptied, without names of namespaces.

    It leaves out namespaces that opted out, and tenants' namespaces if another webhook is for these alone.
    """
    expressions = [{"key": INJECT, "operator": "NotIn", "values": ["false"]}]
    plain, tenants = {NAME_LABEL: "default"}, {NAME_LABEL: "default", TENANT_LABEL: "any"}
    if any(pod.selects_namespace(tenants) and not pod.selects_namespace(plain) for pod in pods if pod != one):
        expressions.append({"key": TENANT_LABEL, "operator": "DoesNotExist"})
    return {"matchExpressions": expressions}


def _leaves_out_by_name(expression: JSON) -> bool:
    return expression.get("key") == NAME_LABEL and expression.get("operator") == "NotIn"


def _tenants(
    cluster: Cluster, pods: Sequence[Registered], namespaces: Sequence[JSON], *, confined: bool
) -> Iterator[Finding]:
    """Findings for tenants' namespaces that no webhook selects.

    Where tenants are confined, also for those whose Pods can opt out of every webhook that selects them.
    """
    of_tenants = [namespace for namespace in namespaces if tenant_of(namespace)]
    hidden = [one for one in of_tenants if not any(pod.selects_namespace(namespace_labels(one)) for pod in pods)]
    for namespace in of_tenants:
        tenant, name = tenant_of(namespace), namespace["metadata"]["name"]
        calling = [one for one in pods if one.selects_namespace(namespace_labels(namespace))]
        strict = [one for one in calling if not one.conditions and not one.webhook.get("objectSelector")]
        if not calling:
            yield Finding(
                _CHECK,
                Severity.error,
                f"Namespace {name}",
                f"belongs to tenant {tenant}, and no webhook is called for its Pods",
                "they get nothing injected" + (", and are not kept on the tenant's nodes" if confined else ""),
                _unhide(cluster, namespace, pods[0], hidden),
            )
        elif confined and not strict:
            yield Finding(
                _CHECK,
                Severity.warning,
                f"Namespace {name}",
                f"belongs to tenant {tenant}, and its Pods can opt out of every webhook that is called for them",
                "a Pod that opts out runs on any tenant's nodes",
                _bind(namespace, tenant, pods)
                or fix(cluster, calling[0], "objectSelector", {}, values=("webhook.args.confineTenants=true",)),
            )


def _bind(namespace: JSON, tenant: str, pods: Sequence[Registered]) -> str:
    """The command that labels the namespace, where a strict webhook waits for that label; else ""."""
    name = namespace["metadata"]["name"]
    own = {**namespace_labels(namespace), TENANT_LABEL: tenant}
    strict = any(
        one.selects_namespace(own) for one in pods if not one.conditions and not one.webhook.get("objectSelector")
    )
    return f"kubectl label namespace {name} {TENANT_LABEL}={tenant}" if strict else ""


def _unhide(cluster: Cluster, namespace: JSON, one: Registered, hidden: Sequence[JSON]) -> str:
    """The command that has the selector match the namespace.

    It also adds the other namespaces of `hidden`: of separate commands the last would overwrite the rest.
    """
    name = namespace["metadata"]["name"]
    if (labels(namespace).get(INJECT) or "") == "false":
        return f"kubectl label namespace {name} {INJECT}-"
    selector = one.webhook.get("namespaceSelector") or {}
    for other in hidden:
        if other is namespace or (labels(other).get(INJECT) or "") != "false":
            selector = _admitting(selector, other)
    wanted = _exempting(one, selector)
    names = [name for name in wanted["matchExpressions"][-1]["values"] if name not in _exempt(one)]
    # What was edited away by hand must not become the release's value.
    values = () if edited(one.configuration) else (f"webhook.exemptNamespaces={{{','.join(names)}}}",)
    return fix(cluster, one, "namespaceSelector", wanted, values=values)


def _admitting(selector: JSON, namespace: JSON) -> JSON:
    """What of the selector lets the namespace through."""
    own = namespace_labels(namespace)
    expressions = []
    for expression in selector.get("matchExpressions") or []:
        if _leaves_out_by_name(expression):
            names = [name for name in expression["values"] if name != own[NAME_LABEL]]
            expressions += [{**expression, "values": names}] if names else []
        elif label_selector_from_json({"matchExpressions": [expression]}).matches(own):
            expressions.append(expression)
    matching = {key: value for key, value in (selector.get("matchLabels") or {}).items() if own.get(key) == value}
    return {"matchExpressions": expressions} | ({"matchLabels": matching} if matching else {})


def _opted_out(pods: Sequence[Registered], namespaces: Sequence[JSON]) -> Iterator[Finding]:
    """Where a webhook is called all the same (a tenant's Pods are confined), the label keeps less away than it says."""
    out = [namespace for namespace in namespaces if (labels(namespace).get(INJECT) or "").lower() == "false"]
    called = [one for one in out if any(pod.selects_namespace(namespace_labels(one)) for pod in pods)]
    for some, follows in (
        ([one for one in out if one not in called], "nothing is injected there"),
        (called, "a webhook is called there all the same: the Pods of a tenant stay confined to the tenant's nodes"),
    ):
        names = sorted(namespace["metadata"]["name"] for namespace in some)
        if names:
            command = f"kubectl label namespace {names[0]} {INJECT}-"
            message = f"opted out by label {INJECT}=false"
            yield Finding(_CHECK, Severity.info, f"Namespace {listed(names, 5)}", message, follows, command)


async def _confines(cluster: Cluster) -> bool:
    try:
        return any(one.role == "webhook" and one.switch("--confine-tenants") for one in await installed(cluster))
    except ApiError:
        return False
