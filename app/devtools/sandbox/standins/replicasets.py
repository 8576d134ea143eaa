"""Keeps as many Pods of each ReplicaSet as it wants, and says how many are ready."""

from __future__ import annotations

from app.devtools.sandbox.standins.reconciling import reconciling
from app.devtools.sandbox.standins.replicas import (
    create_pod,
    delete_pod,
    is_ready,
    owner_key,
    phase,
    pods_of,
    write_status,
)
from app.errors import ApiError
from app.kube.client import KubeClient
from app.kube.resources import REPLICA_SETS
from app.kube.store import Key, Store
from app.wire import JSON


class ReplicaSetKeeper:
    """`sets` and `pods` hold whole objects; they only say when to look."""

    def __init__(self, client: KubeClient, sets: Store[JSON], pods: Store[JSON]) -> None:
        self._client = client
        self._sets = sets
        self.controller = reconciling("replicasets", self._reconcile, sets)
        pods.subscribe(lambda _, __, old, new: self._pod_changed(new if new is not None else old))

    def _pod_changed(self, pod: JSON | None) -> None:
        key = owner_key(pod, REPLICA_SETS)
        if key is not None:
            self.controller.enqueue(key)

    async def _reconcile(self, key: Key) -> None:
        found = self._sets.get(*key)
        if found is None or found["metadata"].get("deletionTimestamp"):
            return
        pods = await pods_of(self._client, found)
        wanted = int(found["spec"].get("replicas", 1))
        # What has ended by itself is made anew; what is ready stays longest.
        alive = sorted((pod for pod in pods if phase(pod) not in ("Succeeded", "Failed")), key=is_ready, reverse=True)
        for pod in alive[wanted:]:
            await delete_pod(self._client, pod)
        refused: ApiError | None = None
        for _ in range(wanted - len(alive)):
            try:
                await create_pod(self._client, REPLICA_SETS, found)
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
