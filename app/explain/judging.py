"""What controllers find in objects that no webhook reviews: Services on networks, Workloads, configurations."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from functools import partial
from typing import Any, NamedTuple

from app.appwrappers.options import parse_config
from app.appwrappers.settings import ConfigSettings
from app.claims.definitions import parse_definitions
from app.claims.publishing.model import stored_attachment
from app.claims.settings import TemplateSettings
from app.errors import Denied
from app.explain.manifests import Manifests, as_defined
from app.explain.model import Finding, Manifest, Severity
from app.explain.rehearsal import Rehearsal, live, review
from app.explain.rendering import Explained
from app.kube.resources import (
    CONFIG_MAPS,
    NETWORK_ATTACHMENTS,
    SERVICES,
)
from app.kube.store import Key
from app.networks.interfaces import chosen_by
from app.networks.settings import CONFIG_MAP_NAME, NetworksSettings, Switches, parse_switches, text_of
from app.rmd.classes import parse_classes
from app.rmd.model import CONFIG_NAME, DAEMON_NAMESPACE, RMD_CONFIGS
from app.rmd.settings import AdmissionSettings
from app.services.model import (
    ASKING,
    SELECTOR,
    Problem,
    Wish,
    not_attached,
    not_found,
    read_wish,
    subnets_unknown,
)
from app.settings.source import settings_as
from app.text import cut
from app.wire import JSON
from app.workloads.controller.stored import project_workload
from app.workloads.model import WORKLOADS

_LONGEST = 4096
_NAMED = 3
"""Pods that a message names."""


class Reader(NamedTuple):
    """`read` raises ValueError for an object that is not used as it is, of which there is a finding."""

    severity: Severity
    reason: str
    read: Callable[[JSON], object]

    def findings(self, given: Manifest) -> Iterator[Finding]:
        if (decoded := _decoded(given)) is None:
            return
        try:
            self.read(decoded)
        except ValueError as error:
            yield Finding(self.severity, self.reason, cut(str(error), _LONGEST), given)


def configurations(rehearsal: Rehearsal) -> dict[str, Reader]:
    """What configures Berth: ConfigMaps in its namespace, by name."""
    settings, unused = rehearsal.settings, partial(Reader, "warning", "InvalidConfiguration")
    definitions = Reader("error", "InvalidClaimDefinition", parse_definitions)
    return {
        CONFIG_MAP_NAME: unused(_read_switches),
        settings_as(settings, ConfigSettings).appwrapper_config: unused(parse_config),
        settings_as(settings, AdmissionSettings).rmd_classes: unused(parse_classes),
        settings_as(settings, TemplateSettings).claim_templates: definitions,
    }


def readers_of(given: Manifest, rehearsal: Rehearsal) -> Iterator[Reader]:
    """What reads a Workload, an RmdConfig or a configuration. Services are in `service_findings`."""
    if given.kind == WORKLOADS.kind:
        yield Reader("error", "InvalidWorkload", project_workload)
    elif given.kind == RMD_CONFIGS.kind:
        yield Reader("error", "InvalidRmdConfig", _check_name)
        yield Reader("warning", "WrongNamespace", _check_namespace)
    elif given.kind == CONFIG_MAPS.kind and given.namespace in ("", rehearsal.namespace):
        reader = configurations(rehearsal).get(given.name)
        yield from () if reader is None else (reader,)


def _check_name(config: JSON) -> None:
    if config["metadata"].get("name") != CONFIG_NAME:
        raise ValueError(f"metadata.name: the API server takes none but {CONFIG_NAME}")


def _check_namespace(config: JSON) -> None:
    """That of the daemons is an option of the controller."""
    if config["metadata"].get("namespace") != DAEMON_NAMESPACE:
        message = f"metadata.namespace: want {DAEMON_NAMESPACE}, or where else the daemons are (rmd.namespace)"
        raise ValueError(f"{message}: in any other namespace nothing is done")


def _read_switches(config_map: JSON) -> None:
    if problems := parse_switches(text_of(config_map), initial=Switches()).problems:
        raise ValueError("; ".join(problems))


def _decoded(given: Manifest) -> JSON | None:
    """An object as its kind defines it; None where it has a wrong type, of which there is a finding."""
    if given.kind not in (SERVICES.kind, CONFIG_MAPS.kind):
        return given.obj
    return as_defined(given.obj)


async def service_findings(
    manifests: Manifests, pods: Sequence[Explained], rehearsal: Rehearsal
) -> AsyncIterator[Finding]:
    """What the controller network-services would say of the Services, as far as manifests and the cluster show it.

    `pods` are those of the manifests. Which networks have no subnets and are published all the same, is an option of
    the controller. Raises Transient where the cluster cannot be asked.
    """
    for given in manifests.others:
        service = _decoded(given) if given.kind == SERVICES.kind else None
        if service is None:
            continue
        annotations = service["metadata"].get("annotations") or {}
        if ASKING.isdisjoint(annotations):
            keys = ", ".join(sorted(ASKING))
            yield Finding("warning", "NoNetwork", f"has no effect: want one of {keys} too", given, _field(SELECTOR))
            continue
        wish = read_wish(given.namespace, annotations, service.get("spec") or {})
        if isinstance(wish, Problem):
            yield _finding("error", wish, given)
        elif wish.device is None:
            async for finding in _of_network(given, wish, manifests, pods, rehearsal):
                yield finding


async def attachment_findings(
    manifests: Manifests, pods: Sequence[Explained], rehearsal: Rehearsal
) -> AsyncIterator[Finding]:
    """What `/validate` says against the attachments of the cluster that Pods select, once each, at the first such Pod.

    Of attachments that are among the manifests there are findings already. Raises Transient where the cluster cannot be
    asked.
    """
    ours = (given for given in manifests.others if given.kind == NETWORK_ATTACHMENTS.kind)
    looked_at = {(given.namespace, given.name) for given in ours}
    for pod in (pod for pod in pods if not pod.denied):
        for key in _selected(pod.pod):
            if key in looked_at:
                continue
            looked_at.add(key)
            attachment = await live(rehearsal, NETWORK_ATTACHMENTS, key, manifests.notes)
            if attachment is None:
                continue
            decision, _ = await review(rehearsal.chains["validate"], attachment, namespace=key[0])
            about = f"{NETWORK_ATTACHMENTS.kind} {key[0]}/{key[1]} of the cluster"
            if not decision.allowed:
                message = f"{about} is broken: {decision.message}"
                yield Finding("warning", decision.reason, message, pod.manifest.owner)
            for text in decision.warnings:
                yield Finding("warning", "Warned", f"{about}: {text}", pod.manifest.owner)


def _selected(pod: JSON) -> Iterator[Key]:
    """The attachments that a Pod selects, by namespace and name."""
    metadata = pod["metadata"]
    try:
        chosen = chosen_by(metadata.get("annotations") or {}, metadata["namespace"])
    except Denied:
        return
    for selection in filter(None, (chosen.default, *chosen.selections)):
        if selection.namespace:
            yield selection.namespace, selection.name


def _field(key: str) -> str:
    return f"metadata.annotations[{key}]"


def _finding(severity: Severity, problem: Problem, given: Manifest) -> Finding:
    return Finding(severity, problem.reason, problem.message, given)


async def _of_network(
    given: Manifest, wish: Wish, manifests: Manifests, pods: Sequence[Explained], rehearsal: Rehearsal
) -> AsyncIterator[Finding]:
    namespace, _, name = wish.network.partition("/")
    key = namespace, name
    attachment = next((obj for obj in manifests.of(NETWORK_ATTACHMENTS.kind) if _key(obj) == key), None)
    if attachment is None:
        attachment = await live(rehearsal, NETWORK_ATTACHMENTS, key, manifests.notes)
    if attachment is None:
        yield _finding("error", not_found(wish.network), given)
        return
    keys = settings_as(rehearsal.settings, NetworksSettings).network_resource_name_keys
    stored = stored_attachment(attachment, keys)
    if not (stored.subnets or stored.statics):
        yield _finding("warning", subnets_unknown(wish.network), given)
    if names := [pod.manifest.title for pod in pods if _is_elsewhere(pod, given.namespace, wish)]:
        more = " and others" if len(names) > _NAMED else ""
        yield _finding("warning", not_attached(wish, ", ".join(names[:_NAMED]) + more), given)


def _key(obj: JSON) -> tuple[Any, Any]:
    return obj["metadata"].get("namespace"), obj["metadata"].get("name")


def _is_elsewhere(explained: Explained, namespace: str, wish: Wish) -> bool:
    """Whether the Service selects a Pod that would run, and that asks for other networks alone.

    By a claim a Pod can be on any network.
    """
    metadata, spec = explained.pod["metadata"], explained.pod.get("spec") or {}
    labels = metadata.get("labels") or {}
    if explained.denied or metadata["namespace"] != namespace or not wish.pods.matches(labels):
        return False
    if spec.get("resourceClaims") or spec.get("hostNetwork"):
        return False
    try:
        chosen = chosen_by(metadata.get("annotations") or {}, namespace)
    except Denied:
        return False
    names = (chosen.default, *chosen.selections)
    return all(network is None or f"{network.namespace}/{network.name}" != wish.network for network in names)
