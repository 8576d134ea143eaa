"""The verdicts on what Kueue keeps: Workloads, LocalQueues, ClusterQueues.

Conditions and their reasons are those of Kueue v0.11 and later.
"""

from __future__ import annotations

import re
from datetime import datetime
from decimal import Decimal

from app.appwrappers.kueue import model as kueue
from app.appwrappers.why import serving
from app.doctor import commands, objects
from app.doctor.catalog import plain
from app.doctor.objects import Object
from app.kube import quantity
from app.kube.resources import Resource, controller_of
from app.text import moment, several
from app.why.model import Asking, State, Unread, Verdict, absence, fine, get, listed, once, or_else, stuck, waits
from app.why.standing import describe
from app.wire import JSON

CLUSTER_QUEUES_V1BETA1 = Resource(kueue.GROUP, "v1beta1", "clusterqueues", "ClusterQueue", namespaced=False)
_NEVER = frozenset({kueue.EXCEEDS_MAX_QUOTA, kueue.NO_MATCHING_FLAVOR, kueue.MISCONFIGURED})
"""Reasons of a QuotaReserved that is False, where no Workload that ends makes room."""
_INADMISSIBLE = frozenset({"Inadmissible", kueue.MISCONFIGURED, kueue.SUSPENDED})
"""Reasons of a QuotaReserved that is False, where a queue is missing or does not admit: the first of older Kueues."""
_CAPACITY = "> maximum capacity"
"""What Kueue says of a flavor that is too small; before it had these reasons, in the message alone."""
_LASTING = re.compile(
    r"couldn't assign flavors to pod set [^\s:]+:|untolerated taint .*? in flavor [^\s,;]+|[,;.\s]+"
    r"|flavor \S+ doesn't match node affinity|flavor \S+ not found|resource \S+ unavailable in ClusterQueue"
    rf"|insufficient quota for \S+ in flavor [^\s,;]+,[^,;]*{_CAPACITY} \([^)]*\)"
)
"""The parts of such a message that stay true when other Workloads end. Kueue writes a part for each flavor."""
_LACKS = re.compile(r"for (?P<resource>\S+) in flavor (?P<flavor>[^\s,:;]+)")
_HOLDERS = 3
OFFER_OR_ASK_LESS = "have the ClusterQueue offer what it asks for, or have it ask for less"


def judge_workload(it: Object, _now: datetime) -> Asking[Verdict | None]:
    """Whether a Workload has its quota, what it waits for, and who holds that."""
    spec = objects.spec(it.json)
    finished, admitted = (objects.condition(it.json, kind) for kind in (kueue.FINISHED, kueue.ADMITTED))
    if finished.get("status") == "True":
        return fine(f"finished: {plain(finished.get('message'))}", since=_when(finished))
    if admitted.get("status") == "True":
        return fine("admitted", since=_when(admitted))
    if spec.get("active") is False:
        return _deactivated(it)
    name = str(spec.get("queueName") or "")
    if not name:
        return stuck("is never admitted", because=("it names no queue",), more=describe(it))
    reserved = objects.condition(it.json, kueue.QUOTA_RESERVED)
    try:
        queue = yield from get(_beside(it, kueue.LOCAL_QUEUES), name, it.namespace)
    except Unread:
        return _in_unread_queue(it, reserved, name)
    if queue is None:
        clause, _ = yield from absence(_beside(it, kueue.LOCAL_QUEUES), name, it.namespace)
        return stuck("is never admitted", because=(clause,), more=describe(it))
    standing = yield from standing_of(queue)
    if standing.state > 0:
        return stuck("waits for its queue", more=describe(it)).after(standing, of=queue.subject)
    if reserved.get("status") == "True":
        return _in_checks(it, reserved)
    return (yield from _without_quota(it, reserved, queue))


def _in_unread_queue(it: Object, reserved: JSON, name: str) -> Verdict:
    """By what Kueue says in its condition."""
    if reserved.get("status") == "True":
        return _in_checks(it, reserved)
    asks, said = f"{_requests(it)}; queue {name}", plain(reserved.get("message") or "Kueue has not looked at it yet")
    never = reserved.get("status") == "False" and (reserved.get("reason") in _INADMISSIBLE or _is_never(reserved))
    because = (said,) if never else (said, serving.unread_queue(name, it.namespace))
    verdict, text = (stuck, "is never admitted") if never else (waits, "waits for quota")
    return verdict(text, asks=asks, since=_when(reserved), because=because, more=describe(it))


def _without_quota(it: Object, reserved: JSON, queue: Object) -> Asking[Verdict]:
    name = str(objects.spec(queue.json).get("clusterQueue") or "")
    asks = f"{_requests(it)}; queue {queue.name} -> {name}"
    message, since = plain(reserved.get("message") or "Kueue has not looked at it yet"), _when(reserved)
    if not reserved:
        return waits(
            "waits to be looked at", asks=asks, since=objects.created(it.json), because=(message,), more=describe(it)
        )
    if _is_never(reserved):
        fix = commands.edit(_beside(it, kueue.CLUSTER_QUEUES), name)
        return stuck(
            "waits for more quota than there is", asks=asks, since=since, because=(message,), fix=fix, more=describe(it)
        )
    causes, lacks = [message], _LACKS.search(message)
    if lacks is not None:
        cluster_queue = yield from or_else(get(_beside(it, kueue.CLUSTER_QUEUES), name), None)
        asks += _room(cluster_queue, lacks["resource"], lacks["flavor"])
        resource = lacks["resource"]
        holders = yield from once(("holders", name, resource), lambda: _holders(it, name, resource))
        causes = [*holders, *causes] if holders else causes
    places = yield from once(("places", it.namespace, queue.name), lambda: _places(it, queue.name))
    asks += f"; place {places[it.name]} of {len(places)}" if it.name in places else ""
    return waits(
        "waits for quota",
        asks=asks,
        since=since,
        because=tuple(causes),
        next="runs when the quota is free; nothing to do",
        more=describe(it),
    )


def _holders(it: Object, cluster_queue: str, resource: str) -> Asking[list[str]]:
    """Who holds most of a resource in a ClusterQueue, as far as Workloads may be read."""
    workloads = yield from or_else(listed(it.resource), [])
    if not workloads:
        workloads = yield from or_else(listed(it.resource, it.namespace), [])
    held: list[tuple[Decimal, str]] = []
    for workload in workloads:
        admission = objects.status(workload.json).get("admission") or {}
        if admission.get("clusterQueue") != cluster_queue or _is(workload, kueue.FINISHED):
            continue
        amount = sum((_amount(item, resource) for item in admission.get("podSetAssignments") or ()), Decimal())
        if amount:
            held.append((amount, _owner(workload)))
    held.sort(key=lambda pair: (-pair[0], pair[1]))
    causes = [f"{owner} holds {resource} {_written(amount)}" for amount, owner in held[:_HOLDERS]]
    if (more := len(held) - _HOLDERS) > 0:
        causes.append(f"{several(more, 'other')} hold the rest")
    return causes


def _places(it: Object, queue: str) -> Asking[dict[str, int]]:
    """The places of Workloads that wait in a LocalQueue by their names, by priority and then by age."""
    workloads = yield from or_else(listed(it.resource, it.namespace), [])
    pending = [
        workload
        for workload in workloads
        if objects.spec(workload.json).get("queueName") == queue
        and not any(_is(workload, kind) for kind in (kueue.FINISHED, kueue.QUOTA_RESERVED))
        and objects.spec(workload.json).get("active") is not False
    ]
    return {workload.name: place for place, workload in enumerate(sorted(pending, key=_order), 1)}


def _order(workload: Object) -> tuple[int, str, str]:
    evicted = objects.condition(workload.json, kueue.EVICTED)
    queued = str(evicted.get("lastTransitionTime") or workload.json["metadata"].get("creationTimestamp") or "")
    return -int(objects.spec(workload.json).get("priority") or 0), queued, workload.name


def _in_checks(it: Object, reserved: JSON) -> Verdict:
    """It has its quota, and admission checks hold it."""
    checks = [check for check in objects.status(it.json).get("admissionChecks") or () if check.get("state") != "Ready"]
    causes = [f"check {check.get('name')}: {check.get('state')}: {plain(check.get('message'))}" for check in checks]
    verdict = stuck if any(check.get("state") == "Rejected" for check in checks) else waits
    return verdict(
        "has its quota, and waits for admission checks", since=_when(reserved), because=tuple(causes), more=describe(it)
    )


def _deactivated(it: Object) -> Verdict:
    evicted = objects.condition(it.json, kueue.EVICTED)
    cause = plain(evicted.get("message") or evicted.get("reason") or "spec.active is false")
    patch = commands.kubectl(
        "patch", it.plural, it.name, "--type=merge", '--patch={"spec":{"active":true}}', namespace=it.namespace
    )
    return stuck("is deactivated", since=_when(evicted), because=(cause,), fix=patch, more=describe(it))


def judge_local_queue(it: Object, _now: datetime) -> Asking[Verdict | None]:
    """Whether a LocalQueue admits, by itself and by its ClusterQueue, and which of its Workloads it never will."""
    standing = yield from standing_of(it)
    name = str(objects.spec(it.json).get("clusterQueue") or "")
    return (yield from _with_impossible(it, standing, name, [it]))


def standing_of(it: Object) -> Asking[Verdict]:
    """Whether a LocalQueue admits anything, whatever waits in it."""
    spec = objects.spec(it.json)
    if (policy := spec.get("stopPolicy") or "None") != "None":
        return _stopped(it, str(policy))
    name, resource = str(spec.get("clusterQueue") or ""), _beside(it, kueue.CLUSTER_QUEUES)
    try:
        cluster_queue = yield from get(resource, name)
        if cluster_queue is None:
            clause, near = yield from absence(resource, name)
            fix = commands.rewrite(it.plural, it.name, namespace=it.namespace) if near else ""
            # Kueue refuses another ClusterQueue. Workloads name their queue, and stay.
            how = f"set spec.clusterQueue to {near}: the command deletes the LocalQueue, and creates it again with that"
            return stuck("admits nothing", because=(clause,), fix=fix, next=how if near else "", more=describe(it))
    except Unread:
        return _active(it)
    standing = _of_cluster_queue(cluster_queue)
    if standing.state > 0:
        return stuck("admits nothing", more=describe(it)).after(standing, of=f"ClusterQueue {name}")
    return _active(it)


def cluster_queue_of(it: Object) -> Asking[Object | None]:
    """That of a LocalQueue."""
    return (yield from get(_beside(it, kueue.CLUSTER_QUEUES), str(objects.spec(it.json).get("clusterQueue") or "")))


def judge_cluster_queue(it: Object, _now: datetime) -> Asking[Verdict | None]:
    """Whether a ClusterQueue admits, and which Workloads of its LocalQueues it never will."""
    local = yield from or_else(listed(_beside(it, kueue.LOCAL_QUEUES)), [])
    queues = [queue for queue in local if objects.spec(queue.json).get("clusterQueue") == it.name]
    return (yield from _with_impossible(it, _of_cluster_queue(it), it.name, queues))


def _of_cluster_queue(it: Object) -> Verdict:
    if (policy := objects.spec(it.json).get("stopPolicy") or "None") != "None":
        return _stopped(it, str(policy))
    return _active(it)


def _with_impossible(it: Object, standing: Verdict, cluster_queue: str, queues: list[Object]) -> Asking[Verdict]:
    """The verdict on a queue, with the Workloads in these LocalQueues that no free quota admits."""
    impossible = list[Object]()
    for queue in queues if standing.state is State.fine else ():
        workloads = yield from or_else(listed(_beside(it, kueue.WORKLOADS), queue.namespace), [])
        impossible += [workload for workload in workloads if _is_impossible(workload, queue.name)]
    if not impossible:
        return standing
    impossible.sort(key=_order)
    first = impossible[0]
    said = objects.condition(first.json, kueue.QUOTA_RESERVED).get("message")
    return stuck(
        f"{standing.text}; {several(len(impossible), 'Workload')} can never be admitted",
        since=_when(objects.condition(first.json, kueue.QUOTA_RESERVED)),
        because=(f"{first.subject} ({_owner(first)}): {plain(said)}",),
        fix=commands.edit(_beside(it, kueue.CLUSTER_QUEUES), cluster_queue),
        next=OFFER_OR_ASK_LESS,
        more=describe(first),
    )


def _is_never(reserved: JSON) -> bool:
    """Whether a condition QuotaReserved is False for what does not change when other Workloads end."""
    said = str(reserved.get("message"))
    too_much = reserved.get("reason") in _NEVER or (_CAPACITY in said and not _LASTING.sub("", said))
    return reserved.get("status") == "False" and too_much


def _is_impossible(workload: Object, queue: str) -> bool:
    """Whether it waits in the LocalQueue for what the queue does not have, also when other Workloads end."""
    spec = objects.spec(workload.json)
    waiting = spec.get("queueName") == queue and spec.get("active") is not False
    reserved = objects.condition(workload.json, kueue.QUOTA_RESERVED)
    return waiting and _is_never(reserved) and not any(_is(workload, kind) for kind in (kueue.FINISHED, kueue.ADMITTED))


def _active(it: Object) -> Verdict:
    active, status = objects.condition(it.json, "Active"), objects.status(it.json)
    counts = f"{status.get('pendingWorkloads') or 0} wait, {status.get('admittedWorkloads') or 0} are admitted"
    if active.get("status") == "False":
        return stuck("is not active", since=_when(active), because=(plain(active.get("message")),), more=describe(it))
    return fine(f"admits: {counts}", since=_when(active))


def _stopped(it: Object, policy: str) -> Verdict:
    """Nothing but a person writes the policy, and for a reason that no object has."""
    patch = '--patch={"spec":{"stopPolicy":"None"}}'
    start = commands.kubectl("patch", it.plural, it.name, "--type=merge", patch, namespace=it.namespace)
    who, cause = f"an admin has stopped {it.subject}", f"spec.stopPolicy is {policy}"
    next_step = f"{who}: the admin decides whether the command may start it again"
    return stuck("is stopped", because=(cause,), fix=start, next=next_step, more=describe(it))


def _requests(it: Object) -> str:
    """What the Pods of a Workload ask for together, as it is counted: `cpu 3 (1 Pod)`."""
    totals: dict[str, Decimal] = {}
    pods = 0
    for pod_set in objects.spec(it.json).get("podSets") or ():
        count = int(pod_set.get("count") or 0)
        pods += count
        for container in (pod_set.get("template") or {}).get("spec", {}).get("containers") or ():
            for name, amount in ((container.get("resources") or {}).get("requests") or {}).items():
                totals[name] = totals.get(name, Decimal()) + quantity.parse(amount) * count
    amounts = ", ".join(f"{name} {_written(amount)}" for name, amount in sorted(totals.items()))
    return f"{amounts or 'nothing'} ({several(pods, 'Pod')})"


def _room(cluster_queue: Object | None, resource: str, flavor: str) -> str:
    """How much of a resource a ClusterQueue has in a flavor, and how much of that is free; "" where it is not known."""
    if cluster_queue is None:
        return ""
    quotas = (
        item.get("nominalQuota")
        for group in objects.spec(cluster_queue.json).get("resourceGroups") or ()
        for entry in group.get("flavors") or ()
        if entry.get("name") == flavor
        for item in entry.get("resources") or ()
        if item.get("name") == resource
    )
    whole = quantity.parse(next(quotas, 0))
    used = sum(
        (
            quantity.parse(item.get("total") or 0)
            for entry in objects.status(cluster_queue.json).get("flavorsReservation") or ()
            if entry.get("name") == flavor
            for item in entry.get("resources") or ()
            if item.get("name") == resource
        ),
        Decimal(),
    )
    free = max(whole - used, Decimal())
    return f": {_written(whole)} in all, {_written(free)} free in {flavor}"


def _written(amount: Decimal) -> str:
    return quantity.canonical(f"{amount:f}")


def _amount(assignment: JSON, resource: str) -> Decimal:
    return quantity.parse((assignment.get("resourceUsage") or {}).get(resource) or 0)


def _owner(workload: Object) -> str:
    """The job of a Workload, as users know it; in another namespace with that."""
    owner = controller_of(workload.json["metadata"])
    kind, name = owner.get("kind", "Workload"), owner.get("name", workload.name)
    return f"{kind} {workload.namespace}/{name}"


def _beside(it: Object, resource: Resource) -> Resource:
    """The kind of Kueue in the version of the object."""
    return Resource(resource.group, it.resource.version, resource.plural, resource.kind, resource.namespaced)


def _is(it: Object, kind: str) -> bool:
    return bool(objects.condition(it.json, kind).get("status") == "True")


def _when(condition: JSON) -> datetime | None:
    return moment(condition.get("lastTransitionTime"))


JUDGES = {
    kueue.WORKLOADS: judge_workload,
    kueue.WORKLOADS_V1BETA1: judge_workload,
    kueue.LOCAL_QUEUES: judge_local_queue,
    kueue.LOCAL_QUEUES_V1BETA1: judge_local_queue,
    kueue.CLUSTER_QUEUES: judge_cluster_queue,
    CLUSTER_QUEUES_V1BETA1: judge_cluster_queue,
}
