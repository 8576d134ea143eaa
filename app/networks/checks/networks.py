"""Checks of the networks wing: `switches` (what is not used, and what would break) and `attachments`.

`switches` is about the ConfigMap nri-control-switches. Whether the registration lets the Pods through that carry its
labels is the check `registrations`. `attachments` finds NetworkAttachmentDefinitions that the webhook would refuse if
they were written today: older than Berth, or written while it was away.
"""

from __future__ import annotations

from collections.abc import AsyncIterator

from app.doctor import objects
from app.doctor.cluster import Cluster
from app.doctor.model import Check, Finding, all_well, error, of_each, or_default, warning
from app.kube.resources import CONFIG_MAPS, NETWORK_ATTACHMENTS, RESOURCE_SLICES
from app.networks import selection, settings
from app.networks.model import (
    DEFAULT_NETWORK,
    NETWORKS,
)
from app.networks.why.attachments import attachment_finding
from app.text import several
from app.wire import JSON

_OTHER_HOME = "kube-system"
"""Where Network Resources Injector has it, and people look for it."""
_RENAMED = "del(.metadata) + {metadata: {name: .metadata.name}}"
_CASES = {"user-defined-injections: entry": "entry", "features": "features"}
"""What follows from a problem, by how it begins."""
_MOST = 200
"""Attachments with a finding of their own."""


async def _switches(cluster: Cluster) -> AsyncIterator[Finding]:
    it, other = _config_map_of(cluster), objects.named(CONFIG_MAPS, settings.CONFIG_MAP_NAME, _OTHER_HOME)
    obj = await _config_map(cluster, cluster.namespace)
    if obj is None:
        if cluster.namespace != _OTHER_HOME and await _config_map(cluster, _OTHER_HOME) is not None:
            yield warning("BERTH1001", other, home=cluster.namespace, edit=_RENAMED)
        return
    if _text(obj) is None:
        keys = ", ".join(sorted(obj.get("data") or {})) or "nothing"
        yield warning("BERTH1002", it, key=settings.CONFIG_MAP_KEY, keys=keys)
        return
    known = await _switches_of(cluster)
    for problem in known.problems:
        case = next((case for begin, case in _CASES.items() if problem.startswith(begin)), "")
        yield error("BERTH1003", it, case=case, problem=problem)
    for (namespace, name), label in _networks(known).items():
        # The check of attachments reports that they may not be read.
        if await or_default(cluster.get(NETWORK_ATTACHMENTS, name, namespace=namespace), {}) is None:
            yield error("BERTH1004", it, label=label, namespace=namespace, name=name)
    yield all_well(it.subject, f"is read without errors: {several(len(known.injections), 'injection')} by label")


def _networks(read: settings.Switches) -> dict[tuple[str, str], str]:
    """The networks of injections, by namespace and name, with the label that injects them.

    A network without a namespace is looked up in the Pod's own namespace, and is left out here.
    """
    labels: dict[tuple[str, str], str] = {}
    for entry in read.injections:
        for annotation in (NETWORKS, DEFAULT_NETWORK):
            value = entry.annotations.get(annotation) or ""
            for network in selection.parse(value, annotation=annotation, default_namespace=""):
                if network.namespace:
                    labels.setdefault((network.namespace, network.name), entry.label)
    return labels


def _config_map_of(cluster: Cluster) -> objects.Object:
    """The one with the control switches."""
    return objects.named(CONFIG_MAPS, settings.CONFIG_MAP_NAME, cluster.namespace)


async def injected_labels(cluster: Cluster) -> dict[str, objects.Object]:
    """The labels that the control switches give something to, with these. Raises ApiError if they may not be read."""
    return {entry.label: _config_map_of(cluster) for entry in (await _switches_of(cluster)).injections}


async def _switches_of(cluster: Cluster) -> settings.Switches:
    initial = (await cluster.settings(settings.NetworksSettings)).initial_switches
    return settings.parse_switches(_text(await _config_map(cluster, cluster.namespace)), initial=initial)


async def _config_map(cluster: Cluster, namespace: str) -> JSON | None:
    return await cluster.get(CONFIG_MAPS, settings.CONFIG_MAP_NAME, namespace=namespace)


def _text(obj: JSON | None) -> str | None:
    text = ((obj or {}).get("data") or {}).get(settings.CONFIG_MAP_KEY)
    return text if isinstance(text, str) else None


async def _attachments(cluster: Cluster) -> AsyncIterator[Finding]:
    keys = (await cluster.settings(settings.NetworksSettings)).resource_name_keys

    slices = await or_default(cluster.listed(RESOURCE_SLICES), [])
    devices = [device for resource_slice in slices for device in resource_slice["spec"].get("devices") or ()]

    def judge(attachment: JSON) -> Finding | None:
        return attachment_finding(objects.Object(NETWORK_ATTACHMENTS, attachment), keys, devices)

    attachments = cluster.paged(NETWORK_ATTACHMENTS)
    async for finding in of_each(attachments, judge, most=_MOST, noun="network attachment"):
        yield finding


SWITCHES_CHECK = Check("switches", (_switches,))
ATTACHMENTS_CHECK = Check("attachments", (_attachments,), of_users=(_attachments,))
