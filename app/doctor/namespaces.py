"""Which namespaces the webhooks leave out: those that must be, none of those that must not be."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from app.doctor.cluster import Cluster
from app.doctor.commands import patch_webhook
from app.doctor.installed import Registered, installed
from app.doctor.model import Finding, Severity
from app.doctor.running import unchecked
from app.errors import ApiError
from app.kube.resources import NAMESPACES
from app.networks.model import INJECT
from app.placement.model import TENANT_LABEL
from app.placement.namespaces import tenant_of
from app.wire import JSON

_CHECK = "registrations"
_NAME_LABEL = "kubernetes.io/metadata.name"
_SYSTEM = "kube-system"


async def namespace_findings(cluster: Cluster, found: Sequence[Registered]) -> list[Finding]:
    """Own and system namespaces are exempt (deadlock); tenants' are not; who opted out is said."""
    pods = [one for one in found if one.mutating and one.covers("", "pods", "CREATE")]
    findings = [finding for one in pods for finding in _must_be_exempt(one)]
    try:
        namespaces = await cluster.listed(NAMESPACES) or []
    except ApiError as error:
        return [*findings, unchecked(_CHECK, error)]
    if pods:
        findings += _tenants(pods, namespaces, confined=await _confines(cluster))
        findings += _opted_out(namespaces)
    return findings


def _must_be_exempt(one: Registered) -> Iterator[Finding]:
    """The namespace in which the webhook's own Pods are, where its Service is; and the system's."""
    exempt = list(dict.fromkeys([_SYSTEM, *([one.service[0]] if one.service else [])]))
    missing = [name for name in exempt if one.selects_namespace({_NAME_LABEL: name})]
    if not missing:
        return
    selector = dict(one.webhook.get("namespaceSelector") or {})
    expressions = [
        expression
        for expression in selector.get("matchExpressions") or []
        if not (expression.get("key") == _NAME_LABEL and expression.get("operator") == "NotIn")
    ]
    already = [
        name
        for expression in selector.get("matchExpressions") or []
        if expression not in expressions
        for name in expression["values"]
    ]
    wanted = {"key": _NAME_LABEL, "operator": "NotIn", "values": list(dict.fromkeys([*already, *exempt]))}
    selector["matchExpressions"] = [*expressions, wanted]
    yield Finding(
        _CHECK,
        Severity.error if one.fails_closed else Severity.warning,
        one.subject,
        f"does not leave out namespace {' and '.join(missing)}",
        "while Berth is away no Pod can be created there, Berth's own among them: the cluster cannot heal itself"
        if one.fails_closed
        else "each Pod of the system waits for Berth, and for its timeout while Berth is away",
        patch_webhook(one, "namespaceSelector", selector),
    )


def _tenants(pods: Sequence[Registered], namespaces: Sequence[JSON], *, confined: bool) -> Iterator[Finding]:
    """Every tenant's namespace is some webhook's; where tenants are confined, one's that nobody can opt out of."""
    for namespace in namespaces:
        tenant, name = tenant_of(namespace), namespace["metadata"]["name"]
        if not tenant:
            continue
        labels = {_NAME_LABEL: name, **(namespace["metadata"].get("labels") or {})}
        calling = [one for one in pods if one.selects_namespace(labels)]
        strict = [one for one in calling if not one.conditions and not one.webhook.get("objectSelector")]
        if not calling:
            yield Finding(
                _CHECK,
                Severity.error,
                f"Namespace {name}",
                f"belongs to tenant {tenant}, and no webhook is called for its Pods",
                "they get nothing injected" + (", and are not kept on the tenant's nodes" if confined else ""),
                _unhide(namespace, pods[0]),
            )
        elif confined and not strict:
            yield Finding(
                _CHECK,
                Severity.warning,
                f"Namespace {name}",
                f"belongs to tenant {tenant}, and its Pods can opt out of every webhook that is called for them",
                "a Pod that opts out runs on any tenant's nodes",
                _bind(namespace, tenant, pods) or patch_webhook(calling[0], "objectSelector", {}),
            )


def _bind(namespace: JSON, tenant: str, pods: Sequence[Registered]) -> str:
    """The command that labels the namespace, where a strict webhook waits for that label; else ""."""
    name = namespace["metadata"]["name"]
    labels = {_NAME_LABEL: name, **(namespace["metadata"].get("labels") or {}), TENANT_LABEL: tenant}
    strict = any(
        one.selects_namespace(labels) for one in pods if not one.conditions and not one.webhook.get("objectSelector")
    )
    return f"kubectl label namespace {name} {TENANT_LABEL}={tenant}" if strict else ""


def _unhide(namespace: JSON, one: Registered) -> str:
    name = namespace["metadata"]["name"]
    if ((namespace["metadata"].get("labels") or {}).get(INJECT) or "") == "false":
        return f"kubectl label namespace {name} {INJECT}-"
    selector = dict(one.webhook.get("namespaceSelector") or {})
    labels = {_NAME_LABEL: name, **(namespace["metadata"].get("labels") or {})}
    kept = [
        expression
        for expression in selector.get("matchExpressions") or []
        if _alone(one, {"matchExpressions": [expression]}).selects_namespace(labels)
    ]
    return patch_webhook(one, "namespaceSelector", {"matchExpressions": kept})


def _alone(one: Registered, selector: JSON) -> Registered:
    """The same webhook, with this selector."""
    return Registered(one.resource, one.configuration, one.index, {**one.webhook, "namespaceSelector": selector})


def _opted_out(namespaces: Sequence[JSON]) -> Iterator[Finding]:
    names = sorted(
        namespace["metadata"]["name"]
        for namespace in namespaces
        if ((namespace["metadata"].get("labels") or {}).get(INJECT) or "").lower() == "false"
    )
    if names:
        shown = ", ".join(names[:5]) + (f" and {len(names) - 5} more" if len(names) > 5 else "")
        command = f"kubectl label namespace {names[0]} {INJECT}-"
        message = f"opted out by label {INJECT}=false"
        yield Finding(_CHECK, Severity.info, f"Namespace {shown}", message, "nothing is injected there", command)


async def _confines(cluster: Cluster) -> bool:
    try:
        return any(one.role == "webhook" and one.switch("--confine-tenants") for one in await installed(cluster))
    except ApiError:
        return False
