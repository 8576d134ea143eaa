"""The verdict on an AppWrapper that does not exist yet: over its queue, and what the ClusterQueue of that can give."""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal

from app.appwrappers.kueue import model as kueue
from app.appwrappers.kueue.templates import asked_of
from app.appwrappers.model import queue_of
from app.appwrappers.why import queues, serving
from app.doctor import objects
from app.doctor.objects import Object
from app.kinds.requests import Amounts
from app.kube import quantity
from app.why.model import Asking, Verdict, absence, fine, get, or_else, stuck, waits
from app.wire import JSON

_MEANT = "have the ClusterQueue offer what it asks for, or have it ask for less"


def judge_planned(it: Object) -> Asking[Verdict]:
    """What it would do. Nothing in the cluster is its own."""
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
    return stuck(never, because=beyond, next=_MEANT, codes=("BERTH4012",)) if beyond else fine(text)


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
