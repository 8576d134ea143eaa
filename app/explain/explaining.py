"""Asks the webhook's own planner about Pods from manifests, with attachments from the same files or from a cluster.

Runs the very chains that answer `/mutate` and `/validate`, so that texts, exemptions and order are the same; it decides
nothing.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass, field

import jsonpatch
import msgspec

from app.admission.chain import Chain
from app.admission.parts import Cached, Caches, Context, chains
from app.admission.review import GroupVersionKind, GroupVersionResource, Request
from app.explain.manifests import Manifests, PodManifest
from app.explain.rendering import Explained
from app.kube.client import KubeClient
from app.kube.resources import NAMESPACES
from app.kube.retry import get_or_none
from app.registry import parts_of, reviews_of
from app.settings.source import RoleSettings
from app.wire import JSON, decode_json, encode_json


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What a webhook would know: its settings, its own namespace, the cluster.

    Without `client` the manifests are all there is; whose a namespace is, they alone say in any case.
    """

    settings: RoleSettings
    namespace: str
    client: KubeClient | None = None


@dataclass(slots=True)
class Explanation:
    """The results in the order of the Pods, and notes on what was not used."""

    results: list[Explained] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


async def explain(manifests: Manifests, surroundings: Surroundings) -> Explanation:
    """Explain every Pod. Raises Transient where a cluster is given and cannot be asked."""
    explanation = Explanation(notes=list(manifests.notes))
    caches = Caches()
    caches.client = surroundings.client
    parts = parts_of(Context(surroundings.settings, surroundings.namespace, caches))
    given = _Given(manifests, surroundings)
    await caches.fill(given.read)
    explanation.notes += given.left_out(caches)
    explanation.notes += [problem for part in parts for problem in part.problems()]
    by_webhook = chains(parts, namespace=surroundings.namespace)
    checked = {plural for rule in reviews_of("validate") for plural in rule.resources}
    for cached in caches.all:
        if cached.resource.plural in checked:
            for obj in manifests.of(cached.resource.kind):
                explanation.notes += await _refusal(by_webhook["validate"], obj)
    for manifest in manifests.pods:
        explanation.results.append(await _explain(by_webhook["mutate"], manifest))
    return explanation


class _Given:
    """Fills caches with the objects of the manifests; one object that they lack comes from the cluster."""

    def __init__(self, manifests: Manifests, surroundings: Surroundings) -> None:
        self._manifests, self._surroundings = manifests, surroundings

    async def read(self, cached: Cached) -> AsyncIterator[JSON]:
        resource, _, only = cached
        found = False
        if resource == NAMESPACES:
            # One that is not among the manifests is known by its name alone.
            for namespace in dict.fromkeys(pod.namespace for pod in self._manifests.pods):
                yield {"metadata": {"name": namespace}}
        for obj in self._manifests.of(resource.kind):
            metadata = obj["metadata"]
            home = metadata.get("namespace") or (self._surroundings.namespace if resource.namespaced else "")
            found = found or (home, metadata.get("name")) == only
            yield {**obj, "metadata": {**metadata, "namespace": home}} if resource.namespaced else obj
        if only is not None and not found and self._surroundings.client is not None:
            namespace, name = only
            live = await get_or_none(self._surroundings.client, resource, name, namespace=namespace)
            if live is not None:
                yield live

    def left_out(self, caches: Caches) -> list[str]:
        """Notes on objects of kinds of which only certain ones are read."""
        notes = []
        for kind in dict.fromkeys(one.resource.kind for one in caches.all):
            wanted = [one.only for one in caches.all if one.resource.kind == kind]
            names = {only[1]: only[0] for only in wanted if only is not None}
            for obj in self._manifests.of(kind) if None not in wanted else ():
                name, namespace = obj["metadata"].get("name"), obj["metadata"].get("namespace")
                if name not in names:
                    notes.append(f"{kind} {name}: is not {' or '.join(names)}; left out")
                elif namespace and namespace != names[name]:
                    notes.append(f"{kind} {namespace}/{name}: the webhook reads it in {names[name]}; left out")
        return notes


async def _refusal(chain: Chain, obj: JSON) -> list[str]:
    """That the object would be refused when it is written."""
    metadata = obj["metadata"]
    group, _, version = str(obj.get("apiVersion") or "").rpartition("/")
    kind = GroupVersionKind(group=group, version=version, kind=str(obj["kind"]))
    decision, _ = await chain.review(_request(kind, obj, namespace=str(metadata.get("namespace") or "")))
    title = f"{obj['kind']} {metadata.get('namespace')}/{metadata.get('name')}"
    return [] if decision.allowed else [f"{title} would be refused: {decision.message}"]


async def _explain(chain: Chain, manifest: PodManifest) -> Explained:
    kind = GroupVersionKind(version="v1", kind="Pod")
    decision, plan = await chain.review(_request(kind, manifest.pod, namespace=manifest.namespace))
    pod = manifest.pod
    if decision.allowed and decision.operations:
        operations = decode_json(encode_json(decision.operations))
        pod = jsonpatch.apply_patch(manifest.pod, operations, in_place=False)
    return Explained(manifest, decision, tuple(plan.patch.reasons), pod)


def _request(kind: GroupVersionKind, obj: JSON, *, namespace: str) -> Request:
    name = obj.get("metadata", {}).get("name", "")
    plural = GroupVersionResource(group=kind.group, version=kind.version, resource=f"{kind.kind.lower()}s")
    return Request(
        uid="explain",
        kind=kind,
        resource=plural,
        operation="CREATE",
        name=name if isinstance(name, str) else "",
        namespace=namespace,
        dry_run=True,
        object=msgspec.Raw(encode_json(obj)),
    )
