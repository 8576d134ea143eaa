"""What the controller keeps of Pods of AppWrappers, and why one has failed or is not ready. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from app.appwrappers.model import APP_WRAPPER, APP_WRAPPER_UID, POD_SET
from app.kube.conditions import condition, status_of
from app.kube.quantity import parse
from app.kube.store import Key, key_of
from app.numbers import whole_or
from app.text import one_line, several
from app.wire import JSON

_CRASH_LOOP = "CrashLoopBackOff"
_USUAL = ("ContainerCreating", "PodInitializing")
_LONGEST = 256
"""Characters of what a Pod or container says of itself."""


@dataclass(frozen=True, slots=True)
class Pod:
    """A Pod with the label of an AppWrapper. `mark` is the UID in our own label, `pod_set` the number of its podSet.

    `exit_codes` are those of containers that have failed, init containers too. `restarts` is the most that a container
    in a crash loop has been restarted. `resources` are the resources that its containers use. `trouble` says why the
    Pod has failed, or is not ready; "" where it is, or may soon be. `ended` is when its first container failed.
    """

    key: Key
    uid: str
    app_wrapper: str
    mark: str
    pod_set: int
    phase: str
    ready: bool
    deleting: bool
    held: bool
    restarts: int
    exit_codes: tuple[int, ...]
    node: str
    resources: frozenset[str]
    trouble: str = ""
    ended: str = ""


def stored_pod(obj: JSON) -> Pod:
    metadata, status = obj["metadata"], status_of(obj)
    labels, statuses = metadata.get("labels") or {}, container_statuses(status)
    failures = _failures(statuses)
    deleting = "deletionTimestamp" in metadata
    return Pod(
        key=key_of(obj),
        uid=metadata["uid"],
        app_wrapper=labels.get(APP_WRAPPER, ""),
        mark=labels.get(APP_WRAPPER_UID, ""),
        pod_set=whole_or(labels.get(POD_SET), -1),
        phase=str(status.get("phase") or ""),
        ready=condition(status, "Ready").get("status") == "True",
        deleting=deleting,
        held=deleting and bool(metadata.get("finalizers")) and metadata.get("deletionGracePeriodSeconds") == 0,
        restarts=max(
            (whole_or(entry.get("restartCount"), 0) for entry in statuses if _is_in_crash_loop(entry)), default=0
        ),
        exit_codes=_exit_codes(failures),
        node=str((obj.get("spec") or {}).get("nodeName") or ""),
        resources=frozenset(_resources(obj.get("spec") or {})),
        trouble=trouble_of(status),
        ended=str(failures[0].get("finishedAt") or "") if failures else "",
    )


def container_statuses(status: JSON) -> list[JSON]:
    """Of a Pod's init containers first."""
    return [*(status.get("initContainerStatuses") or ()), *(status.get("containerStatuses") or ())]


def exit_codes_of(status: JSON) -> tuple[int, ...]:
    """The exit codes of the containers that have failed."""
    return _exit_codes(_failures(container_statuses(status)))


def _exit_codes(failures: list[JSON]) -> tuple[int, ...]:
    return tuple(sorted({terminated["exitCode"] for terminated in failures}))


def trouble_of(status: JSON) -> str:
    """Why a Pod with this status has failed, or is not ready: the first container and its exit code, or the reason.

    "" where nothing is wrong, or where nothing is known yet.
    """
    if status.get("phase") == "Failed" and (status.get("reason") or status.get("message")):
        return _said(status)
    statuses = container_statuses(status)
    if failures := _failures(statuses):
        return f"container {failures[0]['container']}: {_ended(failures[0])}"
    for container in statuses:
        waiting = (container.get("state") or {}).get("waiting") or {}
        if waiting.get("reason") and waiting["reason"] not in _USUAL:
            last = (container.get("lastState") or {}).get("terminated") or {}
            before = f", {several(whole_or(str(container.get('restartCount')), 0), 'restart')}, last: {_ended(last)}"
            return f"container {container.get('name')}: {_said(waiting)}" + (before if last else "")
    scheduled = condition(status, "PodScheduled")
    if scheduled.get("status") == "False":
        return _said(scheduled)
    unready = [
        str(container.get("name"))
        for container in statuses
        if "running" in (container.get("state") or {}) and not container.get("ready")
    ]
    return f"container {unready[0]} runs, and is not ready" if unready else ""


def _failures(statuses: list[JSON]) -> list[JSON]:
    """How containers have failed, the first one first."""
    ended = [
        terminated | {"container": container.get("name")}
        for container in statuses
        if isinstance(terminated := (container.get("state") or {}).get("terminated"), dict)
        and isinstance(terminated.get("exitCode"), int)
        and terminated["exitCode"]
    ]
    return sorted(ended, key=lambda state: str(state.get("finishedAt") or "~"))


def _ended(terminated: JSON) -> str:
    reason, message = terminated.get("reason"), str(terminated.get("message") or "").strip()
    code = f"exit code {terminated.get('exitCode')}" + (f" ({reason})" if reason else "")
    return f"{code}: {one_line(message, _LONGEST)}" if message else code


def _said(holder: JSON) -> str:
    texts = [str(holder[part]) for part in ("reason", "message") if holder.get(part)]
    return one_line(": ".join(texts), _LONGEST)


def _is_in_crash_loop(status: JSON) -> bool:
    return ((status.get("state") or {}).get("waiting") or {}).get("reason") == _CRASH_LOOP


def _resources(spec: JSON) -> set[str]:
    """The extended resources of which a container has more than nothing."""
    return {
        name
        for container in (*(spec.get("initContainers") or ()), *(spec.get("containers") or ()))
        for part in ("limits", "requests")
        for name, amount in ((container.get("resources") or {}).get(part) or {}).items()
        if "/" in name and uses(amount)
    }


def uses(amount: Any) -> bool:
    """Whether a quantity is more than nothing; what is no quantity is left to the API server."""
    try:
        return parse(amount) > 0
    except ValueError:
        return False
