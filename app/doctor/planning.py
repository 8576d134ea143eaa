"""Plans for a Pod that runs what the webhook would plan for it today, and says in words what it lacks.

Runs the injectors that answer `/mutate`, over attachments, switches and namespaces that are read once.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

from app.doctor.catalog import plain
from app.doctor.cluster import Cluster
from app.explain.rehearsal import Rehearsal, review
from app.kube.resources import NAMESPACES, NETWORK_ATTACHMENTS, Resource
from app.placement.model import DPU_OF_HOST
from app.settings.source import RoleSettings
from app.text import closest
from app.wire import JSON

Want = Literal["resources", "information", "attachment", "refused", "placement"]
"""What a Pod lacks: devices or nodes that have them; files and annotations only; an attachment that exists;
anything at all, for it would be refused; the DPUs that it is confined to."""
_HARD = frozenset({"resource", "node-selector"})


@dataclass(frozen=True, slots=True)
class Lack:
    """One thing that a Pod lacks, in words that end a sentence."""

    want: Want
    text: str


class Nearest:
    """The attachment that was probably meant, "" where none has a similar name.

    Many Pods miss the same one, and to look takes a hundredth of a second where there are many.
    """

    def __init__(self, known: Callable[[], Iterable[tuple[str, str]]]) -> None:
        self._known = known
        self.to = lru_cache(maxsize=1024)(self._nearest)

    def _nearest(self, namespace: str, name: str) -> str:
        keys = list(self._known())
        if near := closest(name, [found for where, found in keys if where == namespace]):
            return f"{namespace}/{near}"
        return next((f"{where}/{found}" for where, found in keys if found == name), "")


class Planner:
    """What one Pod lacks, by each injector for itself: an opt-out of one does not concern the other."""

    def __init__(self, settings: RoleSettings, *, namespace: str) -> None:
        # A Pod that is not confined is found even where the webhook does not confine Pods.
        rehearsal = Rehearsal(settings.model_copy(update={"confine_tenants": True}), namespace)
        self._chains, self._caches = rehearsal.alone, rehearsal.caches
        stores = {one.resource: one.store for one in self._caches.all}
        self._namespaces = stores[NAMESPACES]
        self._nearest = Nearest(stores[NETWORK_ATTACHMENTS].keys)

    async def fill(self, cluster: Cluster) -> None:
        await self._caches.fill(lambda cached: _objects(cluster, cached.resource, cached.only))

    async def networks(self, pod: JSON) -> list[Lack]:
        """What the Pod's networks need and it has not."""
        decision, plan = await review(self._chains["networks"], pod, namespace=pod["metadata"]["namespace"])
        if decision.reason == "AttachmentNotFound":
            key = decision.message.partition("'")[2].partition("'")[0]
            namespace, _, name = key.partition("/")
            like = self._nearest.to(namespace, name)
            return [Lack("attachment", f"{key}{f' (there is {like})' if like else ''}")]
        if not decision.allowed:
            return [Lack("refused", plain(decision.message))]
        if not decision.operations:
            return []
        hard = bool(_HARD & plan.injected.keys())
        keys = ("resources", "node-selector") if hard else ("annotations", "volume", "env", "record")
        text = "; ".join(plan.audit[key] for key in keys if key in plan.audit)
        if hard:
            return [Lack("resources", text or "equal requests and limits of its devices")]
        return [Lack("information", text or "what its networks bring along")]

    async def placement(self, pod: JSON) -> list[Lack]:
        """The node affinity that keeps the Pod where it belongs, and that it has not."""
        metadata = pod["metadata"]
        if ("", metadata["namespace"]) not in self._namespaces:  # it is newer than the list of namespaces
            self._namespaces.upsert({"metadata": {"name": metadata["namespace"]}})
        # A static Pod, which its kubelet shows as owned by its Node, was never scheduled.
        static = any(owner.get("kind") == "Node" for owner in metadata.get("ownerReferences") or ())
        tenant = self._namespaces.get("", metadata["namespace"])
        if static or not (tenant or DPU_OF_HOST in (metadata.get("annotations") or {})):
            return []
        # The scheduler has named the node by now; who creates a Pod must not.
        spec = {key: value for key, value in (pod.get("spec") or {}).items() if key != "nodeName"}
        decision, plan = await review(self._chains["placement"], {**pod, "spec": spec}, namespace=metadata["namespace"])
        if not decision.allowed:
            return [Lack("refused", plain(decision.message))]
        return [Lack("placement", plan.audit.get("affinity", "of its tenant or host"))] if decision.operations else []


async def _objects(cluster: Cluster, resource: Resource, only: tuple[str, str] | None) -> AsyncIterator[JSON]:
    if only is not None:
        if found := await cluster.get(resource, only[1], namespace=only[0]):
            yield found
    elif resource == NAMESPACES:
        for obj in await cluster.listed(resource):
            yield obj
    else:
        async for obj in cluster.paged(resource):
            yield obj
