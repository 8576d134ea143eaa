"""What a Pod lacks of what the webhook would give it today, as the injectors plan it that answer `/mutate`."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache
from typing import TYPE_CHECKING, Literal, cast

import jsonpatch

from app.admission.chain import Chain, Reviewed
from app.admission.injected import INJECTED_BY
from app.admission.pods import pod_from
from app.claims.injection.claims import extended_resources
from app.doctor import commands
from app.doctor.catalog import plain
from app.doctor.cluster import Cluster
from app.doctor.model import Severity
from app.errors import ApiError, Transient
from app.explain.rehearsal import Rehearsal, review
from app.kube.resources import NAMESPACES, NETWORK_ATTACHMENTS, Resource
from app.kube.store import PoisonError
from app.networks.podnetinfo import VOLUME
from app.networks.why.makers import Owner
from app.placement.model import DPU_OF_HOST
from app.placement.settings import ConfinementSettings
from app.registry import settings_of
from app.settings.source import RoleSettings
from app.text import closest
from app.wire import JSON, decode_json, encode_json

if TYPE_CHECKING:
    from app.kube.client import KubeClient

Want = Literal["resources", "information", "attachment", "refused", "placement"]
"""What a Pod lacks: devices or nodes that have them; files and annotations only; an attachment that exists;
anything at all, for it would be refused; the DPUs that it is confined to."""
LACKING: dict[Want, tuple[Severity, str]] = {
    "resources": (Severity.error, "BERTH1201"),
    "information": (Severity.warning, "BERTH1202"),
    "attachment": (Severity.error, "BERTH1203"),
    "refused": (Severity.warning, "BERTH1204"),
    "placement": (Severity.error, "BERTH1205"),
}
_HARD = frozenset({"resource", "node-selector"})


@dataclass(frozen=True, slots=True)
class Lack:
    """One thing that a Pod lacks, in words that end a sentence."""

    want: Want
    text: str


async def remedy(cluster: Cluster, owner: Owner, lack: Lack, pods: list[str]) -> str:
    """The command after which Pods of an owner have what they lack, or that shows what asks for too much."""
    settings = await cluster.settings(ConfinementSettings)
    if lack.want in ("attachment", "refused"):
        return owner.edit()
    command = owner.renew(pods)
    if f"{settings.tenant_node_label}=" in lack.text and lack.want == "placement" and not settings.confine_tenants:
        return f"{await commands.helm(cluster, 'webhook.args.confineTenants=true')}\n{command}"
    return command


def history(pods: int, older: int, since: datetime | None) -> str:
    """Why Pods lack something, as far as dates show; `older` of them are older than the registration of Berth."""
    if since is None:
        return ""
    if older == pods:
        return f": created before Berth was registered ({since:%Y-%m-%d %H:%M} UTC)"
    if older:
        return f": {older} of {pods} were created before Berth was registered"
    why = "was not asked (it was away, or its registration left the Pod out), or what the Pod needs was changed later"
    return f": created after Berth was registered: either Berth {why}"


def changed_later(pod: JSON, lack: Lack) -> str:
    """That Berth injected into a Pod, so that what it needs was changed since; "" where the Pod does not show it."""
    volumes = (pod.get("spec") or {}).get("volumes") or ()
    annotations = pod["metadata"].get("annotations") or {}
    injected = INJECTED_BY in annotations or any(volume.get("name") == VOLUME for volume in volumes)
    if not injected or lack.want not in ("resources", "information"):
        return ""
    names = [request.resource for request in extended_resources(pod_from(pod))]
    former = ", ".join(name for name in names if f"{name}=" not in lack.text)
    has = f" (it has {former})" if former else ""
    return (
        f"Berth injected into it when it was created{has}, and its networks, or what they ask for, were changed later"
    )


class Nearest:
    """The attachment that was probably meant, "" where none has a similar name.

    Many Pods miss the same one, and to look takes a hundredth of a second where there are many.
    """

    def __init__(self, keys: Callable[[], Iterable[tuple[str, str]]]) -> None:
        self._keys = keys
        self.to = lru_cache(maxsize=1024)(self._nearest)

    def _nearest(self, namespace: str, name: str) -> str:
        keys = list(self._keys())
        if near := closest(name, [key for where, key in keys if where == namespace]):
            return f"{namespace}/{near}"
        return next((f"{where}/{key}" for where, key in keys if key == name), "")


class _Reader:
    """A client for the lookups of a rehearsal: reads each object once, and keeps what was refused."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self.refusal: ApiError | None = None

    async def get(self, resource: Resource, name: str, *, namespace: str | None = None) -> JSON:
        try:
            obj = await self._cluster.get(resource, name, namespace=namespace)
        except ApiError as refusal:
            self.refusal = refusal
            raise
        if obj is None:
            raise ApiError(f"there is no {resource.kind} {name}", status=404, reason="NotFound")
        return obj


class Planner:
    """What one Pod lacks, by each injector for itself: an opt-out of one does not concern the other.

    It knows what it was filled with, or is told with `learn`; with a `cluster` it reads the rest there.
    """

    def __init__(self, settings: RoleSettings, *, namespace: str, cluster: Cluster | None = None) -> None:
        # A Pod that is not confined is found even where the webhook does not confine Pods.
        rehearsal = Rehearsal(settings.model_copy(update={"confine_tenants": True}), namespace)
        self._chains, self._caches, self._reader = rehearsal.alone, rehearsal.caches, None
        stores = {cached.resource: cached.store for cached in self._caches.all}
        self._namespaces = stores[NAMESPACES]
        self._nearest = Nearest(stores[NETWORK_ATTACHMENTS].keys)
        if cluster is not None:
            self._reader = _Reader(cluster)
            self._caches.client = cast("KubeClient", self._reader)
            for cached in self._caches.all:
                cached.store.mark_synced()

    async def fill(self, cluster: Cluster) -> None:
        await self._caches.fill(lambda cached: _objects(cluster, cached.resource, cached.only))

    def learn(self, resource: Resource, obj: JSON) -> None:
        """An object, in place of one of its name."""
        for cached in self._caches.all:
            if cached.resource == resource:
                with suppress(PoisonError):
                    cached.store.upsert(obj)

    async def _review(self, chain: Chain, pod: JSON) -> Reviewed:
        """Raises ApiError where something that decides may not be read."""
        try:
            return await review(chain, pod, namespace=pod["metadata"]["namespace"])
        except Transient as fault:
            if self._reader is None or self._reader.refusal is None:
                raise
            raise self._reader.refusal from fault

    async def networks(self, pod: JSON) -> list[Lack]:
        """What the Pod's networks need and it has not."""
        decision, plan = await self._review(self._chains["networks"], pod)
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
        decision, plan = await self._review(self._chains["placement"], _unscheduled(pod))
        if not decision.allowed:
            return [Lack("refused", plain(decision.message))]
        return [Lack("placement", plan.audit.get("affinity", "of its tenant or host"))] if decision.operations else []

    async def placed(self, pod: JSON) -> JSON:
        """The Pod with the affinity that it would get; as it is where it would be refused."""
        decision, _ = await self._review(self._chains["placement"], pod)
        operations = decode_json(encode_json(decision.operations)) if decision.allowed else []
        return cast("JSON", jsonpatch.apply_patch(pod, operations, in_place=False))


async def planner_of(cluster: Cluster) -> Planner:
    """One that reads what it is not told, each object once."""
    return Planner(await cluster.settings(settings_of("webhook")), namespace=cluster.namespace, cluster=cluster)


def _unscheduled(pod: JSON) -> JSON:
    """The scheduler has named the node by now; who creates a Pod must not."""
    return {**pod, "spec": {key: value for key, value in (pod.get("spec") or {}).items() if key != "nodeName"}}


async def _objects(cluster: Cluster, resource: Resource, only: tuple[str, str] | None) -> AsyncIterator[JSON]:
    if only is not None:
        if obj := await cluster.get(resource, only[1], namespace=only[0]):
            yield obj
    elif resource == NAMESPACES:
        for obj in await cluster.listed(resource):
            yield obj
    else:
        async for obj in cluster.paged(resource):
            yield obj
