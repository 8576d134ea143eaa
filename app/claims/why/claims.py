"""The verdicts on ResourceClaims and on Pods over their claims.

Whether a claim has devices, and may use them, and whether these have network data; of a Pod, whether its claims are
there.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from itertools import count

from app.claims.definitions import CLASS_PREFIX
from app.claims.stored import Claim, claim_pod, stored_claim
from app.claims.why import templates
from app.claims.why.allocation import (
    asks_of,
    judge_binding,
    judge_planned,
    judge_taints,
    judge_unallocated,
    unreserved,
)
from app.claims.why.network_data import judge_network_data
from app.claims.why.templates import TEMPLATES_NOT_KEPT, definitions, templates_unkept
from app.doctor import objects
from app.doctor.catalog import listed as several_of
from app.doctor.objects import Object
from app.kube.resources import PODS, RESOURCE_CLAIM_TEMPLATES, RESOURCE_CLAIMS
from app.networks.why.makers import maker_of
from app.text import closest, moment, several
from app.why.model import (
    Asking,
    State,
    Unread,
    Verdict,
    absence,
    combined,
    events_of,
    fine,
    get,
    judged,
    once,
    or_else,
    read,
    stuck,
    told,
    waits,
)
from app.why.standing import describe

_LOOKED_AT, _MOST = 4, 100
"""Pods that are gone whose Events are read, of one claim and of all claims of one examination."""

_CLAIMS_OF_POD = 32
"""Claims of one Pod that are judged."""


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
        return unreserved(it, now)
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
    # The newest of these was there with its Pods, or soon after them.
    times = [objects.created(made.json) for made in (it, *successors)]
    for consumer in claim.consumers[:_LOOKED_AT]:
        if next((yield from once("Pods that are gone", _counter))) < _MOST:
            metadata = {"name": consumer.name, "namespace": it.namespace, "uid": consumer.uid}
            events = yield from or_else(events_of(Object(PODS, {"metadata": metadata})), [])
            times += [moment(event.get("lastTimestamp") or event.get("eventTime")) for event in events[:1]]
    return unreserved(it, now, gone=gone, since=max(filter(None, times), default=None))


def _counter() -> Asking[Iterator[int]]:
    yield from ()
    return count()


def judge_pod(it: Object, _now: datetime) -> Asking[Verdict | None]:
    """By its claims; None where they are as they should be."""
    pod = claim_pod(it.json)
    if pod.over or it.json["metadata"].get("deletionTimestamp"):
        return None
    verdicts = list[Verdict | None]()
    made = {claim.name: claim.claim for claim in pod.claims}
    for entry in (objects.spec(it.json).get("resourceClaims") or ())[:_CLAIMS_OF_POD]:
        if claim := made.get(entry.get("name")):
            verdicts.append((yield from _of_claim(it, claim)))
        elif template := entry.get("resourceClaimTemplateName"):
            verdicts.append((yield from _of_template(it, template)))
    if pod.extended_claim:
        verdicts.append((yield from _of_claim(it, pod.extended_claim)))
    bad = [verdict for verdict in verdicts if verdict is not None and verdict.state > State.fine]
    return combined(bad) if bad else None


def _of_claim(it: Object, name: str) -> Asking[Verdict | None]:
    try:
        if (yield from get(RESOURCE_CLAIMS, name, it.namespace)) is None:
            clause, near = yield from absence(RESOURCE_CLAIMS, name, it.namespace)
            return (yield from _misnamed(it, clause, near))
        verdict = yield from judged(RESOURCE_CLAIMS, name, it.namespace)
    except Unread:
        return None
    if verdict is None:
        return None
    before = Verdict(verdict.state, "", asks=verdict.asks)
    return before.after(verdict, of=f"ResourceClaim {it.namespace}/{name}")


def _of_template(it: Object, name: str) -> Asking[Verdict | None]:
    """Of a claim that is made from a template, and is not there yet."""
    try:
        if (yield from get(RESOURCE_CLAIM_TEMPLATES, name, it.namespace)) is None:
            return (yield from _without_template(it, name))
        verdict = yield from judged(RESOURCE_CLAIM_TEMPLATES, name, it.namespace)
    except Unread:
        return None
    if verdict is not None and verdict.state > State.waits:
        return Verdict(verdict.state, "").after(verdict, of=f"ResourceClaimTemplate {it.namespace}/{name}")
    if not it.json["metadata"].get("uid"):
        return None
    if failed := (yield from told(it, ("FailedResourceClaimCreation",))):
        return stuck("", because=(failed,))
    return waits("", because=(f"its claim of ResourceClaimTemplate {name} is not made yet",))


def _without_template(it: Object, name: str) -> Asking[Verdict]:
    """Berth makes the template of a definition; every other one has to be there."""
    defined = yield from or_else(read(definitions), {})
    if name in defined or name.startswith(CLASS_PREFIX):
        cause = f"ResourceClaimTemplate {name} is made of the definition of this name, and is not there yet"
        unkept = yield from read(templates_unkept)
        if unkept is None:
            return waits("", because=(cause,))
        return stuck("", because=(cause, unkept[0]), fix=unkept[1], codes=(TEMPLATES_NOT_KEPT,))
    clause, near = yield from absence(RESOURCE_CLAIM_TEMPLATES, name, it.namespace)
    near = near or closest(name, defined)
    if near and near not in clause:
        clause = f"{clause}; there is a definition {near}"
    return (yield from _misnamed(it, clause, near))


def _misnamed(it: Object, clause: str, near: str) -> Asking[Verdict]:
    """It names what is not there; `near` is what was probably meant."""
    if not near:
        return stuck("", because=(clause,))
    maker, how = (yield from maker_of(it.json)), f"name {near}"
    if maker.kind == PODS.kind and not it.json["metadata"].get("uid"):
        return stuck("", because=(clause,), next=f"{how}, then create it")
    return stuck("", because=(clause,), fix=maker.edit(), next=maker.change(how))


JUDGES = {RESOURCE_CLAIMS: judge_claim, PODS: judge_pod, **templates.JUDGES}
