"""The verdict on an AppWrapper: over its Workload and queue while it waits, over its Pods while it runs."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime

from app.appwrappers.kueue.model import LOCAL_QUEUES, LOCAL_QUEUES_V1BETA1, WORKLOADS, WORKLOADS_V1BETA1
from app.appwrappers.model import (
    APP_WRAPPER,
    APP_WRAPPERS,
    DELETING_RESOURCES,
    FINALIZER,
    PODS_READY,
    QUEUE_NAME,
    RESOURCES_DEPLOYED,
    UNHEALTHY,
    queue_of,
)
from app.appwrappers.settings import WRAPPED_KINDS, WrappedKindsSettings
from app.appwrappers.why import queues
from app.doctor import commands, objects
from app.doctor.catalog import listed as several_of
from app.doctor.catalog import plain
from app.doctor.cluster import Cluster
from app.doctor.objects import Object
from app.kube.resources import PODS, Resource
from app.text import moment
from app.why.model import (
    Asking,
    State,
    Unread,
    Verdict,
    absence,
    broken,
    fine,
    get,
    judged,
    listed,
    or_else,
    read,
    stuck,
    waits,
)
from app.why.standing import describe
from app.wire import JSON

DELETION_PATIENCE = 900.0
"""Seconds in which objects are deleted: longer than the grace after which Pods are deleted by force."""
_QUEUED = 300.0
"""Seconds in which a controller makes the Workload of an AppWrapper."""
_LOOKED_AT = 50
"""Pods of one AppWrapper that are judged."""


def judge_app_wrapper(it: Object, now: datetime) -> Asking[Verdict | None]:
    """Why an AppWrapper is where it is."""
    spec, phase = objects.spec(it.json), str(objects.status(it.json).get("phase") or "")
    if it.json["metadata"].get("deletionTimestamp"):
        return (yield from _deleting(it, now))
    if late := _late_deletion(it, now):
        return late
    if phase == "Succeeded":
        return fine("Succeeded")
    if phase == "Failed":
        return (yield from _failed(it))
    if (unknown := (yield from _unwrapped(it))) is not None:
        return unknown
    if phase in ("", "Suspended") and (spec.get("suspend") or queue_of(it.json)):
        return (yield from _suspended(it, now, phase or "New"))
    if phase == "":
        return (yield from _unseen(it, now))
    if phase == "Running":
        return (yield from _running(it))
    return _under_way(it, phase)


def _deleting(it: Object, now: datetime) -> Asking[Verdict]:
    """It goes when its controller has deleted what it made; without that controller, never."""
    since = moment(it.json["metadata"]["deletionTimestamp"])
    late = objects.overdue(it.json, now) or 0.0
    held = it.json["metadata"].get("finalizers") or []
    if FINALIZER not in held or late < _QUEUED:
        return waits("is being deleted", since=since, because=tuple(f"finalizer {name}" for name in held))
    acts = yield from or_else(read(_acts), True)
    if not acts:
        patch = commands.kubectl(
            "patch",
            it.plural,
            it.name,
            "--type=merge",
            '--patch={"metadata":{"finalizers":null}}',
            namespace=it.namespace,
        )
        cause = f"finalizer {FINALIZER} holds it, and no controller that removes it runs"
        so = "its definition cannot be deleted either"
        fix = f"{patch}\n{describe_objects(it)}"
        return stuck("is being deleted", since=since, because=(cause,), so=so, fix=fix, codes=("BERTH4011",))
    if late < DELETION_PATIENCE:
        return waits("is being deleted", since=since, because=("its objects are deleted first",))
    return _hanging(it, since)


def describe_objects(it: Object) -> str:
    """The command that shows what an AppWrapper has made."""
    return commands.kubectl("get", "all", "--selector", f"{APP_WRAPPER}={it.name}", namespace=it.namespace)


async def _acts(cluster: Cluster) -> bool:
    """Whether a controller of AppWrappers runs, as far as that can be seen: of Berth with a replica, or the peer's."""
    for deployment in await cluster.running("controller"):
        if "appwrappers" in deployment.setting("controllers") and not deployment.stopped:
            return True
    return await cluster.peer(*PEER) is not None


PEER = ("appwrapper-system", "appwrapper-controller-manager")
"""Namespace and name of the controller of AppWrapper v1.2."""


def _late_deletion(it: Object, now: datetime) -> Verdict | None:
    deleting = objects.condition(it.json, DELETING_RESOURCES)
    if deleting.get("status") != "True" or objects.lasts(deleting, now) <= DELETION_PATIENCE:
        return None
    return _hanging(it, moment(deleting.get("lastTransitionTime")))


def _hanging(it: Object, since: datetime | None) -> Verdict:
    left = [
        f"{component.get('kind')} {component.get('name')}"
        for component in objects.status(it.json).get("componentStatus") or ()
        if objects.condition({"status": component}, RESOURCES_DEPLOYED).get("status") == "True"
    ]
    cause = f"left: {several_of(left)}" if left else "Pods are left"
    so = "its quota is held until they are gone"
    text = "deletes its objects, and is not done"
    return stuck(text, since=since, because=(cause,), so=so, fix=describe(it), codes=("BERTH4005",))


def _unwrapped(it: Object) -> Asking[Verdict | None]:
    """The verdict on one with a kind that the controller may not create."""
    settings = yield from or_else(read(_wrapped_kinds, key="wrapped kinds"), None)
    wrapped = WRAPPED_KINDS if settings is None else settings
    unknown = [kind for kind in kinds_of(objects.spec(it.json)) if not is_wrapped(kind, wrapped)]
    if not unknown:
        return None
    cause = f"has a {several_of(unknown)}, which is not among the wrapped kinds of the controller"
    return broken("cannot be created", because=(cause,), fix=describe(it), codes=("BERTH4007",))


async def _wrapped_kinds(cluster: Cluster) -> tuple[str, ...]:
    return (await cluster.settings(WrappedKindsSettings, role="controller")).wrapped_kinds or WRAPPED_KINDS


def kinds_of(spec: JSON) -> list[str]:
    """KIND.GROUP of each component, in lower case."""
    kinds = []
    for component in spec.get("components") or ():
        template = component.get("template") or {}
        group = str(template.get("apiVersion") or "").rpartition("/")[0]
        kinds.append(f"{template.get('kind')}.{group}".rstrip(".").lower())
    return list(dict.fromkeys(kinds))


def is_wrapped(kind: str, wrapped: tuple[str, ...]) -> bool:
    """By the plural as Kubernetes makes it of a kind."""
    name, _, group = kind.partition(".")
    plurals = {f"{name}s", f"{name}es", f"{name[:-1]}ies", name}
    return any(f"{plural}.{group}".rstrip(".") in wrapped for plural in plurals)


def _suspended(it: Object, now: datetime, phase: str) -> Asking[Verdict]:
    """It waits for a queue, or for a user."""
    queue = queue_of(it.json)
    if not queue:
        patch = '--patch={"spec":{"suspend":false}}'
        fix = commands.kubectl("patch", it.plural, it.name, "--type=merge", patch, namespace=it.namespace)
        return waits(phase, because=("spec.suspend is true, and it is in no queue",), fix=fix)
    local_queues, workloads = yield from _of_kueue()
    if (yield from _is_missing(local_queues, queue, it.namespace)):
        clause, near = yield from absence(local_queues, queue, it.namespace)
        fix = commands.set_label(it.plural, it.name, QUEUE_NAME, near or "QUEUE", namespace=it.namespace)
        return stuck(f"{phase}, will never run", because=(clause,), fix=fix, codes=("BERTH4012",), more=describe(it))
    owned = yield from or_else(listed(workloads, it.namespace, owner=str(it.json["metadata"].get("uid"))), None)
    if owned is None:
        return waits(phase, because=(f"it waits in queue {queue}",), more=describe(it))
    if not owned:
        return _without_workload(it, now, phase, queue)
    workload = max(owned, key=lambda workload: str(workload.json["metadata"].get("creationTimestamp")))
    verdict = yield from judged(workload.resource, workload.name, workload.namespace)
    if verdict is None:
        return waits(phase)
    codes = ("BERTH4012",) if verdict.state is State.stuck else ()
    asks, text = (
        verdict.asks,
        f"{phase}, {verdict.text}" if verdict.state else f"{phase}; its Workload is {verdict.text}",
    )
    state = verdict.state or State.waits
    return Verdict(state, text, verdict.since, asks, codes=codes, more=describe(workload)).after(verdict)


def _is_missing(resource: Resource, name: str, namespace: str) -> Asking[bool]:
    """Whether there is no such object, as far as it may be read."""
    try:
        return (yield from get(resource, name, namespace)) is None
    except Unread:
        return False


def _of_kueue() -> Asking[tuple[Resource, Resource]]:
    """LocalQueues and Workloads in the version that is served."""
    if (yield from or_else(read(_serves_v1beta2), True)):
        return LOCAL_QUEUES, WORKLOADS
    return LOCAL_QUEUES_V1BETA1, WORKLOADS_V1BETA1


async def _serves_v1beta2(cluster: Cluster) -> bool:
    return await cluster.serves(LOCAL_QUEUES)


def _without_workload(it: Object, now: datetime, phase: str, queue: str) -> Verdict:
    if (age := objects.age(it.json, now)) <= _QUEUED:
        return waits(
            phase, because=(f"it waits in queue {queue}, and its Workload is not made yet",), more=describe(it)
        )
    cause = f"waits in queue {queue} for {age / 60:.0f} minutes and has no Workload"
    fix = commands.kubectl("get", "namespace", it.namespace, "--show-labels")
    return stuck(f"{phase}, will never run", because=(cause,), fix=fix, codes=("BERTH4006",), more=describe(it))


def _unseen(it: Object, now: datetime) -> Asking[Verdict]:
    """No controller has written its status."""
    acts = yield from or_else(read(_acts), True)
    if acts or objects.age(it.json, now) <= _QUEUED:
        return waits("New", because=("its controller has not looked at it yet",), more=describe(it))
    return stuck(
        "New, will never run", because=("no controller of AppWrappers runs",), codes=("BERTH4011",), more=describe(it)
    )


def _running(it: Object) -> Asking[Verdict]:
    """By its conditions, which name the first failed Pod, and by its Pods for what they do not say."""
    unhealthy, ready = (objects.condition(it.json, kind) for kind in (UNHEALTHY, PODS_READY))
    pods = yield from _pods_of(it)
    worst, subject = None, ""
    for pod in pods[:_LOOKED_AT]:
        verdict = yield from judged(PODS, pod.name, pod.namespace)
        if verdict is not None and (worst is None or verdict.state > worst.state):
            worst, subject = verdict, pod.subject
    if unhealthy.get("status") == "True":
        cause = plain(unhealthy.get("message") or unhealthy.get("reason"))
        since = moment(unhealthy.get("lastTransitionTime"))
        verdict = broken("Running, unhealthy", since=since, because=(cause,), codes=("BERTH4013",), more=describe(it))
        return verdict.after(worst, of=subject) if worst is not None and worst.state else verdict
    if worst is not None and worst.state > State.waits:
        since = moment(ready.get("lastTransitionTime"))
        codes = ("BERTH4013",)
        return Verdict(worst.state, "Running, not ready", since, codes=codes, more=describe(it)).after(
            worst, of=subject
        )
    if ready.get("status") == "True":
        return fine(f"Running: {plain(ready.get('message'))}", since=moment(ready.get("lastTransitionTime")))
    cause = plain(ready.get("message") or "its Pods are not ready yet")
    verdict = waits("Running, not ready yet", because=(cause,), more=describe(it))
    return verdict.after(worst, of=subject) if worst is not None and worst.state else verdict


def _pods_of(it: Object) -> Asking[list[Object]]:
    pods = yield from or_else(listed(PODS, it.namespace, label=(APP_WRAPPER, it.name)), [])
    return sorted(pods, key=lambda pod: pod.name)


def _under_way(it: Object, phase: str) -> Verdict:
    """It is on its way from one phase to the next, or cannot create its objects."""
    causes = tuple(_component_problems(it))
    unhealthy = objects.condition(it.json, UNHEALTHY)
    if unhealthy.get("status") == "True":
        causes = (plain(unhealthy.get("message") or unhealthy.get("reason")), *causes)
    return (stuck if causes else waits)(
        phase, because=causes, codes=("BERTH4013",) if causes else (), more=describe(it)
    )


def _component_problems(it: Object) -> Iterator[str]:
    for component in objects.status(it.json).get("componentStatus") or ():
        deployed = objects.condition({"status": component}, RESOURCES_DEPLOYED)
        if deployed.get("status") == "False" and deployed.get("reason") == "ComponentCreationErrored":
            yield f"{component.get('kind')} {component.get('name')}: {plain(deployed.get('message'))}"


def _failed(it: Object) -> Asking[Verdict]:
    """What its condition keeps of the Pods, which are deleted."""
    unhealthy = objects.condition(it.json, UNHEALTHY)
    cause = plain(unhealthy.get("message") or unhealthy.get("reason") or "it says no reason", 600)
    since = moment(unhealthy.get("lastTransitionTime"))
    replaced = f"kubectl replace --force --filename {it.name}.yaml" + (
        f" --namespace {it.namespace}" if it.namespace else ""
    )
    verdict = broken(
        "Failed",
        since=since,
        because=(cause,),
        codes=("BERTH4013",),
        fix=f"{replaced}  # corrected: a failed one does not go on",
        more=describe(it),
    )
    for pod in (yield from _pods_of(it))[:_LOOKED_AT]:
        of_pod = yield from judged(PODS, pod.name, pod.namespace)
        if of_pod is not None and of_pod.state > State.waits:
            return verdict.after(of_pod, of=pod.subject)
    return verdict


JUDGES = {APP_WRAPPERS: judge_app_wrapper, **queues.JUDGES}
