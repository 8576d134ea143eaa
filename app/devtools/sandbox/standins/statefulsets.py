"""The controller of StatefulSets: does what `statefulsetplan` says."""

from __future__ import annotations

from app.devtools.sandbox.standins.dependents import create_pod, owned, pod_of
from app.devtools.sandbox.standins.reconciling import Watched, delete, reconciling, write_status
from app.devtools.sandbox.standins.statefulsetplan import next_step, put_identity
from app.kube.client import KubeClient
from app.kube.resources import PODS, STATEFUL_SETS
from app.kube.store import Key


class StatefulSetKeeper:
    """Keeps the Pods of StatefulSets, each under its own name."""

    def __init__(self, client: KubeClient, watched: Watched) -> None:
        self._client = client
        self._sets, pods = watched.store(STATEFUL_SETS), watched.store(PODS)
        self.controller = reconciling("statefulsets", self._reconcile, self._sets, owned=pods, kind=STATEFUL_SETS.kind)

    async def _reconcile(self, key: Key) -> None:
        found = self._sets.get(*key)
        if found is None or found["metadata"].get("deletionTimestamp"):
            return
        step = next_step(found, await owned(self._client, PODS, found))
        await write_status(self._client, STATEFUL_SETS, found, step.status)
        for pod in step.delete:
            await delete(self._client, PODS, pod)
        for ordinal in step.create:
            made = pod_of(STATEFUL_SETS, found)
            put_identity(made, found, ordinal)
            await create_pod(self._client, found, made)
