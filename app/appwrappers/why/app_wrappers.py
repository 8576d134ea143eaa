"""The verdict on an AppWrapper: over its Workload and queue while it waits, over its Pods while it runs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime
from functools import partial

from app.appwrappers.model import (
    APP_WRAPPER,
    APP_WRAPPERS,
    DELETING_RESOURCES,
    FINALIZER,
    PODS_READY,
    RESOURCES_DEPLOYED,
    UNHEALTHY,
    of_admission,
    queue_of,
)
from app.appwrappers.why import controllers, queues
from app.appwrappers.why.queued import PATIENCE, judge_planned, judge_suspended
from app.doctor import commands, objects
from app.doctor.catalog import listed as several_of
from app.doctor.catalog import plain
from app.doctor.objects import Object
from app.kube.resources import PODS
from app.text import moment, several
from app.why import owners
from app.why.model import (
    Asking,
    State,
    Verdict,
    broken,
    fine,
    judged,
    listed,
    once,
    or_else,
    read,
    stuck,
    waits,
)
from app.why.pods import worst_of
from app.why.standing import describe
from app.wire import JSON, mapping

DELETION_PATIENCE = 900.0
"""Seconds in which objects are deleted: longer than the grace after which Pods are deleted by force."""
_LOOKED_AT = 50
"""Pods of one AppWrapper that are judged."""
MOST_JUDGED, _MOST_PODS = 200, 1000
"""AppWrappers that one inquiry judges over their Pods, and Pods of these: each costs requests."""
UNJUDGED = "BERTH4014"
"""The code of the verdict on the AppWrappers beyond these."""


def judge_app_wrapper(it: Object, now: datetime) -> Asking[Verdict | None]:
    """Why an AppWrapper is where it is."""
    spec, phase = objects.spec(it.json), str(objects.status(it.json).get("phase") or "")
    if not it.json["metadata"].get("uid"):
        unknown = yield from _unwrapped(it)
        return unknown if unknown is not None else (yield from judge_planned(it))
    if it.json["metadata"].get("deletionTimestamp"):
        return (yield from _deleting(it, now))
    deleting = objects.condition(it.json, DELETING_RESOURCES)
    if deleting.get("status") == "True" and objects.lasts(deleting, now) > DELETION_PATIENCE:
        return (yield from _hanging(it, moment(deleting.get("lastTransitionTime"))))
    if phase == "Succeeded":
        return fine("Succeeded")
    if phase == "Failed":
        return (yield from _failed(it))
    if phase == "Running":
        return (yield from _running(it))
    if (unknown := (yield from _unwrapped(it))) is not None:
        return unknown
    if phase in ("", "Suspended") and (spec.get("suspend") or queue_of(it.json)):
        return (yield from judge_suspended(it, now, phase or "New"))
    if phase == "":
        return (yield from _unseen(it, now))
    return _under_way(it, phase)


def _deleting(it: Object, now: datetime) -> Asking[Verdict]:
    """It goes when its controller has deleted what it made; without that controller, never."""
    since = moment(it.json["metadata"]["deletionTimestamp"])
    late = objects.overdue(it.json, now) or 0.0
    held = it.json["metadata"].get("finalizers") or []
    if FINALIZER not in held:
        return waits("is being deleted", since=since, because=tuple(f"finalizer {name}" for name in held))
    acts = yield from or_else(read(controllers.acts), True)
    if not acts:
        controller, start = yield from or_else(read(controllers.stopped), ("", ""))
        if start:
            return _stopped(it, since, controller, start)
        patch = commands.release(it.plural, it.name, held, FINALIZER, namespace=it.namespace)
        cause = f"finalizer {FINALIZER} holds it, and no controller that removes it runs"
        so = "its definition cannot be deleted either"
        next_step = "Kubernetes deletes its objects then: they name it as their owner"
        codes, more = ("BERTH4011",), controllers.objects_of(it)
        return stuck(
            "is being deleted",
            since=since,
            because=(cause,),
            so=so,
            fix=patch,
            next=next_step,
            codes=codes,
            more=more,
        )
    if late < DELETION_PATIENCE:
        return waits("is being deleted", since=since, because=("its objects are deleted first",))
    return (yield from _hanging(it, since))


def _stopped(it: Object, since: datetime | None, controller: str, start: str) -> Verdict:
    """Its controller is scaled to 0: it ends the deletion as soon as it runs."""
    cause = f"controller appwrappers removes finalizer {FINALIZER}, and {controller} has 0 replicas"
    return stuck(
        "is being deleted",
        since=since,
        because=(cause,),
        so="its definition cannot be deleted either",
        fix=start,
        next="the controller deletes its objects, and removes the finalizer",
        codes=("BERTH4011",),
        more=controllers.objects_of(it),
    )


def _hanging(it: Object, since: datetime | None) -> Asking[Verdict]:
    """What is left of it, and which Pod does not end."""
    left = [
        f"{component.get('kind')} {component.get('name')}"
        for component in _component_states(it)
        if objects.condition({"status": component}, RESOURCES_DEPLOYED).get("status") == "True"
    ]
    cause, so = f"left: {several_of(left)}" if left else "Pods are left", "its quota is held until they are gone"
    text, codes, more = "deletes its objects, and is not done", ("BERTH4005",), controllers.objects_of(it)
    verdict = stuck(text, since=since, because=(cause,), so=so, codes=codes, more=more or describe(it))
    pods = yield from _unwell(it, ended=False)
    worst, subject = (yield from _worst(it, pods)) if (yield from _spend(pods)) else (fine(""), "")
    return verdict.after(worst, of=subject) if worst.state else verdict


def _unwrapped(it: Object) -> Asking[Verdict | None]:
    """The verdict on one with a kind that the controller may not create."""
    kinds = tuple(controllers.kinds_of(objects.spec(it.json)))
    unwrapped = yield from or_else(read(partial(controllers.unwrapped, kinds=kinds), key=("unwrapped", kinds)), None)
    if not unwrapped:
        return None
    names = several_of([kind.name for kind in unwrapped])
    cause, text = f"has a {names}, which is not among the wrapped kinds of the controller", "cannot be created"
    verdict = broken(text, because=(cause,), codes=("BERTH4007",), more=describe(it))
    resources = [resource for resource in unwrapped.values() if resource is not None]
    if len(resources) < len(unwrapped):
        strange = several_of([kind.name for kind, resource in unwrapped.items() if resource is None])
        return replace(
            verdict, next=f"correct the template, or install the definition: the API server serves no {strange}"
        )
    plurals = several_of([objects.plural(resource) for resource in resources])
    if any(map(controllers.widens, resources)):
        step = f"leave it out of the AppWrapper: an admin creates {plurals}, which give or need more rights"
        return replace(verdict, next=step)
    fix = yield from or_else(read(partial(controllers.wrap, resources=resources), key=("wrap", *resources)), "")
    return replace(
        verdict, fix=fix, next=f"an admin decides whether the controller may create {plurals} of every tenant"
    )


def _unseen(it: Object, now: datetime) -> Asking[Verdict]:
    """No controller has written its status."""
    acts = yield from or_else(read(controllers.acts), True)
    if acts or objects.age(it.json, now) <= PATIENCE:
        return waits("New", because=("its controller has not looked at it yet",), more=describe(it))
    return stuck(
        "New, will never run", because=("no controller of AppWrappers runs",), codes=("BERTH4011",), more=describe(it)
    )


def _running(it: Object) -> Asking[Verdict]:
    """By its conditions, which name the first failed Pod, and by its Pods for what they do not say."""
    unhealthy, ready = (objects.condition(it.json, kind) for kind in (UNHEALTHY, PODS_READY))
    ill = unhealthy.get("status") == "True"
    pods = yield from _unwell(it, ended=ill or ready.get("status") != "True")
    affordable = yield from _spend(pods)
    worst, subject = (yield from _worst(it, pods)) if affordable else (fine(""), "")
    if not pods and ready.get("status") != "True":
        worst, subject = yield from _worst_component(it)
    if ill:
        cause = plain(unhealthy.get("message") or unhealthy.get("reason"))
        since = moment(unhealthy.get("lastTransitionTime"))
        verdict = broken("Running, unhealthy", since=since, because=(cause,), codes=("BERTH4013",), more=describe(it))
        return _tried_again(verdict.after(worst, of=subject) if worst.state else verdict)
    if not affordable:
        cause = f"{several(len(pods), 'Pod')} not running, and only the Pods of the first AppWrappers are judged"
        return waits("Running, its Pods are not judged", because=(cause,), codes=(UNJUDGED,), more=describe(it))
    if worst.state > State.waits:
        since = moment(ready.get("lastTransitionTime"))
        verdict = Verdict(worst.state, "Running, not ready", since, codes=("BERTH4013",), more=describe(it))
        verdict = verdict.after(worst, of=subject)
        # Without a consequence it may only wait for room.
        return _tried_again(verdict) if worst.state is State.broken or worst.so else verdict
    if ready.get("status") == "True":
        return fine(f"Running: {plain(ready.get('message'))}", since=moment(ready.get("lastTransitionTime")))
    cause = plain(ready.get("message") or "its Pods are not ready yet")
    verdict = waits("Running, not ready yet", because=(cause,), more=describe(it))
    return verdict.after(worst, of=subject) if worst.state else verdict


def _tried_again(verdict: Verdict) -> Verdict:
    """One that runs has no command that deletes: other Pods of it may be well, and its controller acts by itself."""
    if verdict.fix and not commands.deletes(verdict.fix):
        return verdict
    step = "its controller deletes and creates its objects again until its retries are used; then it is Failed"
    return replace(verdict, fix="", next=step)


def _unwell(it: Object, *, ended: bool) -> Asking[list[Object]]:
    """Its Pods that do not run. With `ended` also those that have failed: others may run in their place since."""
    pods = yield from or_else(listed(PODS, it.namespace, label=(APP_WRAPPER, it.name)), [])
    over = ("Succeeded",) if ended else ("Succeeded", "Failed")
    unwell = (
        pod
        for pod in pods
        if objects.waits_for(pod.json) is not None and objects.status(pod.json).get("phase") not in over
    )
    return sorted(unwell, key=lambda pod: pod.name)


def _worst(it: Object, pods: list[Object]) -> Asking[tuple[Verdict, str]]:
    """The worst verdict on the first of these Pods, with the subject of its Pod."""
    worst, name = yield from worst_of(pods[:_LOOKED_AT])
    return worst, objects.named(PODS, name, it.namespace).subject


def _worst_component(it: Object) -> Asking[tuple[Verdict, str]]:
    """The first of the worst verdicts on what it has created, whose Pods may be refused, with the subject of that."""
    worst, subject = fine(""), ""
    for component in _component_states(it)[:_LOOKED_AT]:
        resource = _MAKERS.get((str(component.get("apiVersion")), str(component.get("kind"))))
        name = str(component.get("name") or "")
        if resource is None or not name:
            continue
        verdict = yield from or_else(judged(resource, name, it.namespace), None)
        if verdict is not None and verdict.state > max(worst.state, State.waits):
            worst, subject = verdict, objects.named(resource, name, it.namespace).subject
    return worst, subject


_MAKERS = {(resource.api_version, resource.kind): resource for resource in owners.JUDGES}
"""The kinds of components that are judged by what they say of their Pods."""


def _spend(pods: list[Object]) -> Asking[bool]:
    """Whether one more AppWrapper may be judged over these Pods: who judges all cannot ask about each Pod of each."""
    if not pods:
        return True
    spent = yield from once("Pods of AppWrappers", _nothing_spent)
    if len(spent) >= MOST_JUDGED or sum(spent) >= _MOST_PODS:
        return False
    spent.append(min(len(pods), _LOOKED_AT))
    return True


def _nothing_spent() -> Asking[list[int]]:
    yield from ()
    return []


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
    for component in _component_states(it):
        deployed = objects.condition({"status": component}, RESOURCES_DEPLOYED)
        if deployed.get("status") == "False" and deployed.get("reason") == "ComponentCreationErrored":
            yield f"{component.get('kind')} {component.get('name')}: {plain(deployed.get('message'))}"


def _component_states(it: Object) -> list[JSON]:
    return [mapping(component) for component in objects.status(it.json).get("componentStatus") or ()]


def _failed(it: Object) -> Asking[Verdict]:
    """What its condition keeps of the Pods, which are deleted."""
    unhealthy = objects.condition(it.json, UNHEALTHY)
    cause = plain(unhealthy.get("message") or unhealthy.get("reason") or "it says no reason", 600)
    since = moment(unhealthy.get("lastTransitionTime"))
    verdict = broken("Failed", since=since, because=(cause,), codes=("BERTH4013",), more=describe(it))
    pods = yield from _unwell(it, ended=True)
    worst, subject = (yield from _worst(it, pods)) if (yield from _spend(pods)) else (fine(""), "")
    # It does not go on, even where what its Pods lacked is there.
    if worst.state > State.waits:
        verdict = verdict.after(replace(worst, fix="", next=""), of=subject)
    return _created_anew(it, verdict)


def _created_anew(it: Object, verdict: Verdict) -> Verdict:
    """With the command that corrects its components, which cannot be changed.

    What Kueue has written for the last time is left out: the new one waits in its queue, where it has one.
    """
    fields = of_admission(objects.spec(it.json))
    fix = commands.rewrite(it.plural, it.name, namespace=it.namespace, fields=fields)
    how = "correct spec.components: the command deletes the AppWrapper with all its objects, and creates it again"
    return replace(verdict, fix=fix, next=how)


JUDGES = {APP_WRAPPERS: judge_app_wrapper, **queues.JUDGES}
