"""One RmdWorkload: its finalizer, the nodes that its status names, its condition, and Events."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any

from app.kube.client import KubeClient
from app.kube.conditions import condition, set_condition
from app.kube.controller import Done, Result
from app.kube.events import EventRecorder, EventType, Regarding
from app.kube.resources import PODS
from app.kube.retry import if_there
from app.kube.store import Key
from app.kube.writing import finalized, merge
from app.rmd.controller.caches import Caches
from app.rmd.controller.states import PENDING, readiness
from app.rmd.model import FINALIZER, READY, RMD_WORKLOADS
from app.rmd.stored import Workload
from app.wire import JSON, copied


class WorkloadSync:
    """A node is named in the status before its daemon is asked, and until that holds nothing any more."""

    def __init__(
        self, client: KubeClient, caches: Caches, events: EventRecorder | None, now: Callable[[], datetime]
    ) -> None:
        self._client, self._caches, self._events, self._now = client, caches, events, now

    async def reconcile(self, key: Key) -> Result:
        """One write at most, whose change asks for the next. A conflict says that the object has changed meanwhile."""
        workload = self._caches.workloads.get(*key)
        if workload is None:
            return Done()
        targets = () if workload.deleting else self._caches.targets_of(workload)
        gone = [node for node in workload.states if node not in targets and not self._caches.known(node)]
        if workload.deleting and set(gone) == set(workload.states):
            if workload.finalized:
                await self._patch(workload, finalized(workload.finalizers, FINALIZER, present=False))
        elif not workload.deleting and not workload.finalized and targets and not workload.read.problems:
            await self._patch(workload, finalized(workload.finalizers, FINALIZER, present=True))
        else:
            await self._status(workload, targets, gone)
        return Done()

    async def _status(self, workload: Workload, targets: tuple[str, ...], gone: list[str]) -> None:
        new = [] if workload.read.problems else [node for node in targets if node not in workload.states]
        states: dict[str, Any] = dict.fromkeys(new, PENDING) | dict.fromkeys(gone)
        after = copied(dict(workload.status))
        after.pop("workloadStates", None)
        truth, reason, message = readiness(workload, targets)
        set_condition(after, READY, truth, reason, message, now=self._now(), generation=workload.generation)
        after["observedGeneration"] = workload.generation
        if not states and all(workload.status.get(name) == value for name, value in after.items()):
            return
        body: JSON = {"status": {**after, **({"workloadStates": states} if states else {})}}
        await self._patch(workload, body, subresource="status")
        self._record(workload, after)

    async def _patch(self, workload: Workload, body: JSON, *, subresource: str = "") -> None:
        await if_there(merge(self._client, RMD_WORKLOADS, workload, body, subresource=subresource))

    def _record(self, workload: Workload, after: Mapping[str, Any]) -> None:
        """On the RmdWorkload, and on the Pod that it is made for, where the reason of the condition is another."""
        before, now = condition(dict(workload.status), READY), condition(dict(after), READY)
        if self._events is None or now["reason"] in (before.get("reason"), "Pending", "Releasing"):
            return
        about = [Regarding.of(RMD_WORKLOADS, workload.key, workload.uid)]
        if workload.pod is not None:
            name, uid = workload.pod
            about.append(Regarding.of(PODS, (workload.key[0], name), uid))
        for regarding in about:
            kind: EventType = "Normal" if now["status"] == "True" else "Warning"
            self._events.record(regarding, kind, reason=now["reason"], message=now["message"])
