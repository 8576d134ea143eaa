"""Checks of the networks wing: `switches` (what is not used, and what would break) and `attachments`.

`switches` is about the ConfigMap nri-control-switches. Whether the registration lets the Pods through that carry its
labels is the check `registrations`. `attachments` finds NetworkAttachmentDefinitions that the webhook would refuse if
they were written today: older than Berth, or written while it was away.
"""

from __future__ import annotations

from collections.abc import AsyncIterator

from app.doctor import commands, objects
from app.doctor.cluster import Cluster
from app.doctor.model import Check, Finding, all_well, error, of_each, or_default, plain, warning
from app.kube.resources import CONFIG_MAPS, NETWORK_ATTACHMENTS
from app.networks import selection, settings, switches
from app.networks.model import DEFAULT_NETWORK, NETWORKS, attachment_problems
from app.text import several
from app.wire import JSON

_OTHER_HOME = "kube-system"
"""Where Network Resources Injector has it, and people look for it."""
_MOST = 200
"""Attachments with a finding of their own."""


async def _switches(cluster: Cluster) -> AsyncIterator[Finding]:
    found = await _config_map(cluster, cluster.namespace)
    if found is None:
        if cluster.namespace != _OTHER_HOME and await _config_map(cluster, _OTHER_HOME) is not None:
            show = commands.kubectl(
                "get", "configmap", switches.CONFIG_MAP_NAME, "--output", "json", namespace=_OTHER_HOME
            )
            write = commands.kubectl("apply", "--filename", "-", namespace=cluster.namespace)
            yield warning(
                "BERTH1001",
                f"ConfigMap {_OTHER_HOME}/{switches.CONFIG_MAP_NAME}",
                f"is not read: Berth reads the one in its own namespace, {cluster.namespace}, and there is none",
                command=f"{show} | jq 'del(.metadata) + {{metadata: {{name: .metadata.name}}}}' | {write}",
            )
        return
    subject = switches_subject(cluster)
    edit = commands.kubectl("edit", "configmap", switches.CONFIG_MAP_NAME, namespace=cluster.namespace)
    if _text(found) is None:
        keys = ", ".join(sorted(found.get("data") or {})) or "nothing"
        text = f"has no key {switches.CONFIG_MAP_KEY}, but {plain(keys)}"
        yield warning("BERTH1002", subject, text, command=edit)
        return
    known = await _switches_of(cluster)
    for problem in known.problems:
        yield error("BERTH1003", subject, plain(problem), _consequence(problem), edit)
    for (namespace, name), label in _networks(known).items():
        # The check of attachments reports that they may not be read.
        if await or_default(cluster.get(NETWORK_ATTACHMENTS, name, namespace=namespace), {}) is None:
            text = f"label {label} injects network {namespace}/{name}, whose attachment does not exist"
            yield error("BERTH1004", subject, text, command=edit)
    yield all_well(subject, f"is read without errors: {several(len(known.injections), 'injection')} by label")


def _consequence(problem: str) -> str:
    if problem.startswith("user-defined-injections: entry"):
        return "Pods that carry this label get nothing injected"
    if problem.startswith("features"):
        return "all features are as the flags of the webhook say"
    return "a webhook that starts now knows no injection by label; one that runs keeps those it read before"


def _networks(known: switches.Switches) -> dict[tuple[str, str], str]:
    """The networks of injections, by namespace and name, with the label that injects them.

    A network without a namespace is looked up in the Pod's own namespace, and is left out here.
    """
    found: dict[tuple[str, str], str] = {}
    for entry in known.injections:
        for annotation in (NETWORKS, DEFAULT_NETWORK):
            value = entry.annotations.get(annotation) or ""
            for one in selection.parse(value, annotation=annotation, default_namespace=""):
                if one.namespace:
                    found.setdefault((one.namespace, one.name), entry.label)
    return found


def switches_subject(cluster: Cluster) -> str:
    return f"ConfigMap {cluster.namespace}/{switches.CONFIG_MAP_NAME}"


async def injected_labels(cluster: Cluster) -> list[str]:
    """The labels that the control switches give something to. Raises ApiError where they may not be read."""
    return [entry.label for entry in (await _switches_of(cluster)).injections]


async def _switches_of(cluster: Cluster) -> switches.Switches:
    initial = (await cluster.settings(settings.NetworksSettings)).initial_switches
    return switches.parse_switches(_text(await _config_map(cluster, cluster.namespace)), initial=initial)


async def _config_map(cluster: Cluster, namespace: str) -> JSON | None:
    return await cluster.get(CONFIG_MAPS, switches.CONFIG_MAP_NAME, namespace=namespace)


def _text(found: JSON | None) -> str | None:
    text = ((found or {}).get("data") or {}).get(switches.CONFIG_MAP_KEY)
    return text if isinstance(text, str) else None


async def _attachments(cluster: Cluster) -> AsyncIterator[Finding]:
    keys = (await cluster.settings(settings.NetworksSettings)).resource_name_keys

    def judge(attachment: JSON) -> Finding | None:
        problems = attachment_problems(attachment, keys)
        if not problems:
            return None
        follows = "Multus cannot attach Pods that select it: they stay in ContainerCreating"
        if any(problem.startswith("metadata.annotations") for problem in problems):
            follows = "Berth denies every new Pod that selects it"
        metadata = attachment["metadata"]
        # What it should say only its author knows.
        edit = commands.edit(NETWORK_ATTACHMENTS, metadata["name"], namespace=metadata.get("namespace") or "")
        return error(
            "BERTH1101",
            objects.subject(NETWORK_ATTACHMENTS.kind, attachment),
            plain("; ".join(problems)),
            follows,
            edit,
        )

    found = cluster.paged(NETWORK_ATTACHMENTS)
    async for finding in of_each(found, judge, most=_MOST, noun="network attachment"):
        yield finding


SWITCHES_CHECK = Check("switches", (_switches,))
ATTACHMENTS_CHECK = Check("attachments", (_attachments,))
