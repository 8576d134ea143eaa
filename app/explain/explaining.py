"""Asks the webhook's own planner about Pods from manifests, with attachments from the same files or from a cluster.

Runs the very chain that answers `/mutate`, so that texts, exemptions and order are the same; it decides nothing.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

import jsonpatch
import msgspec

from app.admission.chain import Chain
from app.admission.review import GroupVersionKind, GroupVersionResource, Request
from app.explain.manifests import Manifests, PodManifest
from app.explain.rendering import Explained
from app.kube.client import KubeClient
from app.kube.resources import CONFIG_MAPS
from app.kube.retry import get_or_none
from app.networks.checking import attachment_problems
from app.networks.model import Attachment, project
from app.networks.switches import CONFIG_MAP_KEY, CONFIG_MAP_NAME, Switches, parse_switches
from app.networks.webhook import NetworksOptions
from app.placement.model import PlacementOptions
from app.placement.namespaces import KnownNamespaces
from app.reviews import ReviewContext, chains
from app.wire import JSON, decode_json, encode_json


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What a webhook would know: its options, its own namespace, the switches before any ConfigMap, the cluster.

    Without `client` the manifests are all there is; whose a namespace is, they alone say in any case.
    """

    options: NetworksOptions
    initial: Switches
    namespace: str
    client: KubeClient | None = None
    placement: PlacementOptions = field(default_factory=PlacementOptions)


@dataclass(slots=True)
class Explanation:
    """The results in the order of the Pods, and notes on what was not used."""

    results: list[Explained] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


async def explain(manifests: Manifests, surroundings: Surroundings) -> Explanation:
    """Explain every Pod. Raises Transient where a cluster is given and cannot be asked."""
    explanation = Explanation(notes=list(manifests.notes))
    text = _switches_in(manifests.config_maps, surroundings, notes=explanation.notes)
    if text is None and surroundings.client is not None:
        text = await _switches_from(surroundings.client, surroundings.namespace)
    switches = parse_switches(text, initial=surroundings.initial)
    explanation.notes += [f"ConfigMap {CONFIG_MAP_NAME}: {problem}" for problem in switches.problems]
    for attachment in manifests.attachments:
        problems = attachment_problems(attachment, surroundings.options.resource_name_keys)
        title = (
            f"NetworkAttachmentDefinition {attachment['metadata']['namespace']}/{attachment['metadata'].get('name')}"
        )
        explanation.notes += [f"{title} would be refused: {problem}" for problem in problems]
    context = ReviewContext(
        options=surroundings.options,
        placement=surroundings.placement,
        attachments=_Known(manifests.attachments, surroundings.options.resource_name_keys),
        switches=lambda: switches,
        tenants=KnownNamespaces(manifests.namespaces),
        client=lambda: surroundings.client,
    )
    chain = chains(context, namespace=surroundings.namespace)["mutate"]
    for manifest in manifests.pods:
        explanation.results.append(await _explain(chain, manifest))
    return explanation


class _Known:
    """The attachments of the manifests, in the shape of the webhook's cache."""

    def __init__(self, objects: Iterable[JSON], keys: tuple[str, ...]) -> None:
        projected = (project(obj, keys) for obj in objects)
        self._attachments = {(one.namespace, one.name): one for one in projected}

    def get(self, namespace: str, name: str) -> Attachment | None:
        return self._attachments.get((namespace, name))


async def _explain(chain: Chain, manifest: PodManifest) -> Explained:
    decision, plan = await chain.review(_request(manifest))
    pod = manifest.pod
    if decision.allowed and decision.operations:
        operations = decode_json(encode_json(decision.operations))
        pod = jsonpatch.apply_patch(manifest.pod, operations, in_place=False)
    return Explained(manifest, decision, tuple(plan.patch.reasons), pod)


def _request(manifest: PodManifest) -> Request:
    name = manifest.pod.get("metadata", {}).get("name", "")
    return Request(
        uid="explain",
        kind=GroupVersionKind(version="v1", kind="Pod"),
        resource=GroupVersionResource(version="v1", resource="pods"),
        operation="CREATE",
        name=name if isinstance(name, str) else "",
        namespace=manifest.namespace,
        dry_run=True,
        object=msgspec.Raw(encode_json(manifest.pod)),
    )


def _switches_in(config_maps: Iterable[JSON], surroundings: Surroundings, *, notes: list[str]) -> str | None:
    """The text of the switches in the manifests; one without a namespace is taken for the webhook's own."""
    text = None
    for config_map in config_maps:
        metadata = config_map["metadata"]
        namespace = metadata["namespace"] or surroundings.namespace
        name = metadata.get("name")
        if name != CONFIG_MAP_NAME:
            notes.append(f"ConfigMap {name}: is not {CONFIG_MAP_NAME}; left out")
        elif namespace != surroundings.namespace:
            notes.append(f"ConfigMap {namespace}/{name}: the webhook reads it in {surroundings.namespace}; left out")
        else:
            text = _text_of(config_map)
    return text


async def _switches_from(client: KubeClient, namespace: str) -> str | None:
    found = await get_or_none(client, CONFIG_MAPS, CONFIG_MAP_NAME, namespace=namespace)
    return None if found is None else _text_of(found)


def _text_of(config_map: JSON) -> str | None:
    data = config_map.get("data")
    text = data.get(CONFIG_MAP_KEY) if isinstance(data, dict) else None
    return text if isinstance(text, str) else None
