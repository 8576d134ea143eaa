"""Names of the AppWrapper API and of what it shares with Kueue: kinds, marks, phases, conditions and their reasons."""

from __future__ import annotations

from typing import Literal

from app.kube.resources import Resource
from app.wire import JSON

APP_WRAPPERS = Resource("workload.codeflare.dev", "v1beta2", "appwrappers", "AppWrapper")

FINALIZER = "workload.codeflare.dev/finalizer"
MANAGER = "workload.codeflare.dev/appwrapper-controller"
"""The value of `spec.managedBy` that stands for the controller here, as no value does."""
APP_WRAPPER = "workload.codeflare.dev/appwrapper"
"""Label on each created object and each Pod template in it, by the controller: the name of the AppWrapper."""
APP_WRAPPER_UID = "berth.dev/appwrapper-uid"
"""Label on each created object, by the controller: our mark; the UID of the AppWrapper."""
POD_SET = "berth.dev/appwrapper-pod-set"
"""Label on each Pod template in a created object, by the controller: the number of its podSet in the AppWrapper."""
USER, USER_ID = "workload.codeflare.dev/user", "workload.codeflare.dev/userid"
"""Labels on an AppWrapper, by the webhook: who created it, as label values."""
CREATOR = "berth.dev/appwrapper-creator"
"""Annotation on an AppWrapper, by the webhook if admission is strict: who created it, JSON of the review's userInfo
without the id of the credential. Only the webhook can write it.
"""
ANNOTATIONS = "workload.codeflare.dev.appwrapper/"
"""Prefix of the annotations of an AppWrapper, and of those of a podSet."""

QUEUE_NAME = "kueue.x-k8s.io/queue-name"
"""Label on an AppWrapper: the LocalQueue, in its namespace, through which Kueue admits it. An empty one names none.

AppWrapper v0.5 had it as an annotation, which counts where there is no label; the webhook makes a label of it.
"""

Phase = Literal["", "Suspended", "Resuming", "Running", "Resetting", "Suspending", "Succeeded", "Failed", "Terminating"]
PHASES: tuple[Phase, ...] = (
    "Suspended",
    "Resuming",
    "Running",
    "Resetting",
    "Suspending",
    "Succeeded",
    "Failed",
    "Terminating",
)

QUOTA_RESERVED = "QuotaReserved"
RESOURCES_DEPLOYED = "ResourcesDeployed"
PODS_READY = "PodsReady"
UNHEALTHY = "Unhealthy"
DELETING_RESOURCES = "DeletingResources"
"""The types of conditions. The status of a component has `ResourcesDeployed`, and `ENDED`."""
ENDED = "Ended"
"""The type of a condition of Berth's own in the status of a component: its object has ended, and may be gone since.

AppWrapper v1.2 keeps it, and does not read it.
"""
PREEMPTED, REQUEUED, RESETTING, DELETION_PAUSED = "Preempted", "Requeued", "Resetting", "DeletionPaused"
"""Types of conditions of Berth's own: Kueue has taken the quota, it waits again; two times that timers start from."""
NO_AUTHOR = "AuthorUnknown"
"""The reason of `Unhealthy` where components are created by impersonation, and it is not known of whom."""
DELETED = "CompononetDeleted"
"""The reason of a component that is gone, as AppWrapper v1.2 spells it."""

MOST_POD_SETS = 18
"""How many podSets a Workload of Kueue may have, where its definition does not say it."""


def queue_of(obj: JSON) -> str:
    """The LocalQueue that an object names, "" where it names none; the object may be unchecked JSON.

    All that asks for the queue of an AppWrapper asks here, so that one which waits for some does not run for others.
    """
    metadata = obj.get("metadata")
    if isinstance(metadata, dict):
        for texts in (metadata.get("labels"), metadata.get("annotations")):
            if isinstance(texts, dict) and QUEUE_NAME in texts:
                return str(texts[QUEUE_NAME] or "")
    return ""


def of_admission(spec: JSON) -> list[str]:
    """The fields of an AppWrapper that its last admission has written, as JSON pointers: one made anew has none."""
    components = enumerate(spec.get("components") or ())
    infos = [f"/spec/components/{index}/podSetInfos" for index, component in components if "podSetInfos" in component]
    return [*(["/spec/suspend"] if "suspend" in spec else []), *infos]


def pod_set_name(app_wrapper: str, number: int) -> str:
    """How Kueue calls a podSet; the number counts over all components."""
    return f"{app_wrapper}-{number}".lower()
