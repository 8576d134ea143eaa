"""Check `registrations`: do the webhook configurations have Berth called for what it must see, and for nothing else.

Whom they trust is `certificate`'s, whether anybody answers `reachability`'s.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Sequence
from dataclasses import dataclass

from app.definitions import INFRA, TENANT
from app.doctor.cluster import Cluster
from app.doctor.commands import certs_install, helm_upgrade, patch_webhook
from app.doctor.conditions import left_out_labels
from app.doctor.installed import Registered, expected_roles, installed, registered
from app.doctor.model import Finding, Severity
from app.doctor.namespaces import namespace_findings
from app.errors import ApiError
from app.kube.resources import (
    CUSTOM_RESOURCE_DEFINITIONS,
    MUTATING_WEBHOOKS,
    NETWORK_ATTACHMENTS,
    VALIDATING_WEBHOOKS,
    Resource,
)

NAME = "registrations"
_DEADLINE = "8"


@dataclass(frozen=True, slots=True)
class Registrations:
    name: str = NAME

    async def run(self, cluster: Cluster) -> list[Finding]:
        found = await registered(cluster)
        findings = [finding async for finding in _absent(cluster, found)]
        deadline = await _deadline(cluster)
        for one in found:
            findings += _terms(one, deadline=deadline)
        findings += await namespace_findings(cluster, found)
        findings += await left_out_labels(cluster, found)
        findings += await _unchecked_kinds(cluster, found)
        findings += await _rivals(cluster, found)
        if found and all(finding.severity < Severity.warning for finding in findings):
            names = ", ".join(dict.fromkeys(one.name for one in found))
            findings.append(
                Finding(NAME, Severity.ok, names, f"{len(found)} webhooks are registered as they should be")
            )
        return findings


async def _absent(cluster: Cluster, found: Sequence[Registered]) -> AsyncIterator[Finding]:
    """What is not registered although the webhook runs here."""
    try:
        expected = "webhook" in await expected_roles(cluster)
    except ApiError:
        expected = "webhook" in cluster.roles
    if not expected and not found:
        return
    for resource, consequence, severity in (
        (MUTATING_WEBHOOKS, "nothing is injected into any Pod", Severity.error),
        (VALIDATING_WEBHOOKS, "broken attachments and rules are stored, and found out by Pods", Severity.warning),
    ):
        if not any(one.resource == resource for one in found):
            yield Finding(
                NAME, severity, resource.kind, "none calls Berth", consequence, await _registering(cluster, found)
            )


async def _registering(cluster: Cluster, found: Sequence[Registered]) -> str:
    """The command that writes the registrations, as whoever installed it does."""
    name = next((one.installer_name for one in found if one.installer_name), "")
    if name:
        return certs_install(cluster.namespace, name)
    try:
        webhooks = [one for one in await installed(cluster) if one.role == "webhook"]
    except ApiError:
        webhooks = []
    if any(not one.by_chart for one in webhooks):
        return certs_install(cluster.namespace, webhooks[0].name)
    return helm_upgrade(cluster, "webhook.enabled=true")


def _terms(one: Registered, *, deadline: float) -> Iterator[Finding]:
    """On what terms the API server calls."""
    webhook = one.webhook
    if not one.fails_closed:
        confines = one.covers("", "pods", "CREATE") and _only_tenants(one)
        consequence = (
            "while Berth is away, tenants' Pods are admitted without being confined"
            if confines
            else "while Berth is away, Pods start without their networks' resources and fail later, on their nodes"
            if one.mutating
            else "while Berth is away, broken attachments and rules are stored"
        )
        severity = Severity.warning if confines else Severity.info
        command = patch_webhook(one, "failurePolicy", "Fail")
        yield Finding(NAME, severity, one.subject, "failurePolicy is Ignore", consequence, command)
    timeout = webhook.get("timeoutSeconds") or 10
    if timeout <= deadline:
        wanted = min(30, int(deadline) + 2)
        yield Finding(
            NAME,
            Severity.warning,
            one.subject,
            f"timeoutSeconds is {timeout}, and Berth takes up to {deadline:g} s to say why it cannot answer",
            "users see a timeout instead of the reason",
            patch_webhook(one, "timeoutSeconds", wanted),
        )
    if one.mutating and webhook.get("reinvocationPolicy") != "IfNeeded":
        yield Finding(
            NAME,
            Severity.warning,
            one.subject,
            "reinvocationPolicy is Never",
            "containers and annotations that later webhooks add get nothing injected",
            patch_webhook(one, "reinvocationPolicy", "IfNeeded"),
        )
    if "v1" not in (webhook.get("admissionReviewVersions") or []):
        yield Finding(
            NAME,
            Severity.error,
            one.subject,
            "admissionReviewVersions lacks v1, the only one that Berth speaks",
            "every call fails",
            patch_webhook(one, "admissionReviewVersions", ["v1"]),
        )
    if one.mutating and not one.covers("", "pods", "CREATE"):
        rule = {"operations": ["CREATE"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"]}
        yield Finding(
            NAME,
            Severity.error,
            one.subject,
            "its rules do not name the creation of Pods",
            "Berth is not called for Pods by it, and injects nothing",
            patch_webhook(one, "rules", [rule]),
        )


def _only_tenants(one: Registered) -> bool:
    """It is not called for namespaces that nobody labeled."""
    return not one.selects_namespace({"kubernetes.io/metadata.name": "default"})


async def _deadline(cluster: Cluster) -> float:
    """How long the webhook works on one review, in seconds."""
    try:
        webhooks = [one for one in await installed(cluster) if one.role == "webhook"]
    except ApiError:
        webhooks = []
    given = [one.argument("--deadline-seconds", _DEADLINE) for one in webhooks] or [_DEADLINE]
    try:
        return max(map(float, given))
    except ValueError:
        return float(_DEADLINE)  # the webhook does not start with such a flag


async def _unchecked_kinds(cluster: Cluster, found: Sequence[Registered]) -> list[Finding]:
    """Kinds that this cluster has, that Berth checks, and that it is not asked about."""
    validating = [one for one in found if not one.mutating]
    if not validating:
        return []
    try:
        defined = await cluster.listed(CUSTOM_RESOURCE_DEFINITIONS) or []
    except ApiError:
        return []  # the check of definitions says so
    names = {definition["metadata"]["name"] for definition in defined}
    findings = []
    for resource in (NETWORK_ATTACHMENTS, *INFRA, *TENANT):
        unasked = [
            operation
            for operation in ("CREATE", "UPDATE")
            if not any(one.covers(resource.group, resource.plural, operation) for one in validating)
        ]
        if f"{resource.plural}.{resource.group}" in names and _is_checked(resource) and unasked:
            rule = {
                "operations": ["CREATE", "UPDATE"],
                "apiGroups": [resource.group],
                "apiVersions": [resource.version],
                "resources": [resource.plural],
            }
            findings.append(
                Finding(
                    NAME,
                    Severity.warning,
                    validating[0].subject,
                    f"Berth is not asked about the {' and '.join(unasked)} of {resource.plural}",
                    f"broken {resource.plural} are stored, and found out when they are used",
                    patch_webhook(validating[0], "rules/-", rule),
                )
            )
    return findings


def _is_checked(resource: Resource) -> bool:
    """Workloads come from the gateway alone, which checks them."""
    return resource.plural != "workloads"


async def _rivals(cluster: Cluster, found: Sequence[Registered]) -> list[Finding]:
    """Other configurations that inject networks' resources into the same Pods."""
    ours = list(dict.fromkeys(one.name for one in found if one.mutating and one.covers("", "pods", "CREATE")))
    if not ours:
        return []
    others = []
    for configuration in await cluster.listed(MUTATING_WEBHOOKS) or []:
        name = configuration["metadata"]["name"]
        if name not in ours and name.endswith("network-resources-injector-mutating-config"):
            others.append(name)
    return [
        Finding(
            NAME,
            Severity.warning,
            f"{MUTATING_WEBHOOKS.kind} {name}",
            f"injects into the same Pods as {ours[0]}",
            "resources are asked for twice, and Pods stay Pending",
            f"kubectl delete {MUTATING_WEBHOOKS.plural} {name}",
        )
        for name in (*ours[1:], *others)
    ]
