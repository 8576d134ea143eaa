"""What a run has to write, and whether an API server holds it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from app.kube.client import KubeClient
from app.kube.resources import PODS
from app.wire import JSON
from bench import companions_seeding as seeding
from bench.companions_objects import STATUS_KINDS
from bench.rounds import MeasureError


@dataclass(frozen=True, slots=True)
class Writes:
    """The Pods to create, and the statuses as objects with kind, metadata and status, written once each."""

    pods: Sequence[JSON]
    statuses: Sequence[JSON]

    def __len__(self) -> int:
        return len(self.pods) + len(self.statuses)

    async def created(self, client: KubeClient) -> bool:
        """Whether as many Pods exist."""
        return await seeding.count(client) >= len(self.pods)

    async def told(self, client: KubeClient) -> bool:
        """Whether all statuses are as they should be."""
        return not await self._other_statuses(client)

    async def check(self, client: KubeClient) -> None:
        """Exactly these Pods exist, with these annotations and this spec as far as it was given, and these statuses."""
        found = {pod["metadata"]["name"]: pod for pod in await seeding.everything(client, PODS)}
        wanted = {pod["metadata"]["name"]: pod for pod in self.pods}
        if found.keys() != wanted.keys():
            raise MeasureError(f"Pods are missing or too many: {sorted(found.keys() ^ wanted.keys())[:5]}")
        for name, pod in wanted.items():
            there = found[name]
            same = all(there["metadata"].get(part) == pod["metadata"][part] for part in ("labels", "annotations"))
            if not same or there["spec"].get("affinity") != pod["spec"].get("affinity"):
                raise MeasureError(f"Pod {name} is not what it should be")
        if others := await self._other_statuses(client):
            raise MeasureError(f"statuses are not what they should be: {others[:5]}")

    async def _other_statuses(self, client: KubeClient) -> list[str]:
        found = {
            (kind, obj["metadata"]["name"]): obj.get("status")
            for kind, resource in STATUS_KINDS.items()
            for obj in await seeding.everything(client, resource)
        }
        return [
            obj["metadata"]["name"]
            for obj in self.statuses
            if _timeless(found.get((obj["kind"], obj["metadata"]["name"]))) != _timeless(obj["status"])
        ]


def _timeless(status: JSON | None) -> JSON:
    """A status as it is stored, where null is no value, without the times of its conditions."""
    found = dict(status or {})
    if "rules" in found:
        found["rules"] = {kind: entries for kind, entries in found["rules"].items() if entries is not None}
    if "conditions" in found:
        found["conditions"] = [{**one, "lastTransitionTime": ""} for one in found["conditions"]]
    return found
