"""The verdict on a Namespace over its Pods: whether Berth is asked about them, and which of them need it."""

from __future__ import annotations

from datetime import datetime
from functools import partial

from app.admission.pods import INJECT
from app.doctor import objects
from app.doctor.catalog import FINDINGS
from app.doctor.cluster import LIVING, Cluster
from app.doctor.objects import Object
from app.kube.resources import PODS
from app.networks.why.lacking import Planner, planner_of
from app.text import several
from app.why import calls
from app.why.calls import Unasked
from app.why.model import Asking, State, Verdict, broken, fine, or_else, read
from app.why.standing import by_conditions

LEFT_OUT = "BERTH1209"
"""The code of Pods that ask for networks in a namespace about whose Pods Berth is not asked."""


def judge_namespace(it: Object, now: datetime) -> Asking[Verdict | None]:
    """Whether Berth is asked about its Pods. Where not, that is a fault if one of them needs what Berth injects."""
    if it.json["metadata"].get("deletionTimestamp"):
        return by_conditions(it, now)
    reason = yield from calls.left_out(it.name)
    if reason is None:
        ignored = objects.labels(it.json).get(INJECT) == "false"
        because = (f"no namespaceSelector reads its label {INJECT}=false",) if ignored else ()
        known = yield from calls.are_known()
        return fine("is there; Berth is asked about its Pods", because=because if known else ()) if known else None
    if (needed := (yield from judge_left_out(it, reason))) is not None:
        return needed
    state, text = State.fine if reason.meant else State.broken, "is there; nothing is injected into its Pods"
    return Verdict(state, text, because=(reason.cause,), fix=reason.fix, codes=reason.codes)


def judge_left_out(it: Object, reason: Unasked | None = None) -> Asking[Verdict | None]:
    """That Pods of the Namespace need what nothing injects there; None where none does, or Berth is asked."""
    reason = reason or (yield from calls.left_out(it.name))
    if reason is None or not reason.whole:
        return None
    planner = yield from read(planner_of)
    needing = yield from or_else(read(partial(_needing, planner=planner, namespace=it.name)), [])
    if not needing:
        return None
    text = f"{several(len(needing), 'Pod')} of it lack{'s' if len(needing) == 1 else ''} the devices of networks"
    return broken(
        f"nothing is injected into its Pods, and {text}, such as {needing[0]}",
        because=(reason.cause,),
        so=FINDINGS[LEFT_OUT].consequence,
        fix=reason.fix,
        next="create the Pods again after the command: Berth injects into new Pods alone",
        codes=(LEFT_OUT, *reason.codes),
    )


async def _needing(cluster: Cluster, planner: Planner, namespace: str) -> list[str]:
    """The Pods of a namespace that lack devices, by their subjects; in the order of the API server."""
    subjects = list[str]()
    async for pod in cluster.paged(PODS, namespace=namespace, field_selector=LIVING):
        if pod["metadata"].get("deletionTimestamp"):
            continue
        if any(lack.want == "resources" for lack in await planner.networks(pod)):
            subjects.append(objects.subject(PODS.kind, pod))
    return subjects
