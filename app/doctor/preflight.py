"""Check `preflight` of `berth doctor --pre`: what an installation needs of the cluster, before there is one."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

from app.definitions import GROUPS, definition_name
from app.doctor import objects
from app.doctor.cluster import Cluster
from app.doctor.definitions import MULTUS
from app.doctor.model import Check, Finding, error, guarded, info, ok, warning
from app.kube.release import release_of, unserved
from app.kube.resources import (
    CUSTOM_RESOURCE_DEFINITIONS,
    DAEMON_SETS,
    DEPLOYMENTS,
    MUTATING_POLICIES,
    MUTATING_WEBHOOKS,
    NAMESPACES,
    NETWORK_ATTACHMENTS,
    SECRETS,
    VALIDATING_WEBHOOKS,
)

OLDEST = "1.30"
"""The oldest Kubernetes that is supported: match conditions of webhooks."""
_REVIEWS = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
_RBAC = "rbac.authorization.k8s.io"
_CREATED = (
    ("", NAMESPACES.plural),
    ("", SECRETS.plural),
    ("", "serviceaccounts"),
    ("", "services"),
    (DEPLOYMENTS.group, DEPLOYMENTS.plural),
    (_RBAC, "clusterroles"),
    (_RBAC, "clusterrolebindings"),
    (_RBAC, "roles"),
    (_RBAC, "rolebindings"),
    (CUSTOM_RESOURCE_DEFINITIONS.group, CUSTOM_RESOURCE_DEFINITIONS.plural),
    (MUTATING_WEBHOOKS.group, MUTATING_WEBHOOKS.plural),
    (VALIDATING_WEBHOOKS.group, VALIDATING_WEBHOOKS.plural),
)
"""What the chart creates, by group and resource: the user who installs it needs these rights."""


async def _version(cluster: Cluster) -> AsyncIterator[Finding]:
    release = await release_of(cluster.client)
    if release.is_older(OLDEST):
        yield error("BERTH0901", "", version=release.shown, oldest=OLDEST)
        return
    yield ok("", f"Kubernetes {release.shown} is supported")
    if release.is_older(MUTATING_POLICIES.since):
        reason = unserved(MUTATING_POLICIES, release)
        yield info("BERTH0906", "", version=release.shown, oldest=MUTATING_POLICIES.since, reason=reason)


async def _multus(cluster: Cluster) -> AsyncIterator[Finding]:
    definition = await cluster.get(CUSTOM_RESOURCE_DEFINITIONS, definition_name(NETWORK_ATTACHMENTS))
    if definition is None:
        yield warning("BERTH0902", "", command=MULTUS)
        return
    names = [daemon_set["metadata"]["name"] for daemon_set in await cluster.listed(DAEMON_SETS)]
    if any("multus" in name for name in names):
        yield ok("", "Multus is installed")
    else:
        yield info("BERTH0903", objects.Object(CUSTOM_RESOURCE_DEFINITIONS, definition))


async def _definitions(cluster: Cluster) -> AsyncIterator[Finding]:
    """Kinds of the same names that another project has defined: the chart would take these over, or fail."""
    ours = {definition_name(resource) for kinds in GROUPS.values() for resource in kinds}
    for definition in await cluster.listed(CUSTOM_RESOURCE_DEFINITIONS):
        it = objects.Object(CUSTOM_RESOURCE_DEFINITIONS, definition)
        labels = objects.labels(definition)
        if it.name in ours and labels.get(objects.PART_OF) != "berth":
            yield warning(
                "BERTH0904", it, keeper=labels.get("app.kubernetes.io/managed-by") or "no program that says so"
            )


async def _rights(cluster: Cluster) -> AsyncIterator[Finding]:
    async def lacks(group: str, resource: str) -> bool:
        attributes = {"verb": "create", "group": group, "resource": resource}
        body = {
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SelfSubjectAccessReview",
            "spec": {"resourceAttributes": attributes},
        }
        answer = await cluster.client.post(_REVIEWS, body)
        return not (answer.get("status") or {}).get("allowed")

    refused = await asyncio.gather(*(lacks(*right) for right in _CREATED))
    missing = [f"{resource}.{group}".rstrip(".") for (group, resource), no in zip(_CREATED, refused, strict=True) if no]
    if missing:
        yield error("BERTH0905", "", missing=missing)
    else:
        yield ok("", "you may create all that the chart has")


async def _preflight(cluster: Cluster) -> AsyncIterator[Finding]:
    for part in (_version, _multus, _definitions, _rights):
        async for finding in guarded(part(cluster)):
            yield finding


CHECK = Check("preflight", (_preflight,))
