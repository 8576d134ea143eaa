"""Deployments roll ReplicaSets, and for these Pods are made and deleted. The caches only say when to look."""

from __future__ import annotations

import copy

from app.devtools.sandbox.standins.dependents import (
    create_pod,
    is_ready,
    owned,
    phase,
    pod_of,
    pods_of,
    reference,
    template_hash,
)
from app.devtools.sandbox.standins.reconciling import Watched, delete, reconciling, write_status
from app.errors import ApiError
from app.kube.client import KubeClient
from app.kube.resources import DEPLOYMENTS, PODS, REPLICA_SETS
from app.kube.store import Key
from app.text import stamp
from app.wire import JSON

_HASH = "pod-template-hash"


class DeploymentKeeper:
    """A ReplicaSet for each template, the new one up first, the old one down when the new is ready.

    What is left of an older template is deleted: nothing rolls back.
    """

    def __init__(self, client: KubeClient, watched: Watched) -> None:
        self._client = client
        self._deployments, sets = watched.store(DEPLOYMENTS), watched.store(REPLICA_SETS)
        self.controller = reconciling(
            "deployments", self._reconcile, self._deployments, sets, owned=sets, kind=DEPLOYMENTS.kind
        )

    async def _reconcile(self, key: Key) -> None:
        found = self._deployments.get(*key)
        if found is None or found["metadata"].get("deletionTimestamp"):
            return
        wanted = int(found["spec"].get("replicas", 1))
        mine = await owned(self._client, REPLICA_SETS, found)
        name = f"{key[1]}-{template_hash(found)}"
        current = next((one for one in mine if one["metadata"]["name"] == name), None)
        if current is None:
            current = await self._create(found, name, wanted)
        elif current["spec"].get("replicas") != wanted:
            body = {"spec": {"replicas": wanted}}
            await self._client.patch(REPLICA_SETS, name, body, patch_type="merge", namespace=key[0])
        ready = int((current.get("status") or {}).get("availableReplicas") or 0)
        old = [one for one in mine if one["metadata"]["name"] != name]
        if ready >= wanted:
            for one in old:
                await delete(self._client, REPLICA_SETS, one)  # the garbage collector takes its Pods along
        await write_status(self._client, DEPLOYMENTS, found, _deployment_status(found, current, old, wanted=wanted))

    async def _create(self, deployment: JSON, name: str, wanted: int) -> JSON:
        template: JSON = copy.deepcopy(deployment["spec"]["template"])
        label = {_HASH: template_hash(deployment)}
        labels = {**((template.get("metadata") or {}).get("labels") or {}), **label}
        template["metadata"] = {**(template.get("metadata") or {}), "labels": labels}
        selector: JSON = copy.deepcopy(deployment["spec"]["selector"])
        selector["matchLabels"] = {**(selector.get("matchLabels") or {}), **label}
        metadata = {"name": name, "labels": labels, "ownerReferences": [reference(DEPLOYMENTS, deployment)]}
        spec = {"replicas": wanted, "selector": selector, "template": template}
        body = REPLICA_SETS.body(metadata, spec=spec)
        return await self._client.create(REPLICA_SETS, body, namespace=deployment["metadata"]["namespace"])


class ReplicaSetKeeper:
    """Keeps as many Pods of each ReplicaSet as it wants, and says how many are ready."""

    def __init__(self, client: KubeClient, watched: Watched) -> None:
        self._client = client
        self._sets, pods = watched.store(REPLICA_SETS), watched.store(PODS)
        self.controller = reconciling("replicasets", self._reconcile, self._sets, owned=pods, kind=REPLICA_SETS.kind)

    async def _reconcile(self, key: Key) -> None:
        found = self._sets.get(*key)
        if found is None or found["metadata"].get("deletionTimestamp"):
            return
        pods = await pods_of(self._client, found)
        wanted = int(found["spec"].get("replicas", 1))
        # What has ended by itself is made again; what is ready stays longest.
        alive = sorted((pod for pod in pods if phase(pod) not in ("Succeeded", "Failed")), key=is_ready, reverse=True)
        for pod in alive[wanted:]:
            await delete(self._client, PODS, pod)
        refused: ApiError | None = None
        for _ in range(wanted - len(alive)):
            try:
                await create_pod(self._client, found, pod_of(REPLICA_SETS, found))
            except ApiError as error:  # the status still has to say what there is
                refused = error
                break
        kept = alive[:wanted]
        ready = sum(map(is_ready, kept))
        status = {
            "replicas": len(kept),
            "readyReplicas": ready,
            "availableReplicas": ready,
            "observedGeneration": found["metadata"].get("generation", 1),
        }
        await write_status(self._client, REPLICA_SETS, found, status)
        if refused is not None:
            raise refused


def _deployment_status(deployment: JSON, current: JSON, old: list[JSON], *, wanted: int) -> JSON:
    now: JSON = current.get("status") or {}
    ready = int(now.get("readyReplicas") or 0)
    before = sum(int((one.get("status") or {}).get("readyReplicas") or 0) for one in old)
    updated = int(now.get("replicas") or 0)
    known = {one["type"]: one for one in (deployment.get("status") or {}).get("conditions") or []}
    progress = "NewReplicaSetAvailable" if ready >= wanted and not old else "ReplicaSetUpdated"
    return {
        "observedGeneration": deployment["metadata"].get("generation", 1),
        "replicas": updated + sum(int((one.get("status") or {}).get("replicas") or 0) for one in old),
        "updatedReplicas": updated,
        "readyReplicas": ready + before,
        "availableReplicas": ready + before,
        "unavailableReplicas": max(0, wanted - ready - before),
        "conditions": [
            _condition(known.get("Available"), "Available", holds=ready + before >= wanted, reason="MinimumReplicas"),
            _condition(known.get("Progressing"), "Progressing", holds=True, reason=progress),
        ],
    }


def _condition(before: JSON | None, kind: str, *, holds: bool, reason: str) -> JSON:
    state = "True" if holds else "False"
    if before is not None and (before.get("status"), before.get("reason")) == (state, reason):
        return before
    now = stamp()
    since = before["lastTransitionTime"] if before is not None and before.get("status") == state else now
    return {"type": kind, "status": state, "reason": reason, "lastUpdateTime": now, "lastTransitionTime": since}
