"""What one pass over an AppWrapper asks for, what comes of that, and what it decides.

The Workload of an AppWrapper says why Kueue has suspended it.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, TypeVar

import structlog

from app.appwrappers.controller.health import Health
from app.appwrappers.controller.stored import AppWrapper
from app.errors import ApiError
from app.kube.client import KubeClient
from app.kube.conditions import Truth, condition
from app.kube.discovery import Discovery
from app.wire import JSON

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


@dataclass(frozen=True, slots=True)
class Creation:
    """The objects that exist, by number of the component, with their names. `problem` is of the first that does not.

    It is `fatal` where no other try can succeed. With `unauthored` none was tried: it is not known as whom.
    """

    created: Mapping[int, str] = field(default_factory=dict)
    failed: int | None = None
    problem: str = ""
    fatal: bool = False
    unauthored: bool = False


@dataclass(frozen=True, slots=True)
class Deletion:
    """The components that are known to be gone, with a remark on those that only finalizers hold; and what is left.

    `problem` is the last fault of a request: no change will ask for the next try.
    """

    gone: Mapping[int, str] = field(default_factory=dict)
    components: int = 0
    pods: int = 0
    problem: str = ""


@dataclass(frozen=True, slots=True)
class Eviction:
    """Why Kueue has suspended an AppWrapper."""

    reason: str
    message: str


@dataclass(frozen=True, slots=True)
class Observation:
    """How what is deployed does. `missing` is what is wrong with the objects, "" where all exist.

    Where they are not `watched`, no change of them asks for the next look.
    """

    health: Health
    missing: str = ""
    watched: bool = True


@dataclass(frozen=True, slots=True)
class Step:
    """`status` is the status from here on. "finalize" adds the finalizer, "release" removes it after that is written.

    `event` is a reason and a message. `after` are the seconds until the next look; None where only a change of what is
    watched asks for one.
    """

    status: JSON
    action: Literal["", "finalize", "release"] = ""
    event: tuple[str, str] | None = None
    after: float | None = None


Request = Literal["eviction", "create", "observe", "delete", "force"]
"""What a pass asks for: an Eviction or None, a Creation, an Observation, a Deletion; with "force" one without grace."""
T = TypeVar("T")
Pass = Generator[Request, Any, T]
"""Yields what it needs, and is sent what came of it."""


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
                    evictions = [condition(workload.get("status") or {}, "Evicted") for workload in page.items]
                    for evicted in evictions:
                        if evicted.get("status") == "True":
                            return Eviction(evicted.get("reason") or "Evicted", evicted.get("message") or "")
                    return None
        except ApiError as error:
            # Why it is suspended is worth knowing, but the suspension must not wait for it.
            log.info("eviction not known", app_wrapper=wrapper.key, error=str(error))
        return None
