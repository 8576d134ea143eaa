"""Check `pods`: Pods that run without what the webhook would give them today, and those that it would refuse.

Pods are read page by page and told by who made them, so that a large cluster costs neither memory nor patience.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from app.doctor.cluster import Cluster
from app.doctor.deployed_settings import webhook_settings
from app.doctor.grouping import Group, finding_of
from app.doctor.model import Finding, Severity
from app.doctor.objects import created, labels, namespace_labels, several
from app.doctor.owners import Owner, edit, owner_of
from app.doctor.planning import Known, Lack, Planner
from app.doctor.running import unchecked
from app.doctor.switches import switches_of
from app.doctor.templates import denied
from app.doctor.webhooks import Registered, registered
from app.errors import ApiError
from app.kube.resources import MUTATING_WEBHOOKS, NAMESPACES, NETWORK_ATTACHMENTS, PODS
from app.kube.selectors import label_selector_from_json
from app.networks.model import project
from app.placement.namespaces import KnownNamespaces
from app.wire import JSON

LIVING = "status.phase!=Succeeded,status.phase!=Failed"
_MOST = 200
"""Owners that are told of one by one."""


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

        groups: dict[tuple[Owner, Lack], Group] = {}
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
                    groups.setdefault(key, Group()).add(pod, since)
                else:
                    beyond += 1
        findings = [
            await finding_of(cluster, owner, lack, group, since=since, settings=settings)
            for (owner, lack), group in groups.items()
        ]
        findings += await self._denied(cluster, planner, asked, told={one.subject for one in findings})
        if beyond:
            more = several(beyond, "more Pod")
            text = f"{more} of other owners lack something: fix the above, then run the doctor again"
            findings.append(Finding(self.name, max(one.severity for one in findings), "", text, "as above"))
        if seen and not findings:
            text = "1 Pod has all that it needs" if seen == 1 else f"{seen} Pods have all that they need"
            findings.append(Finding(self.name, Severity.ok, "", text))
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
            KnownNamespaces(namespaces.values()),
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
    home = namespace_labels(namespace or {"metadata": {"name": pod["metadata"]["namespace"]}})
    return any(one.selects_namespace(home) and _selected(one, labels(pod)) for one in calling)


def _selected(one: Registered, own: dict[str, str]) -> bool:
    try:
        return label_selector_from_json(one.webhook.get("objectSelector") or {}).matches(own)
    except ValueError:
        return True
