"""What a kubelet reports about a Pod that runs, or has run. Pure; the clock and the address are arguments."""

from __future__ import annotations

from datetime import datetime

from app.devtools.sandbox.standins.commands import Run, run_of
from app.devtools.sandbox.standins.containerstates import due, last_end, next_status, restarts, stopped
from app.text import stamp
from app.wire import JSON

EXIT_ANNOTATION = "berth.dev/sandbox-exit"
"""Annotation on a Pod with restartPolicy Never in the sandbox, by its author: its containers end at once with this
exit code."""


def pod_status(pod: JSON, *, now: datetime, pod_ip: str, host_ip: str) -> JSON:
    """The whole status of the Pod on its node: each container as its command has it, the Pod as its containers."""
    before: JSON = pod.get("status") or {}
    known = {one["name"]: one for one in before.get("containerStatuses") or []}
    policy = _policy(pod)
    containers = [
        next_status(one, known.get(one["name"]), _run(pod, one), policy=policy, now=now)
        for one in pod["spec"].get("containers") or []
    ]
    phase = _phase(containers, policy)
    running = phase == "Running"
    status: JSON = {
        "phase": phase,
        "conditions": _conditions(pod, containers, phase, now=stamp(now)),
        "hostIP": host_ip,
        "hostIPs": [{"ip": host_ip}],
        "podIP": pod_ip,
        "podIPs": [{"ip": pod_ip}],
        "startTime": before.get("startTime") or stamp(now),
        "containerStatuses": containers,
    }
    inits = pod["spec"].get("initContainers") or []
    if inits:
        known = {one["name"]: one for one in before.get("initContainerStatuses") or []}
        status["initContainerStatuses"] = [
            _init_container(one, known.get(one["name"]), now, running=running) for one in inits
        ]
    return status


def is_reported(pod: JSON, status: JSON) -> bool:
    """Whether the Pod's status already says what `status` does; times, and conditions of others, aside."""
    before: JSON = pod.get("status") or {}
    said, wanted = _said(before), _said(status)
    return (
        before.get("phase") == status["phase"]
        and _states(before) == _states(status)
        and all(said.get(kind) == value for kind, value in wanted.items())
    )


def next_step(pod: JSON, status: JSON) -> datetime | None:
    """When the status of the Pod is going to change by itself."""
    if status["phase"] != "Running":
        return None
    containers = {one["name"]: one for one in pod["spec"]["containers"]}
    steps = [due(one, _run(pod, containers[one["name"]]), policy=_policy(pod)) for one in status["containerStatuses"]]
    return min((one for one in steps if one is not None), default=None)


def _run(pod: JSON, container: JSON) -> Run | None:
    """What a container does, as the Pod's annotation or its own command says."""
    annotations: JSON = pod["metadata"].get("annotations") or {}
    text = str(annotations.get(EXIT_ANNOTATION, ""))
    if _policy(pod) == "Never" and text.isdecimal() and int(text) <= 255:
        return Run(0, int(text))
    return run_of(container)


def _policy(pod: JSON) -> str:
    return str(pod["spec"].get("restartPolicy") or "Always")


def _phase(containers: list[JSON], policy: str) -> str:
    """Running while a container runs or is to run again."""
    ends = [last_end(one) for one in containers]
    codes = [int(one["exitCode"]) for one in ends if one is not None]
    if len(codes) < len(ends) or any(restarts(policy, code) for code in codes):
        return "Running"
    return "Failed" if any(codes) else "Succeeded"


def _states(status: JSON) -> list[JSON]:
    return [{"state": one.get("state"), "ready": one.get("ready")} for one in status.get("containerStatuses") or []]


def _said(status: JSON) -> JSON:
    return {one["type"]: (one.get("status"), one.get("reason")) for one in status.get("conditions") or []}


def _gates_open(pod: JSON) -> bool:
    said = {c.get("type"): c.get("status") for c in (pod.get("status") or {}).get("conditions") or []}
    return all(said.get(gate.get("conditionType")) == "True" for gate in pod["spec"].get("readinessGates") or [])


def _conditions(pod: JSON, containers: list[JSON], phase: str, *, now: str) -> list[JSON]:
    before = {c.get("type"): c for c in (pod.get("status") or {}).get("conditions") or []}
    unready = [one["name"] for one in containers if not one["ready"]]
    why: JSON = {}
    if phase != "Running":
        why = {"reason": "PodCompleted" if phase == "Succeeded" else "PodFailed"}
    elif unready:
        why = {"reason": "ContainersNotReady", "message": f"containers with unready status: [{' '.join(unready)}]"}
    gated: JSON = {} if why or _gates_open(pod) else {"reason": "ReadinessGatesNotReady"}
    wanted: list[tuple[str, bool, JSON]] = [
        ("PodReadyToStartContainers", phase == "Running", {}),
        ("Initialized", True, why if phase == "Succeeded" else {}),
        ("Ready", not why and not gated, why or gated),
        ("ContainersReady", not why, why),
        ("PodScheduled", True, {}),
    ]
    conditions: list[JSON] = []
    for kind, holds, reasons in wanted:
        state = "True" if holds else "False"
        old: JSON = before.get(kind) or {}
        since = old.get("lastTransitionTime") if old.get("status") == state else now
        # Explicit nulls clear what an earlier report said.
        cleared: JSON = {"reason": None, "message": None}
        conditions.append({"type": kind, "status": state, **cleared, **reasons, "lastTransitionTime": since or now})
    return conditions


def _init_container(container: JSON, before: JSON | None, now: datetime, *, running: bool) -> JSON:
    """An init container has ended well at once; a sidecar runs as long as the Pod does."""
    sidecar = container.get("restartPolicy") == "Always"
    if sidecar and running:
        return next_status(container, before, None, policy="Always", now=now)
    return {**stopped(container, before, now), "ready": not sidecar}
