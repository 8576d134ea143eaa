"""The verdict on a ResourceClaim: whether it has devices, and may use them, and whether these have network data."""

from __future__ import annotations

from datetime import datetime

from app.claims.stored import stored_claim
from app.claims.why import pods, templates
from app.claims.why.allocation import (
    HELD_FOR_NOBODY,
    asks_of,
    held_for_nobody,
    judge_binding,
    judge_planned,
    judge_taints,
    judge_unallocated,
)
from app.claims.why.network_data import judge_network_data
from app.doctor import commands
from app.doctor.objects import Object
from app.kube.resources import PODS, RESOURCE_CLAIMS
from app.text import moment, several
from app.why.model import Asking, Verdict, combined, fine, get, or_else, stuck, waits
from app.why.standing import describe


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
    consumer = claim.consumers[0]
    text = f"{several(len(claim.results), 'device')} for {consumer.resource}/{consumer.name}"
    if consumer.resource != "pods":
        return fine(text, asks=asks_of(it.json))
    try_pod = get(PODS, consumer.name, it.namespace)
    pod = yield from or_else(try_pod, Object(PODS, {"metadata": {"name": consumer.name, "uid": ""}}))
    if pod is not None and pod.json["metadata"].get("uid") == "":
        return fine(text, asks=asks_of(it.json))
    if pod is None or pod.json["metadata"].get("uid") != consumer.uid:
        cause = f"Pod {consumer.name}, which it is reserved for, does not exist"
        fix = commands.kubectl("delete", it.plural, it.name, namespace=it.namespace)
        text = f"{several(len(claim.results), 'device')} held for nobody"
        return stuck(text, because=(cause,), fix=fix, codes=(HELD_FOR_NOBODY,), more=describe(it))
    binding = judge_binding(it)
    if binding is not None:
        return binding
    verdicts = [(yield from judge_network_data(it, claim, pod, now)), (yield from judge_taints(it))]
    return combined([verdict for verdict in verdicts if verdict is not None])


JUDGES = {RESOURCE_CLAIMS: judge_claim, **templates.JUDGES, **pods.JUDGES}
