"""The verdict on a Namespace: whether Berth is asked about its Pods."""

from __future__ import annotations

from datetime import datetime

from app.doctor.objects import Object
from app.kube.resources import NAMESPACES
from app.why.calls import left_out
from app.why.model import Asking, State, Verdict, fine
from app.why.standing import by_conditions


def judge_namespace(it: Object, now: datetime) -> Asking[Verdict | None]:
    """That its Pods are not injected into is no fault of it: it may have been decided so."""
    if it.json["metadata"].get("deletionTimestamp"):
        return by_conditions(it, now)
    reason = yield from left_out(it.name)
    if reason is None:
        return fine("is there; Berth is asked about its Pods")
    state, text = State.fine if reason.meant else State.broken, "is there; nothing is injected into its Pods"
    return Verdict(state, text, because=(reason.cause,), fix=reason.fix, codes=reason.codes)


JUDGES = {NAMESPACES: judge_namespace}
