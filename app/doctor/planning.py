"""Plans for a Pod that runs what the webhook would plan for it today, and says in words what it lacks.

Runs the injectors that answer `/mutate`, over attachments, switches and namespaces read once. It reads nothing itself.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from difflib import get_close_matches
from functools import lru_cache
from typing import Literal

import msgspec

from app.admission.chain import Plan
from app.admission.pods import pod_from
from app.admission.review import GroupVersionKind, GroupVersionResource, Request
from app.doctor.objects import plain
from app.errors import Denied
from app.networks.model import Attachment
from app.networks.switches import Switches
from app.networks.webhook import NetworksOptions
from app.placement.model import DPU_OF_HOST, PlacementOptions
from app.placement.namespaces import KnownNamespaces
from app.reviews import ReviewContext, injectors
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


class Known:
    """Attachments that exist, in the shape of the webhook's cache."""

    def __init__(self, attachments: Iterable[Attachment]) -> None:
        self._attachments = {(one.namespace, one.name): one for one in attachments}
        self._like = lru_cache(maxsize=1024)(self._nearest)

    def get(self, namespace: str, name: str) -> Attachment | None:
        return self._attachments.get((namespace, name))

    def like(self, namespace: str, name: str) -> str:
        """The attachment that was probably meant, "" where none comes near.

        Many Pods miss the same one, and to look takes a hundredth of a second where there are many.
        """
        return self._like(namespace, name)

    def _nearest(self, namespace: str, name: str) -> str:
        names = [found for where, found in self._attachments if where == namespace]
        if close := get_close_matches(name, names, n=1):
            return f"{namespace}/{close[0]}"
        return next((f"{where}/{found}" for where, found in self._attachments if found == name), "")


class Planner:
    """`lacks` is what one Pod lacks, by each injector for itself: an opt-out of one is none of the other."""

    def __init__(
        self,
        known: Known,
        tenants: KnownNamespaces,
        *,
        switches: Switches,
        options: NetworksOptions,
        placement: PlacementOptions,
    ) -> None:
        self._known, self._tenants = known, tenants
        self._networks, self._placement = injectors(
            ReviewContext(options, placement, attachments=known, switches=lambda: switches, tenants=tenants)
        )

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
        if _of_node(metadata) or (DPU_OF_HOST not in annotations and not self._tenants.cached(metadata["namespace"])):
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
        like = self._known.like(namespace, name)
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
