"""The verdict on a Pod as its claims see it: those that are missing, have no devices, or no network data."""

from __future__ import annotations

from datetime import datetime

from app.claims.definitions import CLASS_PREFIX
from app.claims.stored import claim_pod
from app.claims.why.templates import TEMPLATES_NOT_KEPT, definitions, templates_unkept
from app.doctor import objects
from app.doctor.objects import Object
from app.kube.resources import PODS, RESOURCE_CLAIM_TEMPLATES, RESOURCE_CLAIMS
from app.networks.why.makers import maker_of
from app.text import closest
from app.why.model import (
    Asking,
    State,
    Unread,
    Verdict,
    absence,
    combined,
    get,
    judged,
    or_else,
    read,
    stuck,
    told,
    waits,
)

_LOOKED_AT = 32
"""Claims of one Pod that are judged."""


def judge_pod(it: Object, _now: datetime) -> Asking[Verdict | None]:
    """By its claims; None where they are as they should be."""
    pod = claim_pod(it.json)
    if pod.over or it.json["metadata"].get("deletionTimestamp"):
        return None
    verdicts = list[Verdict | None]()
    made = {claim.name: claim.claim for claim in pod.claims}
    for entry in (objects.spec(it.json).get("resourceClaims") or ())[:_LOOKED_AT]:
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


JUDGES = {PODS: judge_pod}
