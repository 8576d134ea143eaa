"""The reviews of RMD over objects that are given: the wing's parts, with caches that are filled once."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

from app.admission.chain import Chain
from app.admission.parts import Cached, Context, Parts, ReviewCaches, chains
from app.kube.resources import CONFIG_MAPS
from app.registry import parts_of
from app.rmd.classes import KEY
from app.rmd.model import L3_CACHE_WAYS
from app.rmd.settings import AdmissionSettings
from app.rmd.wing import WING

JSON = dict[str, Any]
SYSTEM, CLASSES = "berth-system", "berth-rmd-classes"


def container(name: str = "c1", *, cpu: Any = "2", ways: Any = "2", **more: Any) -> JSON:
    amounts = {"cpu": cpu, "memory": "64Mi", **({L3_CACHE_WAYS: ways} if ways is not None else {})}
    return {"name": name, "image": "i", "resources": {"requests": dict(amounts), "limits": amounts}, **more}


def pod(*containers: JSON, init: tuple[JSON, ...] = (), **annotations: str) -> JSON:
    metadata = {"name": "p", "namespace": "ns", "uid": "u", "annotations": annotations}
    spec = {"nodeName": "n1", "containers": list(containers), "initContainers": list(init)}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


def node(name: str, ways: str | None = None, **labels: str) -> JSON:
    allocatable = {"cpu": "8", **({L3_CACHE_WAYS: ways} if ways is not None else {})}
    return {"kind": "Node", "metadata": {"name": name, "labels": labels}, "status": {"allocatable": allocatable}}


def workload(name: str, namespace: str = "ns", *, metadata: JSON | None = None, **spec: Any) -> JSON:
    return {
        "apiVersion": "intel.com/v1alpha1",
        "kind": "RmdWorkload",
        "metadata": {"name": name, "namespace": namespace, **(metadata or {})},
        "spec": spec,
    }


def config_map(text: str) -> JSON:
    return {**CONFIG_MAPS.body({"name": CLASSES, "namespace": SYSTEM}), "data": {KEY: text}}


async def filled(caches: ReviewCaches, *objects: JSON) -> None:
    async def of_kind(cached: Cached) -> AsyncIterator[JSON]:
        for obj in objects:
            if obj["kind"] == cached.resource.kind:
                yield obj

    await caches.fill(of_kind)


async def parts(*objects: JSON, **settings: Any) -> Parts:
    """The wing's parts of a webhook in `SYSTEM` with these settings, in a cluster with these objects."""
    context = Context(AdmissionSettings.load(settings, environment=False), SYSTEM, ReviewCaches())
    found = next(iter(parts_of(context, [WING])), Parts())
    await filled(context.caches, *objects)
    return found


async def reviewing(*objects: JSON, **settings: Any) -> dict[str, Chain]:
    return chains([await parts(*objects, **settings)], namespace=SYSTEM)
