"""The verdict on an AppWrapper that waits or would wait: over queue and Workload, and what the ClusterQueue has."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from decimal import Decimal

from app.appwrappers.kueue import model as kueue
from app.appwrappers.kueue.templates import asked_of
from app.appwrappers.model import QUEUE_NAME, queue_of
from app.appwrappers.why import controllers, queues, serving
from app.doctor import commands, objects
from app.doctor.objects import Object
from app.kinds.requests import Amounts
from app.kube import quantity
from app.why.model import Asking, State, Verdict, absence, fine, get, judged, or_else, read, stuck, waits
from app.why.standing import describe
from app.wire import JSON

PATIENCE = 300.0
"""Seconds in which a controller looks at an AppWrapper, and makes its Workload."""


def judge_planned(it: Object) -> Asking[Verdict]:
    """What one that does not exist yet would do. Nothing in the cluster is its own."""
    queue = queue_of(it.json)
    if not queue and objects.spec(it.json).get("suspend"):
        return waits("would be suspended", because=("spec.suspend is true, and it is in no queue",))
    if not queue:
        return fine("would be created")
    text = f"would wait in queue {queue}"
    served = yield from serving.served(it)
    versions = yield from serving.having(served, queue, it.namespace)
    if versions is None:
        return fine(text, because=(serving.unread_queue(queue, it.namespace),))
    if not versions:
        clause, _ = yield from absence(served[0][0], queue, it.namespace)
        return stuck(text, because=(clause,), codes=("BERTH4012",))
    local_queue = yield from or_else(get(versions[0][0], queue, it.namespace), None)
    if local_queue is None:
        return fine(text)
    standing = yield from queues.standing_of(local_queue)
    if standing.state:
        return stuck(text, codes=("BERTH4012",)).after(standing, of=f"LocalQueue {it.namespace}/{queue}")
    cluster_queue = yield from or_else(queues.cluster_queue_of(local_queue), None)
    beyond = tuple(_beyond(it, cluster_queue)) if cluster_queue is not None else ()
    never = f"would never be admitted by queue {queue}"
    return stuck(never, because=beyond, next=queues.OFFER_OR_ASK_LESS, codes=("BERTH4012",)) if beyond else fine(text)


def judge_suspended(it: Object, now: datetime, phase: str) -> Asking[Verdict]:
    """It waits for a queue, or for a user."""
    queue = queue_of(it.json)
    if not queue:
        patch = '--patch={"spec":{"suspend":false}}'
        fix = commands.kubectl("patch", it.plural, it.name, "--type=merge", patch, namespace=it.namespace)
        return waits(phase, because=("spec.suspend is true, and it is in no queue",), fix=fix)
    served = yield from serving.served(it)
    versions = yield from serving.having(served, queue, it.namespace)
    queued = f"it waits in queue {queue}" if versions is not None else serving.unread_queue(queue, it.namespace)
    if versions is None:
        versions = served
    if not versions:
        clause, near = yield from absence(served[0][0], queue, it.namespace)
        fix = commands.set_label(it.plural, it.name, QUEUE_NAME, near, namespace=it.namespace) if near else ""
        return stuck(f"{phase}, will never run", because=(clause,), fix=fix, codes=("BERTH4012",), more=describe(it))
    owned = yield from or_else(serving.workloads_of(it, versions), None)
    if owned is None:
        said = yield from serving.told_of_workload(it)
        because = (queued, *([said] if said else []))
        return waits(phase, because=because, more=describe(it))
    if not owned:
        return (yield from _without_workload(it, now, phase, queued))
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


def _without_workload(it: Object, now: datetime, phase: str, queued: str) -> Asking[Verdict]:
    """`queued` is the clause about its queue."""
    if (age := objects.age(it.json, now)) <= PATIENCE:
        return waits(phase, because=(f"{queued}, and its Workload is not made yet",), more=describe(it))
    cause, codes = f"waits in queue {queue_of(it.json)} for {age / 60:.0f} minutes and has no Workload", ("BERTH4006",)
    text = f"{phase}, will never run"
    if fix := (yield from read(controllers.make_workloads)):
        absent = f"controller {controllers.WORKLOADS} does not run"
        return stuck(text, because=(cause, absent), fix=fix, codes=codes, more=describe(it))
    next_step = f"have managedJobsNamespaceSelector in the configuration of Kueue select namespace {it.namespace}"
    shown = commands.kubectl("get", "namespace", it.namespace, "--show-labels")
    return stuck(text, because=(cause,), next=next_step, codes=codes, more=shown)


def _beyond(it: Object, cluster_queue: Object) -> Iterator[str]:
    """What it asks for beyond all that its ClusterQueue can ever give.

    Of a cohort, more may be borrowed. A resource that no flavor has may be one that Kueue is configured not to count.
    """
    spec = objects.spec(cluster_queue.json)
    if spec.get("cohort") or spec.get("cohortName"):
        return
    whole = _quotas(spec)
    for resource, amount in sorted(_asked(it).items()):
        if resource in whole and amount > whole[resource]:
            given = quantity.canonical(f"{whole[resource]:f}")
            asked = quantity.canonical(f"{amount:f}")
            yield f"asks for {resource} {asked}; {kueue.CLUSTER_QUEUES.kind} {cluster_queue.name} has {given} in all"


def _quotas(spec: JSON) -> Amounts:
    """By resource, of all flavors together."""
    totals: Amounts = {}
    for group in spec.get("resourceGroups") or ():
        for flavor in group.get("flavors") or ():
            for item in flavor.get("resources") or ():
                name = item.get("name")
                totals[name] = totals.get(name, Decimal()) + quantity.parse(item.get("nominalQuota") or 0)
    return totals


def _asked(it: Object) -> Amounts:
    """What its Pods ask for together; nothing of an AppWrapper that cannot be counted, which the webhook refuses."""
    try:
        return asked_of(objects.spec(it.json).get("components") or ())
    except (LookupError, TypeError, ValueError, AttributeError):
        return {}
