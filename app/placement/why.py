"""The verdict on a Pod without a node over where it may run: what it wants of its node, and none has."""

from __future__ import annotations

from datetime import datetime

from app.doctor import objects
from app.doctor.catalog import plain
from app.doctor.objects import Object
from app.kube.resources import PODS
from app.networks.why.confined import confining
from app.networks.why.makers import owner_of, topmost
from app.placement.checks import Dpus, dpus_of
from app.why.model import Asking, Verdict, or_else, read, stuck
from app.wire import JSON


def judge_pod(it: Object, _now: datetime) -> Asking[Verdict | None]:
    """Why no node fits, by its node selector and required affinity, those that Berth has given it too."""
    exists, spec = bool(it.json["metadata"].get("uid")), objects.spec(it.json)
    if exists and (spec.get("nodeName") or objects.status(it.json).get("phase") != "Pending"):
        return None
    pod = it.json
    if not exists and (planner := (yield from confining(it))) is not None:
        pod = yield from or_else(read(lambda _: planner.placed(it.json)), pod)
    spec = objects.spec(pod)
    if not (spec.get("nodeSelector") or (spec.get("affinity") or {}).get("nodeAffinity")):
        return None
    dpus = yield from or_else(read(dpus_of), None)
    if dpus is None:
        return None
    text, so = "" if exists else "would stay Pending", "no node can take it"
    if (of_dpu := dpus.problem(pod) or _without_dpu(pod, dpus)) is not None:
        cause, fix = of_dpu
        return stuck(text, because=(cause,), so=so, fix=fix)
    if not (cause := dpus.unmatched(pod)):
        return None
    owner = yield from read(lambda cluster: topmost(cluster, owner_of(pod)))
    fix, next_step = owner.edit() if owner.is_restarted else "", "starts when there is such a node"
    return stuck(text, because=(cause,), so=so, fix=fix, next=next_step)


def _without_dpu(pod: JSON, dpus: Dpus) -> tuple[str, str] | None:
    """That its tenant has no DPU at all, with the command that gives it one."""
    _, tenant = dpus.place_of(pod)
    if tenant is None or dpus.of_tenant(tenant):
        return None
    label = f"{dpus.tenant_label}={tenant}"
    return plain(f"tenant {tenant} has no DPU: no node has label {label}"), f'kubectl label node "$DPU" {label}'


JUDGES = {PODS: judge_pod}
