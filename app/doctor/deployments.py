"""Check `deployments`: does each role run, in as many replicas as it should, in one version, and why not."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Sequence
from dataclasses import dataclass

from app.doctor.allowances import unlike, unlisted_default
from app.doctor.cluster import Cluster
from app.doctor.commands import describe_pods, helm, helm_install, helm_upgrade, unregister
from app.doctor.installed import Installed, installed
from app.doctor.model import Finding, Severity
from app.doctor.webhooks import Registered, of_all_releases, registered
from app.errors import ApiError
from app.kube.resources import PODS, SERVICES
from app.registry import BY_NAME
from app.wire import JSON

_CHECK = "deployments"


@dataclass(frozen=True, slots=True)
class Deployments:
    name: str = _CHECK

    async def run(self, cluster: Cluster) -> list[Finding]:
        found = await installed(cluster)
        findings = [finding async for finding in _absent(cluster, found)] if not found or cluster.roles else []
        for one in found:
            findings += await _judged(cluster, one)
        findings += _versions(cluster, found)
        findings += unlike(cluster, found)
        findings += await unlisted_default(cluster, found)
        if found and not findings:
            names = ", ".join(one.role for one in found)
            findings.append(Finding(_CHECK, Severity.ok, names, "all replicas are ready, of one version"))
        return findings


async def _absent(cluster: Cluster, found: Sequence[Installed]) -> AsyncIterator[Finding]:
    present = any(one.by_chart for one in found)
    for role in sorted(cluster.roles - {one.role for one in found}):
        command = helm(cluster, f"{role}.enabled=true", present=present)
        if role == "certificates":
            command = helm(cluster, "certificates.mode=self-managed", present=present)
        subject = f"role {role}"
        text = f"does not run in namespace {cluster.namespace}"
        yield Finding(_CHECK, Severity.error, subject, text, BY_NAME[role].when_down, command)
    if found:
        return
    try:
        ours = await registered(cluster)
        unserved = [one for one in ours if one.fails_closed and not await _serviced(cluster, one)]
        calling = ours or await of_all_releases(cluster)
    except ApiError:
        unserved, calling = [], []
    if unserved:
        text = f"runs no role in namespace {cluster.namespace}, and what its registrations call is not there"
        follows = "no Pod and no object that they are called for can be created, in any namespace that they select"
        command = unregister(*(one.name for one in unserved))
        yield Finding(_CHECK, Severity.error, "Berth", text, follows, command)
        return
    if cluster.roles:
        return
    if calling:
        text = f"runs no role in namespace {cluster.namespace}, but webhooks of it are registered"
        yield Finding(
            _CHECK, Severity.info, "Berth", text, "it runs elsewhere, or its namespace is another: --namespace"
        )
        return
    text = f"is not installed in namespace {cluster.namespace}, and no webhook of it is registered"
    yield Finding(
        _CHECK,
        Severity.warning,
        "Berth",
        text,
        "nothing is injected; where it runs in another namespace, name it with --namespace",
        helm_install(cluster),
    )


async def _serviced(cluster: Cluster, one: Registered) -> bool:
    """Whether the Service that it calls exists; a URL counts as served, because it is not checked."""
    return one.service is None or await cluster.get(SERVICES, one.service[1], namespace=one.service[0]) is not None


async def _judged(cluster: Cluster, one: Installed) -> list[Finding]:
    spec, status = one.object.get("spec") or {}, one.object.get("status") or {}
    wanted = spec.get("replicas", 1)
    ready, updated = status.get("readyReplicas") or 0, status.get("updatedReplicas") or 0
    scale = f"kubectl --namespace {one.namespace} scale deployment/{one.name} --replicas=2"
    if wanted == 0:
        return [Finding(_CHECK, Severity.error, one.subject, "is scaled to 0", BY_NAME[one.role].when_down, scale)]
    if ready < wanted or updated < wanted:
        reasons = await _reasons(cluster, one)
        text = f"{ready} of {wanted} replicas are ready, {updated} of the current template"
        text += f": {'; '.join(reasons)}" if reasons else ""
        severity = Severity.warning if ready else Severity.error
        consequence = BY_NAME[one.role].when_down if not ready else "the next fault or drained node leaves fewer"
        command = describe_pods(one.namespace, one.pod_labels)
        return [Finding(_CHECK, severity, one.subject, text, consequence, command)]
    if wanted == 1:
        consequence = "while it restarts or its node is drained, " + BY_NAME[one.role].when_down
        severity = Severity.warning if one.role == "webhook" else Severity.info
        return [Finding(_CHECK, severity, one.subject, "has one replica", consequence, scale)]
    return []


async def _reasons(cluster: Cluster, one: Installed) -> list[str]:
    """Why Pods are not ready, each reason once."""
    try:
        pods = await cluster.listed(PODS, namespace=one.namespace, label_selector=one.selector) or []
    except ApiError:
        return []
    if not pods:
        conditions = (one.object.get("status") or {}).get("conditions") or []
        return [str(c.get("message")) for c in conditions if c.get("type") == "ReplicaFailure"] or ["it has no Pods"]
    return list(dict.fromkeys(reason for pod in pods for reason in _reasons_of(pod)))[:3]


def _reasons_of(pod: JSON) -> Iterator[str]:
    status = pod.get("status") or {}
    for container in [*(status.get("initContainerStatuses") or []), *(status.get("containerStatuses") or [])]:
        waiting = (container.get("state") or {}).get("waiting") or {}
        if reason := waiting.get("reason"):
            message = f" ({waiting['message']})" if waiting.get("message") else ""
            yield f"container {container.get('name')}: {reason}{message}"
    for condition in status.get("conditions") or []:
        if condition.get("type") == "PodScheduled" and condition.get("status") == "False":
            yield f"not scheduled: {condition.get('message') or condition.get('reason')}"


def _versions(cluster: Cluster, found: Sequence[Installed]) -> Iterator[Finding]:
    """All roles of one release run one image."""
    images: dict[str, list[str]] = {}
    for one in found:
        images.setdefault(one.image, []).append(one.role)
    if len(images) > 1:
        parts = "; ".join(f"{', '.join(roles)}: {image}" for image, roles in images.items())
        consequence = "an upgrade stopped half-way, or images are set by hand; roles are tested together in one version"
        text = f"run different images ({parts})"
        yield Finding(_CHECK, Severity.warning, "roles", text, consequence, helm_upgrade(cluster))
