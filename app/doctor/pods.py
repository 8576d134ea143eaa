"""Check `pods`: Pods that run without what the webhook would give them today, and those that it would refuse.

Pods are read page by page and told by who made them, so that a large cluster costs neither memory nor patience.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from app.doctor.cluster import Cluster
from app.doctor.commands import helm_upgrade
from app.doctor.installed import Registered, registered
from app.doctor.model import Finding, Severity
from app.doctor.objects import created, labels, several
from app.doctor.owners import Owner, edit, owner_of, renew, topmost
from app.doctor.planning import Known, Lack, Planner, Tenants, Want
from app.doctor.running import unchecked
from app.doctor.switches import switches_of
from app.doctor.templates import denied
from app.doctor.told import webhook_settings
from app.errors import ApiError
from app.kube.resources import MUTATING_WEBHOOKS, NAMESPACES, NETWORK_ATTACHMENTS, PODS
from app.kube.selectors import label_selector_from_json
from app.networks.model import project
from app.settings.webhook import WebhookSettings as Settings
from app.wire import JSON

LIVING = "status.phase!=Succeeded,status.phase!=Failed"
_NAME_LABEL = "kubernetes.io/metadata.name"
_MOST = 200
"""Owners that are told of one by one."""
_SHOWN = 5
_NAMES = 50
"""Names kept of the Pods of one owner: for a command that deletes them, where the owner cannot be told to restart."""

_SAID: dict[Want, tuple[Severity, tuple[str, str], str]] = {
    "resources": (
        Severity.error,
        ("lacks {}", "lack {}"),
        "no device is allotted, and the node may have none: its networks do not come up",
    ),
    "information": (
        Severity.warning,
        ("lacks {}", "lack {}"),
        "it does not see what its networks are, or has others than it should",
    ),
    "attachment": (
        Severity.error,
        (
            "selects a network whose attachment does not exist: {}",
            "select a network whose attachment does not exist: {}",
        ),
        "Multus cannot attach it, and Berth denies every Pod that is to replace it",
    ),
    "refused": (
        Severity.warning,
        ("would be denied today: {}", "would be denied today: {}"),
        "it runs on, but a Pod that is to replace it is denied",
    ),
    "placement": (
        Severity.error,
        ("lacks the node affinity {}", "lack the node affinity {}"),
        "it may run on a DPU of another tenant or of another host",
    ),
}
"""How bad it is; what one Pod, and several, do; what follows."""


@dataclass(slots=True)
class _Group:
    """Pods of one owner that lack the same; some names, and how many of them are older than Berth."""

    pods: int = 0
    older: int = 0
    names: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Pods:
    name: str = "pods"

    async def run(self, cluster: Cluster) -> list[Finding]:
        settings = await webhook_settings(cluster)
        planner, namespaces = await self._planner(cluster)
        calling = await _calling(cluster)
        since = min((when for one in calling if (when := created(one.configuration))), default=None)
        exempt = {"kube-system", cluster.namespace}

        def asked(pod: JSON) -> bool:
            namespace = pod["metadata"]["namespace"]
            return namespace not in exempt and _asked(calling, pod, namespaces.get(namespace))

        groups: dict[tuple[Owner, Lack], _Group] = {}
        seen = beyond = 0
        async for pod in cluster.paged(PODS, field_selector=LIVING):
            metadata = pod["metadata"]
            if metadata["namespace"] in exempt or metadata.get("deletionTimestamp"):
                continue
            seen += 1
            lacks = await planner.placement(pod)
            if asked(pod):
                lacks += await planner.networks(pod)
            for lack in lacks:
                key = (owner_of(pod), lack)
                if key in groups or len(groups) < _MOST:
                    _add(groups.setdefault(key, _Group()), pod, since)
                else:
                    beyond += 1
        findings = [
            await self._finding(cluster, owner, lack, group, since=since, settings=settings)
            for (owner, lack), group in groups.items()
        ]
        findings += await self._denied(cluster, planner, asked, told={one.subject for one in findings})
        if beyond:
            text = f"{several(beyond, 'more Pod')} of other owners lack something: mend the above, then ask again"
            findings.append(Finding(self.name, max(one.severity for one in findings), "", text, "as above"))
        if seen and not findings:
            findings.append(Finding(self.name, Severity.ok, "", f"{several(seen, 'Pod')} have all that they need"))
        return findings

    async def _planner(self, cluster: Cluster) -> tuple[Planner, dict[str, JSON]]:
        settings = await webhook_settings(cluster)
        keys = settings.resource_name_keys
        try:
            known = Known([project(obj, keys) async for obj in cluster.paged(NETWORK_ATTACHMENTS)])
        except ApiError as error:
            if not error.not_found:
                raise
            known = Known(())
        namespaces = {obj["metadata"]["name"]: obj for obj in await cluster.listed(NAMESPACES) or ()}
        planner = Planner(
            known,
            Tenants(namespaces),
            switches=await switches_of(cluster),
            options=settings.networks_options,
            placement=settings.placement,
        )
        return planner, namespaces

    async def _denied(
        self, cluster: Cluster, planner: Planner, asked: Callable[[JSON], bool], *, told: set[str]
    ) -> list[Finding]:
        """Owners without Pods, because these are denied; `told` are the owners that Pods have told of."""
        findings: list[Finding] = []
        async for found in denied(cluster, planner, asked=asked):
            if isinstance(found, ApiError):
                findings.append(unchecked(self.name, found))
            elif found[0].subject not in told and len(findings) < _MOST:
                owner, lack = found
                named = lack.want == "attachment"
                text = f"they select a network whose attachment does not exist: {lack.text}" if named else lack.text
                follows = "it gets no new Pod: not at a roll-out, and not in place of one that ends"
                findings.append(
                    Finding(
                        self.name, Severity.error, owner.subject, f"its Pods are denied: {text}", follows, edit(owner)
                    )
                )
        return findings

    async def _finding(
        self, cluster: Cluster, owner: Owner, lack: Lack, group: _Group, *, since: datetime | None, settings: Settings
    ) -> Finding:
        owner = await topmost(cluster, owner)
        severity, texts, consequence = _SAID[lack.want]
        what = texts[group.pods > 1].replace("{}", lack.text)
        if owner.kind == "Pod":
            message = what
        else:
            names = ("" if group.pods <= _SHOWN else "such as ") + ", ".join(group.names[:_SHOWN])
            message = f"{several(group.pods, 'Pod')} of it ({names}) {what}"
        if lack.want in ("resources", "information", "placement"):
            message += _history(group, since)
        of_tenant = lack.want == "placement" and f"{settings.tenant_node_label}=" in lack.text
        if of_tenant and not settings.confine_tenants:
            command = helm_upgrade(cluster, "webhook.args.confineTenants=true") + "\n" + renew(owner, group.names)
        elif lack.want in ("attachment", "refused"):
            command = edit(owner)
        else:
            command = renew(owner, group.names)
        return Finding(self.name, severity, owner.subject, message, consequence, command)


def _history(group: _Group, since: datetime | None) -> str:
    """Why it came to that, as far as dates tell it."""
    if since is None:
        return ""
    if group.older == group.pods:
        return f": created before Berth was registered ({since:%Y-%m-%d %H:%M} UTC)"
    if not group.older:
        return (
            ": created after Berth was registered, so it was not asked (it was away, or its registration left the Pod "
            "out), or what the Pod needs was changed later"
        )
    return f": {group.older} of {group.pods} were created before Berth was registered"


def _add(group: _Group, pod: JSON, since: datetime | None) -> None:
    group.pods += 1
    when = created(pod)
    group.older += since is not None and when is not None and when < since
    if len(group.names) < _NAMES:
        group.names.append(pod["metadata"]["name"])


async def _calling(cluster: Cluster) -> Sequence[Registered]:
    try:
        found = await registered(cluster)
    except ApiError:
        return ()  # the check of registrations says so
    return [one for one in found if one.resource == MUTATING_WEBHOOKS and one.covers("", "pods", "CREATE")]


def _asked(calling: Sequence[Registered], pod: JSON, namespace: JSON | None) -> bool:
    """Whether the selectors, by which people opt out, leave the Pod to Berth. Conditions are no opt-out."""
    if not calling:
        return True
    name = pod["metadata"]["namespace"]
    home = {_NAME_LABEL: name, **(labels(namespace) if namespace else {})}
    return any(one.selects_namespace(home) and _selected(one, labels(pod)) for one in calling)


def _selected(one: Registered, own: dict[str, str]) -> bool:
    try:
        return label_selector_from_json(one.webhook.get("objectSelector") or {}).matches(own)
    except ValueError:
        return True
