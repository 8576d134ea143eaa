"""Plans for a Pod that runs what the webhook would plan for it today, and says in words what it lacks.

Runs the injectors that answer `/mutate`, over attachments, switches and namespaces read once. It reads nothing itself.
"""

from __future__ import annotations

from collections.abc import AsyncIterable, Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from functools import lru_cache
from typing import Literal, cast

import msgspec

from app.admission.chain import Plan
from app.admission.parts import Cached, Caches, Context
from app.admission.pods import pod_from
from app.admission.review import GroupVersionKind, GroupVersionResource, Request
from app.doctor.objects import plain
from app.errors import Denied
from app.kube.resources import NAMESPACES, NETWORK_ATTACHMENTS
from app.kube.store import Key
from app.networks.webhook import NetworksInjector
from app.placement.model import DPU_OF_HOST
from app.placement.namespaces import tenant_of
from app.placement.webhook import PlacementInjector
from app.registry import parts_of
from app.settings.source import RoleSettings
from app.wire import JSON, encode_json

Want = Literal["resources", "information", "attachment", "refused", "placement"]
"""What a Pod lacks: devices or nodes that have them; files and annotations only; an attachment that exists;
anything at all, for it would be refused; the DPUs that it is confined to."""
_POD = GroupVersionKind(version="v1", kind="Pod")
_PODS = GroupVersionResource(version="v1", resource="pods")
_HARD = frozenset({"resource", "node-selector"})


@dataclass(frozen=True, slots=True)
class Lack:
    """One thing that a Pod lacks, in words that end a sentence."""

    want: Want
    text: str


class Nearest:
    """The attachment that was probably meant, "" where none comes near.

    Many Pods miss the same one, and to look takes a hundredth of a second where there are many.
    """

    def __init__(self, known: Callable[[], Iterable[Key]]) -> None:
        self._known = known
        self.to = lru_cache(maxsize=1024)(self._nearest)

    def _nearest(self, namespace: str, name: str) -> str:
        keys = list(self._known())
        if close := get_close_matches(name, [found for where, found in keys if where == namespace], n=1):
            return f"{namespace}/{close[0]}"
        return next((f"{where}/{found}" for where, found in keys if found == name), "")


class Planner:
    """What one Pod lacks, by each injector for itself: an opt-out of one does not concern the other.

    `namespaces` are those of the cluster by name.
    """

    def __init__(self, settings: RoleSettings, *, namespace: str, namespaces: Mapping[str, JSON]) -> None:
        self._caches = Caches()
        # A Pod that is not confined is found even where the webhook does not confine Pods.
        confining = settings.model_copy(update={"confine_tenants": True})
        parts = parts_of(Context(confining, namespace, self._caches))
        injectors = {injector.name: injector for part in parts for injector in part.injectors}
        self._networks = cast("NetworksInjector", injectors[NetworksInjector.name])
        self._placement = injectors[PlacementInjector.name]
        self._namespaces = namespaces
        stores = {one.resource: one.store for one in self._caches.all}
        self._tenants = stores[NAMESPACES]
        self._nearest = Nearest(stores[NETWORK_ATTACHMENTS].keys)

    async def fill(self, read: Callable[[Cached], AsyncIterable[JSON]]) -> None:
        """Fill the caches of the injectors with what `read` finds for each."""
        await self._caches.fill(read)

    async def networks(self, pod: JSON) -> list[Lack]:
        """What the Pod's networks need and it has not."""
        namespace = pod["metadata"]["namespace"]

        def plan_it(plan: Plan) -> Awaitable[None] | None:
            return self._networks.inject_pod(pod_from(pod), namespace=namespace, plan=plan)

        try:
            plan = await _planned(plan_it)
        except Denied as denial:
            return [self._denied(denial)]
        if not plan.patch.operations:
            return []
        if not _HARD & plan.injected.keys():
            return [Lack("information", _soft(plan))]
        parts = [plan.audit[key] for key in ("resources", "node-selector") if key in plan.audit]
        return [Lack("resources", "; ".join(parts) or "equal requests and limits of its devices")]

    async def placement(self, pod: JSON) -> list[Lack]:
        """The node affinity that keeps the Pod where it belongs, and that it has not."""
        metadata = pod["metadata"]
        annotations = metadata.get("annotations") or {}
        namespace = self._namespaces.get(metadata["namespace"])
        if namespace is None:  # it is newer than the list of namespaces
            namespace = {"metadata": {"name": metadata["namespace"]}}
            self._tenants.upsert(namespace)
        if _of_node(metadata) or (DPU_OF_HOST not in annotations and not tenant_of(namespace)):
            return []
        # The scheduler has named the node by now; who creates a Pod must not.
        spec = {key: value for key, value in (pod.get("spec") or {}).items() if key != "nodeName"}
        request = Request(
            uid="doctor",
            kind=_POD,
            resource=_PODS,
            operation="CREATE",
            namespace=metadata["namespace"],
            dry_run=True,
            object=msgspec.Raw(encode_json({**pod, "spec": spec})),
        )
        try:
            plan = await _planned(lambda plan: self._placement.inject(request, plan))
        except Denied as denial:
            return [Lack("refused", plain(denial))]
        return [Lack("placement", plan.audit.get("affinity", "of its tenant or host"))] if plan.patch.operations else []

    def _denied(self, denial: Denied) -> Lack:
        if denial.reason != "AttachmentNotFound":
            return Lack("refused", plain(denial))
        key = str(denial).partition("'")[2].partition("'")[0]
        namespace, _, name = key.partition("/")
        like = self._nearest.to(namespace, name)
        return Lack("attachment", f"{key}{f' (there is {like})' if like else ''}")


async def _planned(work: Callable[[Plan], Awaitable[None] | None]) -> Plan:
    plan = Plan()
    waiting = work(plan)
    if waiting is not None:
        await waiting
    return plan


def _soft(plan: Plan) -> str:
    parts = [plan.audit[key] for key in ("annotations", "volume", "env", "record") if key in plan.audit]
    return "; ".join(parts) or "what its networks bring along"


def _of_node(metadata: JSON) -> bool:
    """Whether a kubelet shows a static Pod by it: that one was never scheduled."""
    return any(owner.get("kind") == "Node" for owner in metadata.get("ownerReferences") or ())
