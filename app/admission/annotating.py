"""Writes the annotation `berth.dev/injected` (`app.admission.injected`), as the last injector of its chain."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from app.admission.chain import MutationPlan
from app.admission.injected import INJECTED_BY, NETWORKS, merged, parts_of, read, still_there, written
from app.admission.injected import Parts as Said
from app.admission.parts import Parts
from app.admission.review import Request, decode_object
from app.wire import pointer

Injects = Callable[[str, str], bool]
_REASON = f"annotation {INJECTED_BY}: what was injected, and by which version"
_FORGED = f"annotation {INJECTED_BY}: the object does not have what it says"


class InjectedAnnotation:
    """Stands behind all injectors: what it writes follows from what they have planned."""

    name = "injected-annotation"

    def __init__(self, injects: Injects) -> None:
        self._injects = injects

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
            of_networks = _of(plan.networks) if request.creates_pod else {}
            parts = merged(self._only(still_there(read(said), obj), of_networks), parts)
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

    def _only(self, said: Said, of_networks: Said) -> Said:
        """Of what is said, what a plan for the object can have had. Of a Pod the networks are known."""
        kept: Said = {}
        for kind, names in said.items():
            for name, value in names.items():
                if name in of_networks.get(kind, names) and self._injects(kind, name):
                    kept.setdefault(kind, {})[name] = value
        return kept


def annotating(parts: Sequence[Parts]) -> Parts:
    """What stands behind these parts."""
    return Parts((InjectedAnnotation(lambda kind, name: any(part.injects(kind, name) for part in parts)),))


def _keys_of(networks: object) -> list[str]:
    """The attachments of a Pod, as the injector of networks has found them."""
    return sorted({attachment.key for attachment in _attachments(networks)})


def _attachments(networks: object) -> list[Any]:
    return [attachment for _, attachment in getattr(networks, "networks", ())]


def _of(networks: object) -> Said:
    """Resources, and keys of node selectors, that a Pod can have got from its networks."""
    attachments = _attachments(networks)
    resources = (resource for attachment in attachments for resource in attachment.resources)
    labels = (label for attachment in attachments for label in attachment.node_selector.split(","))
    keys = (label.partition("=")[0].strip() for label in labels)
    return {"resources": dict.fromkeys(resources, ""), "nodeSelector": dict.fromkeys(keys, "")}
