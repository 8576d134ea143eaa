"""The verdict on a Pod as the scheduler and its kubelet see it. What it needs of Berth, the wings say."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import datetime

from app.admission.injected import summary
from app.doctor import commands, objects
from app.doctor.catalog import plain
from app.doctor.finalizers import whose
from app.doctor.objects import Object
from app.kube.resources import PODS
from app.text import moment
from app.why.model import Asking, State, Verdict, broken, fine, judged, stuck, told, waits
from app.wire import JSON, mapping

_PATIENCE = 300.0
"""Seconds in which a Pod is scheduled and its images are pulled."""
_TROUBLE = frozenset({"FailedCreatePodSandBox", "FailedMount", "FailedAttachVolume", "FailedPrepareDynamicResources"})
"""Reasons of Events of kubelet that say why containers are not created."""
_STARTING = frozenset({"ContainerCreating", "PodInitializing"})


def judge_pod(it: Object, now: datetime) -> Asking[Verdict | None]:
    """How the Pod is, and what its annotation says was injected. Nothing of one that does not exist yet."""
    if not it.json["metadata"].get("uid"):
        return None
    verdict = yield from standing(it, now)
    injected = plain(summary(mapping(it.json["metadata"].get("annotations"))))
    return replace(verdict, text=f"{verdict.text}; injected by {injected}") if injected else verdict


def standing(it: Object, now: datetime) -> Asking[Verdict]:
    """How a Pod is, by its own status."""
    pod, status = it.json, objects.status(it.json)
    phase, node = status.get("phase") or "Pending", objects.spec(pod).get("nodeName") or ""
    describe = commands.kubectl("describe", "pod", it.name, namespace=it.namespace)
    if (late := objects.overdue(pod, now)) is not None:
        return _deleting(it, late, describe)
    if phase == "Succeeded":
        return fine("ended well", since=_since(pod, "Initialized"))
    if phase == "Failed":
        cause = plain(status.get("message") or _ended(pod) or status.get("reason") or "it says no reason")
        return broken("Failed", because=(cause,), more=_logs(it) or describe)
    reason = objects.waits_for(pod)
    if reason is None:
        return fine(f"runs on {node}", since=_since(pod, "Ready"))
    if not node:
        return _unscheduled(it, now, reason, describe)
    return (yield from _unstarted(it, now, reason, describe))


def _deleting(it: Object, late: float, describe: str) -> Verdict:
    held, since = it.json["metadata"].get("finalizers") or [], moment(it.json["metadata"]["deletionTimestamp"])
    if late < _PATIENCE:
        return waits("is being deleted", since=since)
    if held:
        cause, fix, next_step = f"finalizers hold it: {', '.join(held)}", "", plain(whose(held))
    else:
        cause, node = "its kubelet has not ended it", objects.spec(it.json).get("nodeName") or "its node"
        fix = commands.kubectl("delete", "pod", it.name, "--force", "--grace-period=0", namespace=it.namespace)
        next_step = f"run it only if {node} is off: the command deletes the Pod, and its containers may run on"
    return stuck("is being deleted", since=since, because=(cause,), fix=fix, next=next_step, more=describe)


def _unscheduled(it: Object, now: datetime, reason: tuple[str, str], describe: str) -> Verdict:
    condition = objects.condition(it.json, "PodScheduled")
    since = moment(condition.get("lastTransitionTime")) or objects.created(it.json)
    if condition.get("reason") == "SchedulingGated":
        gates = ", ".join(str(gate.get("name")) for gate in objects.spec(it.json).get("schedulingGates") or ())
        return waits("Pending", since=since, because=(f"scheduling gates hold it: {gates}",), more=describe)
    text = plain(reason[1] or reason[0])
    if condition.get("reason") == "Unschedulable":
        return stuck("Pending", since=since, because=(text,), more=describe)
    late = objects.age(it.json, now) > _PATIENCE
    verdict = stuck if late else waits
    return verdict("Pending", since=since, because=("no scheduler has looked at it",), more=describe)


def _unstarted(it: Object, now: datetime, reason: tuple[str, str], describe: str) -> Asking[Verdict]:
    """It has a node, and does not run there, or is not ready."""
    since = _since(it.json, "Ready") or objects.created(it.json)
    phase = objects.status(it.json).get("phase") or "Pending"
    text = phase if phase != "Running" else "runs, and is not ready"
    if reason[0] in _STARTING or reason[0] == "NotStarted":
        if trouble := (yield from told(it, _TROUBLE)):
            return stuck(text, since=since, because=(trouble,), more=describe)
        late = objects.age(it.json, now) > _PATIENCE
        cause = plain(reason[1] or "its node has not started it")
        return (stuck if late else waits)(text, since=since, because=(cause,), more=describe)
    cause, ended = plain(reason[1] or reason[0]), _ended(it.json, now)
    if reason[0] not in objects.FAILING and phase == "Running" and not ended:
        late = since is not None and (now - since).total_seconds() > _PATIENCE
        return (stuck if late else waits)(text, since=since, because=(cause,), more=describe)
    because = (f"{cause}: {ended}" if ended and ended not in cause else cause,)
    text = text if reason[0] == "NotReady" else f"{text}: {reason[0]}"
    return broken(text, since=since, because=because, more=_logs(it) or describe)


def _failed_containers(pod: JSON) -> Iterator[tuple[str, str, JSON]]:
    """The name of each container that ended badly, whether that is its `state` or `lastState`, and how it ended."""
    status = objects.status(pod)
    for container in [*(status.get("initContainerStatuses") or ()), *(status.get("containerStatuses") or ())]:
        for place in ("state", "lastState"):
            ended = (container.get(place) or {}).get("terminated") or {}
            if ended.get("exitCode"):
                yield str(container.get("name")), place, ended


def _ended(pod: JSON, now: datetime | None = None) -> str:
    """The first container that ended badly, and how; "" where none did. `now` leaves out what is long over."""
    for name, _, ended in _failed_containers(pod):
        finished = moment(ended.get("finishedAt"))
        if now is None or finished is None or (now - finished).total_seconds() <= _PATIENCE:
            why = ended.get("reason") or "Error"
            said = f" ({why})" if why != "Error" else ""
            return f"container {name} ended with exit code {ended['exitCode']}{said}"
    return ""


def _logs(it: Object) -> str:
    """The command that shows what the first container wrote that ended badly; "" where none did."""
    name, place, _ = next(_failed_containers(it.json), ("", "", None))
    flags = ["--previous"] if place == "lastState" else []
    return commands.kubectl("logs", it.name, f"--container={name}", *flags, namespace=it.namespace) if name else ""


def _since(pod: JSON, condition: str) -> datetime | None:
    return moment(objects.condition(pod, condition).get("lastTransitionTime"))


def worst_of(pods: Sequence[Object]) -> Asking[tuple[Verdict, str]]:
    """The first of the worst verdicts on these Pods, with the name of its Pod; fine and "" where all are."""
    worst, name = fine(""), ""
    for pod in pods:
        verdict = yield from judged(PODS, pod.name, pod.namespace)
        if verdict is not None and verdict.state > worst.state:
            worst, name = verdict, pod.name
        if worst.state is State.broken:
            break  # no other can be worse
    return worst, name


JUDGES = {PODS: judge_pod}
