"""Check `rules`: rules and UVS objects whose status reports a problem, or whose status is out of date.

In an infra cluster it reads the stored rules, in a tenant's cluster the objects that its users wrote. The controller
and the agent judge these objects and write the statuses; this check reports what the statuses say.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from dataclasses import dataclass

from app.doctor.cluster import Cluster
from app.doctor.commands import restart
from app.doctor.installed import installed
from app.doctor.model import Finding, Severity
from app.doctor.objects import (
    condition,
    kubectl,
    labels,
    plain,
    plural,
    several,
    status,
    subject,
    unchanged,
    unseen,
)
from app.doctor.running import unchecked
from app.errors import ApiError
from app.kube.resources import Resource
from app.text import moment
from app.wire import JSON
from app.workloads.model import (
    ADMIN_RULES,
    AGENT_OWNER,
    MIRROR,
    RULE_OWNER,
    SYSTEM_NAMESPACE,
    TENANT_RULES,
    UVS_RESOURCES,
    WORKLOAD_RULES,
    WORKLOADS,
)

PATIENCE = 300.0
"""Seconds in which a status may be late."""
_MOST = 100
_WATCHERS: dict[Resource, str] = {
    TENANT_RULES: "controller",
    ADMIN_RULES: "controller",
    WORKLOAD_RULES: "agent",
    **dict.fromkeys(UVS_RESOURCES, "agent"),
}
"""Who writes the status."""
_REFUSED = (
    "jsonpath={range .items[*]}{.metadata.namespace}/{.metadata.name}: "
    '{.status.rules.admin[?(@.status.result=="error")].status.message}{"\\n"}{end}'
)
"""Of each Workload what its status says of rules of the admin that do not serve it."""


@dataclass(frozen=True, slots=True)
class Rules:
    name: str = "rules"

    async def run(self, cluster: Cluster) -> list[Finding]:
        findings: list[Finding] = []
        count = 0
        for resource, role in _WATCHERS.items():
            late, first = 0, None
            try:
                async for obj in cluster.paged(resource):
                    if labels(obj).get(MIRROR):
                        continue  # its status is that of the Pod that it shows
                    count += 1
                    findings += judge(self.name, resource, obj)
                    if unseen(obj) and unchanged(obj, cluster.now()) > PATIENCE:
                        late, first = late + 1, first or obj
            except ApiError as error:
                if error.not_found:
                    continue
                findings.append(unchecked(self.name, error))
            if first is not None:
                findings.append(await self._late(cluster, resource, role, first, late))
        if len(findings) > _MOST:
            findings.sort(key=lambda one: -one.severity)
            more = len(findings) - _MOST
            text = f"{more} more findings about rules are not shown: fix the above, then run the doctor again"
            findings[_MOST:] = [Finding(self.name, findings[_MOST].severity, "", text, "as above")]
        if count and not findings:
            findings.append(
                Finding(self.name, Severity.ok, "", f"{several(count, 'rule')} and objects do what they say")
            )
        return findings

    async def _late(self, cluster: Cluster, resource: Resource, role: str, first: JSON, late: int) -> Finding:
        """`first` is one of them, `late` how many there are."""
        try:
            running = next((one for one in await installed(cluster) if one.role == role), None)
        except ApiError:
            running = None
        others = f", and {several(late - 1, 'other')}" if late > 1 else ""
        return Finding(
            self.name,
            Severity.error,
            subject(resource.kind, first) + others,
            f"changed more than {PATIENCE / 60:.0f} minutes ago, and the {role} has not processed the change"
            + ("" if running else f": no {role} was found in namespace {cluster.namespace}"),
            "it has no effect yet, or one that its author took back",
            restart(running.namespace, running.name)
            if running
            else kubectl("get", "deployments", "--all-namespaces", "--selector", f"app.kubernetes.io/component={role}"),
        )


def judge(check: str, resource: Resource, obj: JSON) -> Iterator[Finding]:
    """What the status of one object says against it."""
    said, ready = status(obj), condition(obj, "Ready")
    reason, message = str(ready.get("reason") or ""), said.get("message") or ready.get("message") or ""
    if said.get("result") == "error" or (ready.get("status") == "False" and reason != "Waiting"):
        yield Finding(
            check,
            Severity.error,
            subject(resource.kind, obj),
            plain(f"{reason}: {message}" if reason and reason not in message else message or "it says no reason"),
            _consequence(resource, reason),
            _command(resource, obj, reason),
        )
    elif resource == ADMIN_RULES and said.get("message") and said["message"] != ready.get("message"):
        # Beside how many companions there are.
        yield Finding(
            check,
            Severity.warning,
            subject(resource.kind, obj),
            plain(said["message"]),
            "these workloads are without their companions; the rule serves the others",
            kubectl("get", plural(WORKLOADS), "--all-namespaces", "--output", shlex.quote(_REFUSED))
            + " | grep -v ': $'",
        )
    elif reason == "Waiting":
        since = moment(ready.get("lastTransitionTime"))
        yield Finding(
            check,
            Severity.info,
            subject(resource.kind, obj),
            plain(message) + (f", since {since:%Y-%m-%d %H:%M} UTC" if since else ""),
        )


def _consequence(resource: Resource, reason: str) -> str:
    if resource in UVS_RESOURCES:
        return "the infra cluster has not what the object describes"
    if resource == WORKLOAD_RULES:
        return "the infra cluster does not follow the rule as it is written: it has an older one, or none"
    if reason == "InvalidRule":
        return "no workload gets a companion by it"
    return "workloads that match it are without their companions"


def _command(resource: Resource, obj: JSON, reason: str) -> str:
    metadata = obj["metadata"]
    namespace, name = metadata["namespace"], metadata["name"]
    match reason:
        case "QuotaExceeded":
            return kubectl("edit", "resourcequota", namespace=namespace)
        case "NamespaceMissing" | "NamespaceTerminating":
            return kubectl("describe", "namespace", namespace)
    if resource == TENANT_RULES and labels(obj).get(RULE_OWNER) == AGENT_OWNER:
        # The agent would undo what is changed here: the rule is the tenant's.
        command = kubectl("edit", plural(WORKLOAD_RULES), name, namespace=SYSTEM_NAMESPACE)
        return f"{command}  # in the tenant's cluster"
    return kubectl("edit", plural(resource), name, namespace=namespace)
