"""Says of a Pod how each of its devices would be served, where it is known what a cluster offers."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from functools import partial

from app.admission.pods import pod_from
from app.claims.definitions import class_template, parse_definitions, requests_of
from app.claims.injection.claims import extended_resources
from app.claims.roads import Offer, Road, allocatable_of, claim_road, road_of
from app.errors import ApiError
from app.explain.manifests import Manifests, as_defined
from app.kube.client import KubeClient, Page
from app.kube.resources import (
    DEVICE_CLASSES,
    NODES,
    RESOURCE_CLAIM_TEMPLATES,
    RESOURCE_CLAIMS,
    RESOURCE_SLICES,
    Resource,
)
from app.kube.retry import every_item
from app.kube.store import Key, key_of
from app.wire import JSON
from app.workloads.templates.bounds import at

_KINDS = (NODES, DEVICE_CLASSES, RESOURCE_SLICES)
_NEEDED = {
    NODES.kind: ("metadata.name",),
    DEVICE_CLASSES.kind: ("metadata.name",),
    RESOURCE_SLICES.kind: ("spec.driver", "spec.pool.name"),
}
"""Without these an object says nothing of what a cluster offers."""


async def offer_of(manifests: Manifests, client: KubeClient | None, notes: list[str]) -> tuple[Offer | None, bool]:
    """What manifests and cluster offer, None where neither says anything; and whether the cluster showed all of it.

    What the cluster does not show is noted.
    """
    unread, refusals = list[str](), list[str]()
    objects: dict[str, list[JSON]] = {resource.kind: list(_of_kind(manifests, resource, notes)) for resource in _KINDS}
    for resource in _KINDS:
        if client is None:
            break
        try:
            pages = every_item(partial(_page, client, resource))
            objects[resource.kind] += [obj async for obj in pages]
        except ApiError as error:
            if not error.not_found:  # an API server without the kind has no such objects
                unread.append(resource.plural)
                refusals.append(str(error))
    if unread:
        names = ", ".join(unread)
        notes.append(f"{names} could not be listed, so that it is not known what offers the devices: {refusals[0]}")
    if client is None and not any(objects.values()):
        return None, True
    nodes, classes, slices = objects.values()
    return Offer(allocatable_of(nodes), classes, slices), not unread


def _of_kind(manifests: Manifests, resource: Resource, notes: list[str]) -> Iterator[JSON]:
    """The objects that can be used; of a missing part there is a note."""
    for given in manifests.others:
        decoded = as_defined(given.obj) if given.kind == resource.kind else None
        if decoded is None:
            continue
        if missing := [path for path in _NEEDED[resource.kind] if not at(decoded, path)]:
            notes.append(f"{given.subject}: has no {' and no '.join(missing)}; left out")
        else:
            yield decoded


async def _page(client: KubeClient, resource: Resource, token: str) -> Page:
    return await client.list_page(resource, continue_token=token)


def roads_of(
    pod: JSON, namespace: str, offer: Offer, manifests: Manifests, config_map: Key
) -> Iterator[tuple[str, Road]]:
    """Each extended resource and each claim of a Pod, with its road. Of claims, those of the manifests are known.

    `config_map` is the ConfigMap with definitions.
    """
    for asking in extended_resources(pod_from(pod)):
        yield asking.resource, road_of(asking.resource, offer)
    for claim in (pod.get("spec") or {}).get("resourceClaims") or ():
        for name in _classes(claim, namespace, offer, manifests, config_map):
            yield f"claim {claim['name']}", claim_road(name, offer)


def _classes(claim: JSON, namespace: str, offer: Offer, manifests: Manifests, config_map: Key) -> tuple[str, ...]:
    template, name = claim.get("resourceClaimTemplateName"), claim.get("resourceClaimName")
    kind, wish = (RESOURCE_CLAIM_TEMPLATES, template) if template else (RESOURCE_CLAIMS, name)
    for obj in filter(None, map(as_defined, manifests.of(kind.kind))):
        if (obj["metadata"].get("namespace"), obj["metadata"].get("name")) == (namespace, wish):
            spec = obj.get("spec") or {}
            return tuple(requests_of((spec.get("spec") or {}) if template else spec))
    named = (device_class["metadata"]["name"] for device_class in offer.classes)
    made = {class_template(name): (name,) for name in named} | _defined(manifests, config_map)
    return made.get(template or "", ())


def _defined(manifests: Manifests, config_map: Key) -> dict[str, tuple[str, ...]]:
    """The classes of each definition; a wrong ConfigMap is noted by the review."""
    for obj in manifests.of("ConfigMap"):
        namespace, name = key_of(obj)
        if (namespace or config_map[0], name) == config_map:
            with contextlib.suppress(ValueError):
                return {name: tuple(definition.requests) for name, definition in parse_definitions(obj).items()}
    return {}
