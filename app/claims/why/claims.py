"""The verdict on a ResourceClaim: whether it has devices, and may use them, and whether these have network data."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from itertools import count

from app.claims.stored import Claim, stored_claim
from app.claims.why import pods, templates
from app.claims.why.allocation import (
    asks_of,
    held_for_nobody,
    judge_binding,
    judge_planned,
    judge_taints,
    judge_unallocated,
)
from app.claims.why.network_data import judge_network_data
from app.doctor import objects
from app.doctor.catalog import listed as several_of
from app.doctor.objects import Object
from app.kube.resources import PODS, RESOURCE_CLAIMS
from app.text import moment, several
from app.why.model import Asking, Unread, Verdict, combined, events_of, fine, get, once, or_else, waits
from app.why.standing import describe

_LOOKED_AT, _MOST = 4, 100
"""Pods that are gone whose Events are read, of one claim and of all claims of one examination."""


def judge_claim(it: Object, now: datetime) -> Asking[Verdict | None]:
    """Why a claim is where it is, over its Pod and its devices."""
    claim, metadata = stored_claim(it.json), it.json["metadata"]
    if not metadata.get("uid"):
        return (yield from judge_planned(it))
    if claim.deleting:
        used = tuple(f"reserved for {consumer.resource}/{consumer.name}" for consumer in claim.consumers)
        return waits("is being deleted", since=moment(metadata["deletionTimestamp"]), because=used, more=describe(it))
    if not claim.allocated:
        return (yield from judge_unallocated(it))
    if not claim.consumers:
        return held_for_nobody(it, now)
    successors = list[Object]()
    for consumer in claim.consumers:
        text = f"{several(len(claim.results), 'device')} for {consumer.resource}/{consumer.name}"
        if consumer.resource != "pods":
            return fine(text, asks=asks_of(it.json))
        try:
            pod = yield from get(PODS, consumer.name, it.namespace)
        except Unread:
            return fine(text, asks=asks_of(it.json))
        if pod is not None and pod.json["metadata"].get("uid") == consumer.uid:
            return (yield from _judge_used(it, claim, pod, now))
        successors += [pod] if pod is not None else []
    return (yield from _held_for_gone(it, claim, successors, now))


def _judge_used(it: Object, claim: Claim, pod: Object, now: datetime) -> Asking[Verdict]:
    """Of one whose Pod is there, whether that can use its devices."""
    if (binding := judge_binding(it, now)) is not None:
        return binding
    verdicts = [(yield from judge_network_data(it, claim, pod, now)), (yield from judge_taints(it))]
    return combined([verdict for verdict in verdicts if verdict is not None])


def _held_for_gone(it: Object, claim: Claim, successors: list[Object], now: datetime) -> Asking[Verdict]:
    """All Pods that it is reserved for are gone. `successors` have their names: a StatefulSet creates such Pods."""
    names = [consumer.name for consumer in claim.consumers]
    gone = f"Pod{'s' * (len(names) > 1)} {several_of(names)}, which it is reserved for,"
    gone += " does not exist" if len(names) == 1 else " do not exist"
    # Whatever of these is the newest was there with its Pods, or soon after them.
    times = [objects.created(each.json) for each in (it, *successors)]
    for consumer in claim.consumers[:_LOOKED_AT]:
        if next((yield from once("Pods that are gone", _counter))) < _MOST:
            metadata = {"name": consumer.name, "namespace": it.namespace, "uid": consumer.uid}
            events = yield from or_else(events_of(Object(PODS, {"metadata": metadata})), [])
            times += [moment(event.get("lastTimestamp") or event.get("eventTime")) for event in events[:1]]
    return held_for_nobody(it, now, gone=gone, since=max(filter(None, times), default=None))


def _counter() -> Asking[Iterator[int]]:
    yield from ()
    return count()


JUDGES = {RESOURCE_CLAIMS: judge_claim, **templates.JUDGES, **pods.JUDGES}
