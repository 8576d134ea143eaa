"""Writes the annotation `berth.dev/injected` (`app.admission.injected`), as the last injector of its chain."""

from __future__ import annotations

from app.admission.chain import MutationPlan
from app.admission.injected import INJECTED_BY, NETWORKS, merged, parts_of, read, still_there, written
from app.admission.parts import Parts
from app.admission.review import Request, decode_object
from app.wire import pointer

_REASON = f"annotation {INJECTED_BY}: what was injected, and by which version"
_FORGED = f"annotation {INJECTED_BY}: the object does not have what it says"


class InjectedAnnotation:
    """Stands behind all injectors: what it writes follows from what they have planned."""

    name = "injected-annotation"

    def inject(self, request: Request, plan: MutationPlan) -> None:
        """Neutral where nothing is planned and nothing is said. Raises Denied for an object that cannot be read."""
        finished = plan.finished
        planned = plan.patch.operations if finished is None else finished.decision.operations
        creates = request.operation == "CREATE" and not request.sub_resource and request.has_object
        if not planned and not creates:
            return
        annotations = request.pod.metadata.annotations if request.creates_pod else request.metadata.annotations
        said = annotations.get(INJECTED_BY) if creates else None
        if said is None and not planned:
            return
        if request.is_static_pod(annotations):
            return
        networks = _keys_of(plan.networks)
        parts = parts_of(planned)
        if said is not None:
            obj = decode_object(request.object, reason="UnreadableObject")
            parts = merged(still_there(read(said), obj), parts)
        if parts and networks:
            parts[NETWORKS] = dict.fromkeys(networks, "")
        value = written(parts) if parts else None
        if value == said:
            return
        path = pointer("metadata", "annotations", INJECTED_BY)
        if value is None:
            plan.patch.remove(path, reason=_FORGED)
            return
        plan.patch.ensure("/metadata/annotations", {}, present=bool(annotations), reason=_REASON)
        plan.patch.add(path, value, reason=_REASON)


PARTS = Parts(injectors=(InjectedAnnotation(),))


def _keys_of(networks: object) -> list[str]:
    """The attachments of a Pod, as the injector of networks has found them."""
    found = getattr(networks, "networks", ())
    return sorted({attachment.key for _, attachment in found})
