"""Check `registrations`: do the webhook configurations call Berth for all objects that it must see, and for no others.

The check `certificate` covers the CAs that they trust, `reachability` whether Berth answers.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass

from app.definitions import INFRA, TENANT
from app.doctor.cluster import Cluster
from app.doctor.commands import certs_install, helm
from app.doctor.conditions import left_out
from app.doctor.installed import expected_roles, installed, released
from app.doctor.isolation import isolation_findings
from app.doctor.model import Finding, Severity
from app.doctor.namespaces import namespace_findings
from app.doctor.remediation import fix
from app.doctor.rivals import rivals
from app.doctor.uninstalling import unfinished
from app.doctor.webhook_config import deadline_of, judge
from app.doctor.webhooks import Registered, registered
from app.errors import ApiError
from app.kube.resources import (
    CUSTOM_RESOURCE_DEFINITIONS,
    MUTATING_WEBHOOKS,
    NETWORK_ATTACHMENTS,
    VALIDATING_WEBHOOKS,
    Resource,
)

NAME = "registrations"


@dataclass(frozen=True, slots=True)
class Registrations:
    name: str = NAME

    async def run(self, cluster: Cluster) -> list[Finding]:
        found = await registered(cluster)
        findings = [finding async for finding in _absent(cluster, found)]
        deadline = await deadline_of(cluster)
        for one in found:
            findings += judge(cluster, one, deadline=deadline)
        findings += await namespace_findings(cluster, found)
        findings += await isolation_findings(cluster, found)
        findings += await left_out(cluster, found)
        findings += await _unchecked_kinds(cluster, found)
        findings += await rivals(cluster, found)
        findings += await unfinished(cluster, found)
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
    """The command that writes the registrations, by the method of the installation."""
    kept = next((one for one in found if one.installer_name), None)
    if kept is not None:
        # The command also writes the existing registration again: it keeps its failurePolicy.
        policy = kept.webhook.get("failurePolicy") or "Fail"
        return certs_install(cluster.namespace, kept.installer_name, failure_policy=policy)
    try:
        webhooks = [one for one in await installed(cluster) if one.role == "webhook"]
    except ApiError:
        webhooks = []
    if any(not one.by_chart for one in webhooks):
        return certs_install(cluster.namespace, webhooks[0].name)
    return helm(cluster, "webhook.enabled=true", present=await released(cluster))


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
                    fix(cluster, validating[0], "rules/-", rule),
                )
            )
    return findings


def _is_checked(resource: Resource) -> bool:
    """Workloads come from the gateway alone, which checks them."""
    return resource.plural != "workloads"
