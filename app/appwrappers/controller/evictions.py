"""Why Kueue has suspended an AppWrapper: what its Workload says of the eviction."""

from __future__ import annotations

import structlog

from app.appwrappers.controller.observing import Eviction
from app.appwrappers.controller.stored import AppWrapper
from app.errors import ApiError
from app.kube.client import KubeClient
from app.kube.conditions import Truth, condition
from app.kube.discovery import Discovery

log = structlog.get_logger(__name__)
_VERSIONS = ("kueue.x-k8s.io/v1beta2", "kueue.x-k8s.io/v1beta1")
_JOB_UID = "kueue.x-k8s.io/job-uid"

_DEACTIVATED = "Deactivated"
"""What deactivated it may stand behind it: `DeactivatedDueToRequeuingLimitExceeded`."""
_STOPPED = {
    "ClusterQueueStopped": "runs again only after the ClusterQueue of the queue {queue} is started",
    "LocalQueueStopped": "runs again only after the queue {queue} is started",
}
_AFTER_A_PAUSE = ("AdmissionCheck", "PodsReadyTimeout")


def requeued(reason: str, queue: str) -> tuple[Truth, str, str]:
    """Whether an AppWrapper that was evicted for this reason waits for quota again: status, reason and message.

    By the reasons of a Workload's condition `Evicted` (Kueue v0.19, `apis/kueue/v1beta2/workload_types.go`).
    """
    if reason.startswith(_DEACTIVATED):
        return "False", _DEACTIVATED, "runs again only after spec.active of its Workload is set to true"
    if reason in _STOPPED:
        return "False", reason, _STOPPED[reason].format(queue=queue)
    pause = ", after the pause that Kueue makes" if reason in _AFTER_A_PAUSE else ""
    return "True", "Requeued", f"waits in the queue {queue} again{pause}"


class Evictions:
    def __init__(self, client: KubeClient, discovery: Discovery) -> None:
        self._client, self._discovery = client, discovery

    async def of(self, wrapper: AppWrapper) -> Eviction | None:
        """None where there is no eviction, or where nothing is known: a user may suspend as well."""
        try:
            for version in _VERSIONS:
                resource = await self._discovery.resource_of(version, "Workload")
                if resource is not None:
                    page = await self._client.list_page(
                        resource, namespace=wrapper.key[0], label_selector=f"{_JOB_UID}={wrapper.uid}"
                    )
                    found = [condition(workload.get("status") or {}, "Evicted") for workload in page.items]
                    for evicted in found:
                        if evicted.get("status") == "True":
                            return Eviction(evicted.get("reason") or "Evicted", evicted.get("message") or "")
                    return None
        except ApiError as error:
            # Why it is suspended is worth knowing, but the suspension must not wait for it.
            log.info("eviction not known", app_wrapper=wrapper.key, error=str(error))
        return None
