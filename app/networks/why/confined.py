"""Verdicts on a Pod over its confinement to the DPUs of its tenant, or of the host that it names."""

from __future__ import annotations

from functools import partial

from app.doctor.catalog import FINDINGS
from app.doctor.cluster import Cluster
from app.doctor.model import or_default
from app.doctor.objects import Object
from app.kube.resources import NAMESPACES
from app.networks.why.lacking import LACKING, Lack, Planner, planner_of, remedy
from app.networks.why.makers import maker_of
from app.placement.model import DPU_OF_HOST
from app.placement.settings import ConfinementSettings
from app.why.model import Asking, State, Verdict, broken, or_else, read
from app.wire import JSON


def judge_confinement(it: Object) -> Asking[list[Verdict]]:
    """What it lacks of its confinement; of one that is to be created, what stands against that."""
    if (planner := (yield from confining(it))) is None:
        return []
    pod, exists = it.json, bool(it.json["metadata"].get("uid"))
    lacks = yield from or_else(read(lambda _: planner.placement(pod)), [])
    if not exists:
        refused = [lack.text for lack in lacks if lack.want == "refused"]
        return [broken("would be denied", because=tuple(refused), codes=("BERTH1206",))] if refused else []
    verdicts = []
    for lack in lacks:
        owner = yield from maker_of(pod)
        fix = yield from read(
            partial(remedy, owner=owner, lack=lack, pods=[it.name]), key=("remedy", owner, lack, it.name)
        )
        verdicts.append(_unconfined(lack, fix, "" if lack.want == "refused" else owner.again))
    return verdicts


def confining(it: Object) -> Asking[Planner | None]:
    """A planner that knows whose the namespace of a Pod is; None where Berth would not place this one."""
    metadata = it.json["metadata"]
    confines = yield from read(_confines)
    if not (metadata.get("uid") or confines or DPU_OF_HOST in (metadata.get("annotations") or {})):
        return None
    planner = yield from read(planner_of)
    namespace = yield from read(lambda cluster: _namespace(cluster, it.namespace), key=("Namespace", it.namespace))
    planner.learn(NAMESPACES, namespace)
    return planner


def _unconfined(lack: Lack, fix: str, again: str) -> Verdict:
    severity, code = LACKING[lack.want]
    state, so = State.broken if severity.name == "error" else State.stuck, FINDINGS[code].consequence
    if lack.want == "refused":
        return Verdict(state, "would be denied today", because=(lack.text,), so=so, fix=fix, codes=(code,))
    cause = "it was not confined when it was created"
    text = f"lacks the node affinity {lack.text}"
    return Verdict(state, text, because=(cause,), so=so, fix=fix, next=again, codes=(code,))


async def _confines(cluster: Cluster) -> bool:
    return (await cluster.settings(ConfinementSettings)).confine_tenants


async def _namespace(cluster: Cluster, name: str) -> JSON:
    """The Namespace; its name alone where it may not be read, which says whose it is too."""
    return await or_default(cluster.get(NAMESPACES, name), None) or {"metadata": {"name": name}}
