"""Whether a companion runs, and what keeps it from that, in one word of the Pod's own status. Pure."""

from __future__ import annotations

from sys import intern

from app.kube.conditions import condition
from app.text import cut
from app.wire import JSON

RUNS = ""
"""The standing of a Pod that runs and is ready."""
_LONGEST = 64
_BEGINNING = ("ContainerCreating", "PodInitializing")


def standing_of(pod: JSON) -> str:
    """`RUNS`, or a reason as `kubectl get pods` and the scheduler have them: Unschedulable, ImagePullBackOff, NotReady.

    The result is one string for all Pods that have the same.
    """
    return intern(cut(_standing(pod.get("status") or {}, pod.get("spec") or {}), _LONGEST))


def _standing(status: JSON, spec: JSON) -> str:
    phase = str(status.get("phase") or "Pending")
    if phase not in ("Pending", "Running"):
        return str(status.get("reason") or phase)
    if phase == "Running" and condition(status, "Ready").get("status") != "False":
        return RUNS
    if not spec.get("nodeName"):
        return str(condition(status, "PodScheduled").get("reason") or phase)
    for name in ("initContainerStatuses", "containerStatuses"):
        for container in status.get(name) or ():
            waiting = (container.get("state") or {}).get("waiting") or {}
            reason = str(waiting.get("reason") or _BEGINNING[0])
            if reason not in _BEGINNING:
                return reason
    return "NotReady" if phase == "Running" else _BEGINNING[0]
