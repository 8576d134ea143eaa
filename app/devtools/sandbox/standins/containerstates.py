"""The status of one container, step by step as a kubelet writes it: running, ended, waiting for its restart. Pure.

A status follows from the one before and the time, so that nothing has to be remembered. Times have whole seconds: a run
ends up to a second late, never early. The backoff counts restarts and is not forgotten after a healthy time.
"""

from __future__ import annotations

from datetime import datetime, timedelta

from app.devtools.sandbox.standins.commands import Run
from app.text import moment, stamp
from app.wire import JSON

_FIRST_BACKOFF, _MOST_BACKOFF = 10, 300
_ROUNDED = 1
_CREATING, _INITIALIZING = "ContainerCreating", "PodInitializing"
"""Why a container waits that has not begun: for the sandbox of its Pod, or for init containers."""


def restarts(policy: str, code: int) -> bool:
    """Whether a container that ended with this code is started again."""
    return policy == "Always" or (policy == "OnFailure" and code != 0)


def backoff(restart_count: int) -> int:
    """Seconds from the end of a container to its next start: none at first, then 10, doubled up to 300."""
    if restart_count == 0:
        return 0
    return int(min(_FIRST_BACKOFF * 2 ** min(restart_count - 1, 8), _MOST_BACKOFF))


def next_status(container: JSON, before: JSON | None, run: Run | None, *, policy: str, now: datetime) -> JSON:
    """The status that follows at this time; the same where nothing has happened. `run` is what the container does."""
    if before is None:
        return _status(container, {"running": {"startedAt": stamp(now)}}, running=True)
    state: JSON = before.get("state") or {}
    if "running" in state:
        return before if run is None or now < _end(state, run) else _ended(container, before, run.code, now)
    last = last_end(before)
    if last is None or not restarts(policy, last["exitCode"]):
        return before
    if now >= _restart(before):
        return _again(container, before, last, {"running": {"startedAt": stamp(now)}}, restarted=1)
    if "waiting" in state:
        return before
    delay = backoff(int(before["restartCount"]))
    text = f"back-off {_shown(delay)} restarting failed container={container['name']}"
    return _again(container, before, last, {"waiting": {"reason": "CrashLoopBackOff", "message": text}})


def due(status: JSON, run: Run | None, *, policy: str) -> datetime | None:
    """When the next step of the container is due; None where it stays as it is."""
    state: JSON = status.get("state") or {}
    if "running" in state:
        return None if run is None else _end(state, run)
    last = last_end(status)
    return _restart(status) if last is not None and restarts(policy, last["exitCode"]) else None


def last_end(status: JSON) -> JSON | None:
    """How the container ended that does not run now; None of one that runs."""
    state: JSON = status.get("state") or {}
    found: JSON | None = (status.get("lastState") or {}).get("terminated") if "waiting" in state else None
    return state.get("terminated") or found


def waiting(container: JSON, *, initializing: bool = True) -> JSON:
    """The status of a container that begins when the init containers are done, or at once when there is a sandbox."""
    state = {"waiting": {"reason": _INITIALIZING if initializing else _CREATING}}
    status = _status(container, state, running=False)
    return {name: value for name, value in status.items() if name not in ("resources", "allocatedResources")}


def is_waiting(status: JSON) -> bool:
    """Whether the container has not begun yet."""
    return ((status.get("state") or {}).get("waiting") or {}).get("reason") in (_CREATING, _INITIALIZING)


def stopped(container: JSON, before: JSON | None, now: datetime) -> JSON:
    """The status of a container that is ended with its Pod."""
    began = before or _status(container, {"running": {"startedAt": stamp(now)}}, running=True)
    return began if last_end(began) else _ended(container, began, 0, now)


def _end(state: JSON, run: Run) -> datetime:
    started = _time(state["running"].get("startedAt"))
    return started + timedelta(seconds=run.seconds + _ROUNDED if run.seconds else 0)


def _restart(status: JSON) -> datetime:
    last = last_end(status) or {}
    delay = backoff(int(status["restartCount"]))
    return _time(last.get("finishedAt")) + timedelta(seconds=delay + _ROUNDED if delay else 0)


def _ended(container: JSON, before: JSON, code: int, now: datetime) -> JSON:
    end = {
        "exitCode": code,
        "reason": "Error" if code else "Completed",
        "startedAt": before["state"]["running"].get("startedAt"),
        "finishedAt": stamp(now),
    }
    return {**before, **_status(container, {"terminated": end}, running=False), **_kept(before)}


def _again(container: JSON, before: JSON, last: JSON, state: JSON, *, restarted: int = 0) -> JSON:
    count = int(before["restartCount"]) + restarted
    status = _status(container, state, running="running" in state)
    return {**status, "restartCount": count, "lastState": {"terminated": last}}


def _kept(before: JSON) -> JSON:
    return {name: before[name] for name in ("restartCount", "lastState")}


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
        **_resources(container),
    }


def _resources(container: JSON) -> JSON:
    """What it asks for, as the node gives it."""
    resources: JSON = container.get("resources") or {}
    requests = resources.get("requests")
    return {"resources": resources} | ({"allocatedResources": requests} if requests else {})


def _time(text: object) -> datetime:
    found = moment(text)
    if found is None:
        raise ValueError(f"no time: {text!r}")
    return found


def _shown(seconds: int) -> str:
    """As Go writes a duration."""
    minutes, rest = divmod(seconds, 60)
    return f"{minutes}m{rest}s" if minutes else f"{rest}s"
