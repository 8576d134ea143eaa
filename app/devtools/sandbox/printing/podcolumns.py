"""The columns of Pods: what kubectl says of a Pod's containers in one word. Pure."""

from __future__ import annotations

from typing import Any

from app.devtools.sandbox.printing.durations import human_duration, parse_time
from app.wire import JSON

NONE = "<none>"


def _statuses(pod: JSON, name: str) -> list[JSON]:
    return (pod.get("status") or {}).get(name) or []


def _is_sidecar(container: JSON | None) -> bool:
    return container is not None and container.get("restartPolicy") == "Always"


def _init_containers(pod: JSON) -> dict[str, JSON]:
    return {container.get("name", ""): container for container in pod.get("spec", {}).get("initContainers") or []}


def pod_ready(pod: JSON, _: float) -> str:
    """READY: ready containers over all, sidecars counted among them."""
    inits = _init_containers(pod)
    total = len(pod.get("spec", {}).get("containers") or []) + sum(map(_is_sidecar, inits.values()))
    ready = sum(
        bool(status.get("ready")) for status in _statuses(pod, "containerStatuses") if "running" in _state(status)
    )
    ready += sum(
        bool(status.get("ready")) and _is_sidecar(inits.get(status.get("name", "")))
        for status in _statuses(pod, "initContainerStatuses")
    )
    return f"{ready}/{total}"


def _state(status: JSON) -> JSON:
    return status.get("state") or {}


def pod_status(pod: JSON, _: float) -> str:
    """STATUS: the phase, or what is more telling: a container's reason, an init step, Terminating."""
    status = pod.get("status") or {}
    word = status.get("reason") or status.get("phase") or "Unknown"
    if any(
        c.get("type") == "PodScheduled" and c.get("reason") == "SchedulingGated" for c in status.get("conditions") or []
    ):
        word = "SchedulingGated"
    step = _init_step(pod)
    word = step if step is not None else _container_word(pod, word)
    if pod.get("metadata", {}).get("deletionTimestamp"):
        return "Unknown" if status.get("reason") == "NodeLost" else "Terminating"
    return str(word)


def _ended(prefix: str, terminated: JSON) -> str:
    if terminated.get("reason"):
        return f"{prefix}{terminated['reason']}"
    if terminated.get("signal"):
        return f"{prefix}Signal:{terminated['signal']}"
    return f"{prefix}ExitCode:{terminated.get('exitCode', 0)}"


def _init_step(pod: JSON) -> str | None:
    inits = _init_containers(pod)
    for index, status in enumerate(_statuses(pod, "initContainerStatuses")):
        state = _state(status)
        if "terminated" in state and state["terminated"].get("exitCode", 0) == 0:
            continue
        if _is_sidecar(inits.get(status.get("name", ""))) and status.get("started"):
            continue
        if "terminated" in state:
            return _ended("Init:", state["terminated"])
        reason = state.get("waiting", {}).get("reason")
        if reason and reason != "PodInitializing":
            return f"Init:{reason}"
        return f"Init:{index}/{len(inits)}"
    return None


def _container_word(pod: JSON, word: str) -> str:
    running = False
    for status in reversed(_statuses(pod, "containerStatuses")):
        state = _state(status)
        if state.get("waiting", {}).get("reason"):
            word = state["waiting"]["reason"]
        elif "terminated" in state:
            word = _ended("", state["terminated"])
        elif status.get("ready") and "running" in state:
            running = True
    if word == "Completed" and running:
        return "Running" if _is_ready(pod) else "NotReady"
    return word


def _is_ready(pod: JSON) -> bool:
    conditions = (pod.get("status") or {}).get("conditions") or []
    return any(c.get("type") == "Ready" and c.get("status") == "True" for c in conditions)


def pod_restarts(pod: JSON, now: float) -> str:
    """RESTARTS: the sum over containers, with the time since the last one."""
    inits = _init_containers(pod)
    counted = _statuses(pod, "containerStatuses")
    sidecars = [s for s in _statuses(pod, "initContainerStatuses") if _is_sidecar(inits.get(s.get("name", "")))]
    counted = _statuses(pod, "initContainerStatuses") if _init_step(pod) is not None else counted + sidecars
    total = sum(status.get("restartCount", 0) for status in counted)
    ends = [parse_time(s.get("lastState", {}).get("terminated", {}).get("finishedAt")) for s in counted]
    known = [end for end in ends if end is not None]
    return f"{total} ({human_duration(now - max(known))} ago)" if total and known else str(total)


def pod_ips(pod: JSON, _: float) -> str:
    status = pod.get("status") or {}
    addresses = [entry.get("ip", "") for entry in status.get("podIPs") or []]
    return (addresses[0] if addresses else status.get("podIP", "")) or NONE


def readiness_gates(pod: JSON, _: float) -> str:
    gates: list[Any] = pod.get("spec", {}).get("readinessGates") or []
    if not gates:
        return NONE
    true = {c["type"] for c in (pod.get("status") or {}).get("conditions") or [] if c.get("status") == "True"}
    return f"{sum(gate.get('conditionType') in true for gate in gates)}/{len(gates)}"
