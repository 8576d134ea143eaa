"""What a kubelet reports about a Pod that runs, or has run. Pure; the clock and the address are arguments."""

from __future__ import annotations

from app.wire import JSON

EXIT_ANNOTATION = "berth.dev/sandbox-exit"
"""Annotation on a Pod with restartPolicy Never in the sandbox, by its author: its containers end at once with this
exit code."""


def exit_code(pod: JSON) -> int | None:
    """The exit code with which the Pod is to end; None where it is to run on."""
    annotations: JSON = pod["metadata"].get("annotations") or {}
    text = str(annotations.get(EXIT_ANNOTATION, ""))
    if pod["spec"].get("restartPolicy") != "Never" or not text.isdecimal() or int(text) > 255:
        return None
    return int(text)


def pod_status(pod: JSON, *, now: str, pod_ip: str, host_ip: str) -> JSON:
    """The whole status of the Pod on its node: running, or ended where its annotation says so."""
    before: JSON = pod.get("status") or {}
    code = exit_code(pod)
    started = before.get("startTime") or now
    ready = code is None and _gates_open(pod)
    status: JSON = {
        "phase": "Running" if code is None else "Succeeded" if code == 0 else "Failed",
        "conditions": _conditions(pod, ready=ready, code=code, now=now),
        "hostIP": host_ip,
        "hostIPs": [{"ip": host_ip}],
        "podIP": pod_ip,
        "podIPs": [{"ip": pod_ip}],
        "startTime": started,
        "containerStatuses": [_container(c, code, started, now) for c in pod["spec"].get("containers") or []],
    }
    inits = pod["spec"].get("initContainers") or []
    if inits:
        status["initContainerStatuses"] = [_init_container(c, code, started, now) for c in inits]
    return status


def is_reported(pod: JSON) -> bool:
    """Whether the status already says what `pod_status` would."""
    status: JSON = pod.get("status") or {}
    code = exit_code(pod)
    wanted = "Running" if code is None else "Succeeded" if code == 0 else "Failed"
    ready = "True" if code is None and _gates_open(pod) else "False"
    said = {c.get("type"): c.get("status") for c in status.get("conditions") or []}
    return status.get("phase") == wanted and said.get("Ready") == ready


def _gates_open(pod: JSON) -> bool:
    said = {c.get("type"): c.get("status") for c in (pod.get("status") or {}).get("conditions") or []}
    return all(said.get(gate.get("conditionType")) == "True" for gate in pod["spec"].get("readinessGates") or [])


def _conditions(pod: JSON, *, ready: bool, code: int | None, now: str) -> list[JSON]:
    before = {c.get("type"): c for c in (pod.get("status") or {}).get("conditions") or []}
    ended: JSON = {} if code is None else {"reason": "PodCompleted" if code == 0 else "PodFailed"}
    closed: JSON = {} if code is not None or ready else {"reason": "ReadinessGatesNotReady"}
    wanted: list[tuple[str, bool, JSON]] = [
        ("PodReadyToStartContainers", code is None, {}),
        ("Initialized", True, {} if code != 0 else ended),
        ("Ready", ready, ended or closed),
        ("ContainersReady", code is None, ended),
        ("PodScheduled", True, {}),
    ]
    conditions: list[JSON] = []
    for kind, holds, why in wanted:
        state = "True" if holds else "False"
        old: JSON = before.get(kind) or {}
        since = old.get("lastTransitionTime") if old.get("status") == state else now
        # Explicit nulls clear what an earlier report said.
        cleared: JSON = {"reason": None, "message": None}
        conditions.append({"type": kind, "status": state, **cleared, **why, "lastTransitionTime": since or now})
    return conditions


def _container(container: JSON, code: int | None, started: str, now: str) -> JSON:
    state: JSON = {"running": {"startedAt": started}}
    if code is not None:
        reason = "Completed" if code == 0 else "Error"
        state = {"terminated": {"exitCode": code, "reason": reason, "startedAt": started, "finishedAt": now}}
    return _status(container, state, running=code is None)


def _init_container(container: JSON, code: int | None, started: str, now: str) -> JSON:
    if container.get("restartPolicy") == "Always":
        return _container(container, code, started, now)
    done = {"exitCode": 0, "reason": "Completed", "startedAt": started, "finishedAt": started}
    return {**_status(container, {"terminated": done}, running=False), "ready": True}


def _status(container: JSON, state: JSON, *, running: bool) -> JSON:
    return {
        "name": container["name"],
        "image": container.get("image", ""),
        "imageID": "",
        "ready": running,
        "started": running,
        "restartCount": 0,
        "lastState": {},
        "state": state,
    }
