"""What a kubelet reports about a Pod that runs, or has run. Pure; the clock and the address are arguments."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from types import MappingProxyType

from app.devtools.sandbox.standins.commands import Run, run_of
from app.devtools.sandbox.standins.containerstates import (
    due,
    is_waiting,
    last_end,
    next_status,
    restarts,
    stopped,
    waiting,
)
from app.text import stamp
from app.wire import JSON

EXIT_ANNOTATION = "berth.dev/sandbox-exit"
"""Annotation on a Pod with restartPolicy Never in the sandbox, by its author: its containers end at once with this
exit code."""
_FIELDS = ("initContainerStatuses", "containerStatuses")
_DONE = Run(0, 0)


def pod_status(
    pod: JSON, *, now: datetime, pod_ip: str, host_ip: str, health: Mapping[str, Sequence[JSON]] = MappingProxyType({})
) -> JSON:
    """The whole status of the Pod on its node: each container as its command has it, the Pod as its containers.

    Without an address it has no sandbox, and no container begins. `health` is that of what containers were given.
    """
    before: JSON = pod.get("status") or {}
    sandbox = bool(pod_ip) or "podIP" in before
    inits = _init_statuses(pod, now, sandbox=sandbox)
    incomplete = _incomplete(pod, inits)
    containers = [
        _container_status(pod, one, now, begins=sandbox and not incomplete)
        for one in pod["spec"].get("containers") or []
    ]
    phase = _phase_before(inits, _policy(pod)) if incomplete else _phase(containers, _policy(pod))
    phase = phase if sandbox else "Pending"
    status: JSON = {
        **_generation(pod),
        "phase": phase,
        "conditions": _conditions(pod, containers, phase, incomplete=incomplete, sandbox=sandbox, now=stamp(now)),
        "hostIP": host_ip,
        "hostIPs": [{"ip": host_ip}],
        **({"podIP": pod_ip, "podIPs": [{"ip": pod_ip}]} if pod_ip else {}),
        "startTime": before.get("startTime") or stamp(now),
        "containerStatuses": [_with(health, one) for one in containers],
    }
    if inits:
        ends = phase in ("Succeeded", "Failed")
        sidecars = {one["name"]: one for one in pod["spec"]["initContainers"] if _is_sidecar(one)}
        inits = [stopped(sidecars[one["name"]], one, now) if ends and one["name"] in sidecars else one for one in inits]
        status["initContainerStatuses"] = [_with(health, one) for one in inits]
    return status


def _with(health: Mapping[str, Sequence[JSON]], status: JSON) -> JSON:
    devices = health.get(status["name"])
    return {**status, "allocatedResourcesStatus": [*devices]} if devices else status


def _generation(pod: JSON) -> JSON:
    """The generation of the Pod that the node has seen; API servers before 1.33 count none."""
    generation = pod["metadata"].get("generation")
    return {"observedGeneration": generation} if generation else {}


def is_reported(pod: JSON, status: JSON) -> bool:
    """Whether the Pod's status already says what `status` does; times, and conditions of others, aside."""
    before: JSON = pod.get("status") or {}
    said, wanted = _said(before), _said(status)
    return (
        before.get("phase") == status["phase"]
        and before.get("observedGeneration") == status.get("observedGeneration")
        and _states(before) == _states(status)
        and all(said.get(kind) == value for kind, value in wanted.items())
    )


def next_step(pod: JSON, status: JSON) -> datetime | None:
    """When the status of the Pod is going to change by itself."""
    if status["phase"] in ("Succeeded", "Failed"):
        return None
    spec = pod["spec"]
    containers = {one["name"]: one for one in [*(spec.get("initContainers") or []), *spec["containers"]]}
    inits = {one["name"] for one in status.get("initContainerStatuses") or []}
    steps = [
        due(one, _init_run(containers[one["name"]]), policy=_init_policy(pod, containers[one["name"]]))
        if one["name"] in inits
        else due(one, _run(pod, containers[one["name"]]), policy=_policy(pod))
        for field in _FIELDS
        for one in status.get(field) or []
    ]
    return min((one for one in steps if one is not None), default=None)


def _init_statuses(pod: JSON, now: datetime, *, sandbox: bool) -> list[JSON]:
    """Init containers run one after another; a sidecar runs on while the next one begins."""
    statuses: list[JSON] = []
    begins = sandbox
    for container in pod["spec"].get("initContainers") or []:
        before = _before(pod, container, "initContainerStatuses")
        if not begins and before is None:
            statuses.append(waiting(container))
            continue
        run, policy = _init_run(container), _init_policy(pod, container)
        if before is None and run == _DONE and not _is_sidecar(container):
            statuses.append({**stopped(container, None, now), "ready": True})
            continue
        status = next_status(container, before, run, policy=policy, now=now)
        done = not _is_sidecar(container) and _succeeded(status)
        statuses.append({**status, "ready": True} if done else status)
        begins = begins and (done or _is_sidecar(container))
    return statuses


def _container_status(pod: JSON, container: JSON, now: datetime, *, begins: bool) -> JSON:
    before = _before(pod, container, "containerStatuses")
    if not begins and before is None:
        return waiting(container, initializing=bool(pod["spec"].get("initContainers")))
    return next_status(container, before, _run(pod, container), policy=_policy(pod), now=now)


def _before(pod: JSON, container: JSON, field: str) -> JSON | None:
    """The status that a container has; None of one that has not begun."""
    known = {one["name"]: one for one in (pod.get("status") or {}).get(field) or []}
    status: JSON | None = known.get(container["name"])
    return None if status is None or is_waiting(status) else status


def _incomplete(pod: JSON, statuses: list[JSON]) -> list[str]:
    """The names of init containers that have to end before the others begin."""
    sidecars = {one["name"] for one in pod["spec"].get("initContainers") or [] if _is_sidecar(one)}
    return [one["name"] for one in statuses if one["name"] not in sidecars and not _succeeded(one)]


def _succeeded(status: JSON) -> bool:
    end = (status.get("state") or {}).get("terminated")
    return end is not None and end["exitCode"] == 0


def _is_sidecar(container: JSON) -> bool:
    return bool(container.get("restartPolicy") == "Always")


def _init_policy(pod: JSON, container: JSON) -> str:
    """An init container that succeeded is not started again, whatever the Pod says."""
    if _is_sidecar(container):
        return "Always"
    return "Never" if _policy(pod) == "Never" else "OnFailure"


def _init_run(container: JSON) -> Run | None:
    """What an init container does: one whose command is not known is done at once; a sidecar of this kind runs on."""
    run = run_of(container)
    if run is None:
        return None if _is_sidecar(container) else _DONE
    return run if run.ends else None


def _run(pod: JSON, container: JSON) -> Run | None:
    """What a container does, as the Pod's annotation or its own command says; None where it runs on."""
    annotations: JSON = pod["metadata"].get("annotations") or {}
    text = str(annotations.get(EXIT_ANNOTATION, ""))
    if _policy(pod) == "Never" and text.isdecimal() and int(text) <= 255:
        return Run(0, int(text))
    run = run_of(container)
    return run if run is not None and run.ends else None


def _policy(pod: JSON) -> str:
    return str(pod["spec"].get("restartPolicy") or "Always")


def _phase(containers: list[JSON], policy: str) -> str:
    """Running while a container runs or is to run again."""
    ends = [last_end(one) for one in containers]
    codes = [int(one["exitCode"]) for one in ends if one is not None]
    if len(codes) < len(ends) or any(restarts(policy, code) for code in codes):
        return "Running"
    return "Failed" if any(codes) else "Succeeded"


def _phase_before(inits: list[JSON], policy: str) -> str:
    """Of a Pod that is not initialized."""
    ends = [last_end(one) for one in inits]
    failed = any(end is not None and end["exitCode"] for end in ends)
    return "Failed" if failed and policy == "Never" else "Pending"


def _states(status: JSON) -> list[JSON]:
    return [
        {"state": one.get("state"), "ready": one.get("ready")} for field in _FIELDS for one in status.get(field) or []
    ]


def _said(status: JSON) -> JSON:
    return {one["type"]: (one.get("status"), one.get("reason")) for one in status.get("conditions") or []}


def _gates_open(pod: JSON) -> bool:
    said = {c.get("type"): c.get("status") for c in (pod.get("status") or {}).get("conditions") or []}
    return all(said.get(gate.get("conditionType")) == "True" for gate in pod["spec"].get("readinessGates") or [])


def _conditions(
    pod: JSON, containers: list[JSON], phase: str, *, incomplete: list[str], sandbox: bool, now: str
) -> list[JSON]:
    before = {c.get("type"): c for c in (pod.get("status") or {}).get("conditions") or []}
    unready = [one["name"] for one in containers if not one["ready"]]
    why: JSON = {}
    torn: JSON = {} if sandbox else {"reason": "PodSandboxNotReady", "message": "no pod sandbox exists"}
    if phase in ("Succeeded", "Failed"):
        torn = {"reason": "PodSandboxNotReady", "message": "pod sandbox is not ready"}
        why = {"reason": "PodCompleted" if phase == "Succeeded" else "PodFailed"}
    elif unready:
        why = {"reason": "ContainersNotReady", "message": f"containers with unready status: [{' '.join(unready)}]"}
    text = f"containers with incomplete status: [{' '.join(incomplete)}]"
    begins: JSON = {"reason": "ContainersNotInitialized", "message": text} if incomplete else {}
    gated: JSON = {} if why or _gates_open(pod) else {"reason": "ReadinessGatesNotReady"}
    wanted: list[tuple[str, bool, JSON]] = [
        ("PodReadyToStartContainers", not torn, torn),
        ("Initialized", not incomplete, begins or (why if phase == "Succeeded" else {})),
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
        seen = _generation(pod) | {"lastTransitionTime": since or now}
        conditions.append({"type": kind, "status": state, **cleared, **reasons, **seen})
    return conditions
