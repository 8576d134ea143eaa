"""The wing's part in the chain that mutates: gives Pods the annotations of their RDT classes when they are created."""

from __future__ import annotations

from collections.abc import Callable
from operator import methodcaller

from app.admission.chain import Plan, audit_text, refuse
from app.admission.patch import pointer
from app.admission.pods import Pod, crowded
from app.admission.reading import readable
from app.admission.review import Request, decode_object
from app.kube.configuration import Configuration
from app.rmd.admission.giving import Given, give_classes
from app.rmd.classes import Classes
from app.rmd.model import L3_CACHE_WAYS
from app.rmd.pods import SETTINGS

REASON = "NoRdtClass"
_ENDS = tuple(f"_{setting}" for setting in SETTINGS)


class RdtClassInjector:
    """Neutral to everything but the creation of Pods, and where `runtime` says that no RDT classes serve them."""

    name = "rdt-classes"

    def __init__(self, configuration: Configuration[Classes], *, runtime: Callable[[], bool]) -> None:
        self._configuration, self._runtime = configuration, runtime

    def inject(self, request: Request, plan: Plan) -> None:
        """Raises Denied where no class serves a container, or where it asks for what cannot be."""
        if not request.creates_pod or not _may_ask(request.pod) or not self._runtime():
            return
        if request.pod.mirror:
            plan.skip("MirrorPod", "the Pod mirrors a static Pod: it runs already")
            return
        if where := request.pod.opted_out:
            plan.skip("OptedOut", f"a {where} turns injection off: the Pod gets no RDT classes")
            return
        spec = request.pod.spec
        what = "asks for cache ways, or has settings of RMD"
        refuse(list(crowded(len(spec.containers), len(spec.init_containers), what=what)), reason=REASON)
        pod = decode_object(request.object, reason=REASON)
        given = readable(lambda: give_classes(pod, self._configuration.current), reason=REASON)
        plan.warnings += given.warnings
        refuse(given.problems, reason=REASON)
        _inject(request.pod, given, plan)


def _inject(pod: Pod, given: Given, plan: Plan) -> None:
    for key, (chosen, one) in given.classes.items():
        reason = f"container {one.container}: RDT class {chosen.name} serves {one.wish}"
        plan.patch.ensure("/metadata/annotations", {}, present=bool(pod.metadata.annotations), reason=reason)
        plan.patch.add(pointer("metadata", "annotations", key), chosen.name, reason=reason)
        plan.count("rdt-class")
    for place in given.taken:
        plan.patch.remove(pointer(*place), reason=f"{L3_CACHE_WAYS}: no node announces it where RDT classes serve")
        plan.count("cache-ways")
    if not (given.classes or given.taken):
        return
    if plan.reason != "Injected":
        plan.reason, plan.message = "Injected", ""
    plan.audit["decision"] = plan.reason
    said = [f"{found.name} for container {one.container} ({one.wish})" for found, one in given.classes.values()]
    if said:
        plan.audit["rdt-classes"] = audit_text(said)


def _may_ask(pod: Pod) -> bool:
    """Most Pods do not: their whole object is not decoded."""
    for one in (*pod.spec.init_containers, *pod.spec.containers):
        if one.resources is not None and L3_CACHE_WAYS in one.resources.limits:
            return True
    return any(map(_sets, pod.metadata.annotations))


_sets = methodcaller("endswith", _ENDS)
