"""Rolls Deployments: a ReplicaSet for each template, the new one up first, the old one down when the new is ready."""

from __future__ import annotations

import copy
import hashlib

from app.devtools.sandbox.standins.reconciling import reconciling
from app.devtools.sandbox.standins.replicas import controller_of, owner_key, reference, write_status
from app.kube.client import KubeClient
from app.kube.resources import DEPLOYMENTS, REPLICA_SETS
from app.kube.store import Key, Store
from app.text import stamp
from app.wire import JSON, encode_json

_HASH = "pod-template-hash"


class DeploymentKeeper:
    """`deployments` and `sets` hold whole objects. What is left of an older template is deleted: nothing rolls back."""

    def __init__(self, client: KubeClient, deployments: Store[JSON], sets: Store[JSON]) -> None:
        self._client = client
        self._deployments = deployments
        self.controller = reconciling("deployments", self._reconcile, deployments, sets)
        sets.subscribe(lambda _, __, old, new: self._set_changed(new if new is not None else old))

    def _set_changed(self, found: JSON | None) -> None:
        key = owner_key(found, DEPLOYMENTS)
        if key is not None:
            self.controller.enqueue(key)

    async def _reconcile(self, key: Key) -> None:
        found = self._deployments.get(*key)
        if found is None or found["metadata"].get("deletionTimestamp"):
            return
        wanted = int(found["spec"].get("replicas", 1))
        page = await self._client.list_page(REPLICA_SETS, namespace=key[0])
        mine = [one for one in page.items if controller_of(one) == found["metadata"]["uid"]]
        name = f"{key[1]}-{template_hash(found)}"
        current = next((one for one in mine if one["metadata"]["name"] == name), None)
        if current is None:
            current = await self._create(found, name, wanted)
        elif current["spec"].get("replicas") != wanted:
            await self._scale(current, wanted)
        ready = int((current.get("status") or {}).get("availableReplicas") or 0)
        old = [one for one in mine if one["metadata"]["name"] != name]
        if ready >= wanted:
            for one in old:
                await self._drop(one)
        await write_status(self._client, DEPLOYMENTS, found, _status(found, current, old, wanted=wanted))

    async def _create(self, deployment: JSON, name: str, wanted: int) -> JSON:
        template: JSON = copy.deepcopy(deployment["spec"]["template"])
        label = {_HASH: template_hash(deployment)}
        labels = {**((template.get("metadata") or {}).get("labels") or {}), **label}
        template["metadata"] = {**(template.get("metadata") or {}), "labels": labels}
        selector: JSON = copy.deepcopy(deployment["spec"]["selector"])
        selector["matchLabels"] = {**(selector.get("matchLabels") or {}), **label}
        owners = [reference(DEPLOYMENTS, deployment)]
        body = {
            "apiVersion": REPLICA_SETS.api_version,
            "kind": REPLICA_SETS.kind,
            "metadata": {"name": name, "labels": labels, "ownerReferences": owners},
            "spec": {"replicas": wanted, "selector": selector, "template": template},
        }
        return await self._client.create(REPLICA_SETS, body, namespace=deployment["metadata"]["namespace"])

    async def _scale(self, found: JSON, wanted: int) -> None:
        metadata = found["metadata"]
        body = {"spec": {"replicas": wanted}}
        await self._client.patch(
            REPLICA_SETS, metadata["name"], body, patch_type="merge", namespace=metadata["namespace"]
        )

    async def _drop(self, found: JSON) -> None:
        """The garbage collector takes its Pods along."""
        metadata = found["metadata"]
        await self._client.delete(REPLICA_SETS, metadata["name"], namespace=metadata["namespace"], uid=metadata["uid"])


def template_hash(deployment: JSON) -> str:
    """Ten characters that differ where the Pod template does."""
    return hashlib.sha256(encode_json(deployment["spec"]["template"])).hexdigest()[:10]


def _status(deployment: JSON, current: JSON, old: list[JSON], *, wanted: int) -> JSON:
    now: JSON = current.get("status") or {}
    ready = int(now.get("readyReplicas") or 0)
    before = sum(int((one.get("status") or {}).get("readyReplicas") or 0) for one in old)
    updated = int(now.get("replicas") or 0)
    status: JSON = {
        "observedGeneration": deployment["metadata"].get("generation", 1),
        "replicas": updated + sum(int((one.get("status") or {}).get("replicas") or 0) for one in old),
        "updatedReplicas": updated,
        "readyReplicas": ready + before,
        "availableReplicas": ready + before,
        "unavailableReplicas": max(0, wanted - ready - before),
    }
    known = {one["type"]: one for one in (deployment.get("status") or {}).get("conditions") or []}
    complete = ready >= wanted and not old
    status["conditions"] = [
        _condition(known.get("Available"), "Available", holds=ready + before >= wanted, reason="MinimumReplicas"),
        _condition(
            known.get("Progressing"),
            "Progressing",
            holds=True,
            reason="NewReplicaSetAvailable" if complete else "ReplicaSetUpdated",
        ),
    ]
    return status


def _condition(before: JSON | None, kind: str, *, holds: bool, reason: str) -> JSON:
    state = "True" if holds else "False"
    if before is not None and (before.get("status"), before.get("reason")) == (state, reason):
        return before
    now = stamp()
    since = before["lastTransitionTime"] if before is not None and before.get("status") == state else now
    return {"type": kind, "status": state, "reason": reason, "lastUpdateTime": now, "lastTransitionTime": since}
