"""Check `switches`: what of the ConfigMap nri-control-switches is not used, and what its injections would break.

Whether the registration lets the Pods through that carry its labels is asked beside the registration.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from app.doctor.cluster import Cluster
from app.doctor.deployed_settings import webhook_settings
from app.doctor.model import Finding, Severity
from app.doctor.objects import kubectl, plain
from app.errors import ApiError
from app.kube.resources import CONFIG_MAPS, NETWORK_ATTACHMENTS
from app.networks import selection
from app.networks.model import DEFAULT_NETWORK, NETWORKS
from app.networks.settings import NetworksSettings
from app.networks.switches import CONFIG_MAP_KEY, CONFIG_MAP_NAME, Switches, parse_switches
from app.networks.userdefined import Injection
from app.wire import JSON

_OTHER_HOME = "kube-system"
"""Where Network Resources Injector has it, and people look for it."""


async def switches_of(cluster: Cluster) -> Switches:
    """The switches in force. Raises ApiError where the ConfigMap may not be read."""
    initial = (await webhook_settings(cluster, NetworksSettings)).initial_switches
    return parse_switches(_text(await _config_map(cluster, cluster.namespace)), initial=initial)


@dataclass(frozen=True, slots=True)
class ControlSwitches:
    name: str = "switches"

    async def run(self, cluster: Cluster) -> list[Finding]:
        found = await _config_map(cluster, cluster.namespace)
        if found is None:
            return await self._elsewhere(cluster)
        subject = f"ConfigMap {cluster.namespace}/{CONFIG_MAP_NAME}"
        edit = kubectl("edit", "configmap", CONFIG_MAP_NAME, namespace=cluster.namespace)
        if _text(found) is None:
            keys = ", ".join(sorted(found.get("data") or {})) or "nothing"
            text = f"has no key {CONFIG_MAP_KEY}, but {plain(keys)}"
            return [Finding(self.name, Severity.warning, subject, text, "nothing of it is used", edit)]
        switches = await switches_of(cluster)
        findings = [
            Finding(self.name, Severity.error, subject, plain(problem), _consequence(problem), edit)
            for problem in switches.problems
        ]
        findings += [
            Finding(self.name, Severity.error, subject, text, "Berth denies every Pod that carries the label", edit)
            for text in await _dangling(cluster, switches)
        ]
        if not findings:
            count = len(switches.injections)
            text = f"is read wholly: {count} injection{'' if count == 1 else 's'} by label"
            findings.append(Finding(self.name, Severity.ok, subject, text))
        return findings

    async def _elsewhere(self, cluster: Cluster) -> list[Finding]:
        if cluster.namespace == _OTHER_HOME or await _config_map(cluster, _OTHER_HOME) is None:
            return []
        copy = (
            f"{kubectl('get', 'configmap', CONFIG_MAP_NAME, '--output', 'json', namespace=_OTHER_HOME)}"
            """ | jq 'del(.metadata) + {metadata: {name: .metadata.name}}' | """
            f"{kubectl('apply', '--filename', '-', namespace=cluster.namespace)}"
        )
        return [
            Finding(
                self.name,
                Severity.warning,
                f"ConfigMap {_OTHER_HOME}/{CONFIG_MAP_NAME}",
                f"is not read: Berth reads the one in its own namespace, {cluster.namespace}, and there is none",
                "its features are off, and Pods with its labels get nothing injected",
                copy,
            )
        ]


def _consequence(problem: str) -> str:
    if problem.startswith("user-defined-injections: entry"):
        return "Pods that carry this label get nothing injected"
    if problem.startswith("features"):
        return "all features are as the flags of the webhook say"
    return "a webhook that starts now knows no injection by label; one that runs keeps those it read before"


async def _dangling(cluster: Cluster, switches: Switches) -> list[str]:
    """The networks of injections whose attachments do not exist.

    A network without a namespace is looked up in the Pod's own namespace, and is not checked here.
    """
    missing: dict[tuple[str, str], str] = {}
    for entry in switches.injections:
        for namespace, name in _networks(entry):
            missing.setdefault((namespace, name), entry.label)
    texts = []
    for (namespace, name), label in missing.items():
        try:
            found = await cluster.get(NETWORK_ATTACHMENTS, name, namespace=namespace)
        except ApiError:
            continue  # the check of attachments says so
        if found is None:
            texts.append(f"label {label} injects network {namespace}/{name}, whose attachment does not exist")
    return texts


def _networks(entry: Injection) -> Iterator[tuple[str, str]]:
    """What was read without an error names only what can be looked up."""
    for annotation in (NETWORKS, DEFAULT_NETWORK):
        value = entry.annotations.get(annotation)
        for one in selection.parse(value or "", annotation=annotation, default_namespace=""):
            if one.namespace:
                yield one.namespace, one.name


async def _config_map(cluster: Cluster, namespace: str) -> JSON | None:
    return await cluster.get(CONFIG_MAPS, CONFIG_MAP_NAME, namespace=namespace)


def _text(found: JSON | None) -> str | None:
    text = ((found or {}).get("data") or {}).get(CONFIG_MAP_KEY)
    return text if isinstance(text, str) else None
