"""Writes what a kubelet says of a Pod with one container."""

from __future__ import annotations

from dataclasses import dataclass

from app.kube.client import KubeClient
from app.kube.resources import PODS
from app.text import stamp
from app.wire import JSON


@dataclass(frozen=True, slots=True)
class Seen:
    """The container as it is: `exit_code` is None while it runs or is started again."""

    address: str
    ready: bool
    restarts: int
    exit_code: int | None = None


async def report(client: KubeClient, pod: JSON, seen: Seen) -> None:
    """Write what has changed. Raises ApiError where the Pod is gone, or another has its name."""
    metadata, status = pod["metadata"], _status(pod, seen, now=stamp())
    if all((pod.get("status") or {}).get(name) == value for name, value in status.items()):
        return
    body = {"metadata": {"uid": metadata["uid"]}, "status": status}
    await client.patch(
        PODS, metadata["name"], body, patch_type="strategic", namespace=metadata["namespace"], subresource="status"
    )


def _status(pod: JSON, seen: Seen, *, now: str) -> JSON:
    """The fields of the status that a kubelet owns; times of what has not changed stay."""
    before: JSON = pod.get("status") or {}
    known = {one["type"]: one for one in before.get("conditions") or []}
    holds = {"Initialized": True, "ContainersReady": seen.ready, "Ready": seen.ready}
    phase = "Running" if seen.exit_code is None else "Failed" if seen.exit_code else "Succeeded"
    started = before.get("startTime") or now
    return {
        "phase": phase,
        "startTime": started,
        "podIP": seen.address,
        "podIPs": [{"ip": seen.address}],
        "conditions": [
            *(one for kind, one in known.items() if kind not in holds),
            *(_condition(known.get(kind), kind, holds=true, now=now) for kind, true in holds.items()),
        ],
        "containerStatuses": [_container(pod["spec"]["containers"][0], seen, started=started, now=now)],
    }


def _condition(before: JSON | None, kind: str, *, holds: bool, now: str) -> JSON:
    state = "True" if holds else "False"
    if before is not None and before["status"] == state:
        return before
    return {"type": kind, "status": state, "lastProbeTime": None, "lastTransitionTime": now}


def _container(spec: JSON, seen: Seen, *, started: str, now: str) -> JSON:
    state: JSON = {"running": {"startedAt": started}}
    if seen.exit_code is not None:
        reason = "Error" if seen.exit_code else "Completed"
        # A signal is an exit code as in shells.
        code = seen.exit_code if seen.exit_code >= 0 else 128 - seen.exit_code
        state = {"terminated": {"exitCode": code, "reason": reason, "startedAt": started, "finishedAt": now}}
    return {
        "name": spec["name"],
        "image": spec.get("image", ""),
        "imageID": "",
        "ready": seen.ready,
        "started": seen.exit_code is None,
        "restartCount": seen.restarts,
        "lastState": {},
        "state": state,
    }
