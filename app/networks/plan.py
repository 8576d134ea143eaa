"""The planner: everything known about one Pod in, operations with their reasons out. Pure, no clock, no client.

It serves the webhook and `berth explain`. Order: annotations, resources, huge pages, mounts and volume, node selector;
sorted within each, so that equal input gives an equal patch.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import msgspec

from app.admission.chain import Plan
from app.admission.patch import pointer
from app.errors import Denied
from app.networks.hugepages import plan_hugepages
from app.networks.model import Attachment, Pod
from app.networks.nodeselector import plan_node_selector, wanted_labels
from app.networks.podnetinfo import find_volume, is_foreign, plan_podnetinfo
from app.networks.resources import Mode, Need, count_needs, plan_resources
from app.networks.userdefined import Merged

_AUDIT_LENGTH = 256


class Inputs(msgspec.Struct, frozen=True):
    """One Pod, the annotations it will have, and its networks as (annotation, attachment) in their order."""

    pod: Pod
    annotations: Merged
    networks: tuple[tuple[str, Attachment], ...]
    mode: Mode = "top-up"
    node_selector_conflict: str = "override"
    hugepages: bool = False


def plan(inputs: Inputs, plan: Plan) -> None:
    """Write what the Pod lacks into `plan`. Raises Denied where its author or an attachment's author must act."""
    pod = inputs.pod
    before = len(plan.patch.operations)
    labels = wanted_labels(attachment for _, attachment in inputs.networks)
    needs = count_needs(inputs.networks)
    if (needs or labels) and not pod.spec.containers:
        raise Denied("spec.containers is empty: nothing can use the networks of the Pod", reason="NoContainers")
    _plan_annotations(inputs, plan)
    added: dict[str, int] = {}
    if needs:
        added = plan_resources(pod, needs, plan, mode=inputs.mode, annotations=inputs.annotations.annotations)
        found = find_volume(pod)
        files = plan_hugepages(pod, plan) if inputs.hugepages and not is_foreign(found) else []
        plan_podnetinfo(pod, found, files, plan, reason=_reason(needs))
    selectors = plan_node_selector(pod, labels, plan, conflict=inputs.node_selector_conflict) if labels else []
    plan.warnings.extend(inputs.annotations.warnings)
    if len(plan.patch.operations) == before:
        plan.skip("NothingMissing", "the Pod has all that its networks need")
        return
    plan.reason = plan.reason or "Injected"
    plan.audit["decision"] = plan.reason
    if added:
        plan.audit["resources"] = _audit(_added_lines(added, needs))
    if selectors:
        plan.audit["node-selector"] = _audit(selectors)
    if inputs.annotations.sources:
        plan.audit["injections"] = _audit(sorted(set(inputs.annotations.sources.values())))


def _plan_annotations(inputs: Inputs, plan: Plan) -> None:
    sources = inputs.annotations.sources
    for key in sorted(sources):
        reason = f"user-defined injection of label {sources[key]}"
        plan.patch.ensure("/metadata/annotations", {}, present=bool(inputs.pod.metadata.annotations), reason=reason)
        plan.patch.add(pointer("metadata", "annotations", key), inputs.annotations.annotations[key], reason=reason)
    if sources:
        plan.count("annotation", len(sources))


def _reason(needs: dict[str, Need]) -> str:
    """Why network information is mounted: the first resource in the order of names stands for all."""
    first = min(needs)
    return needs[first].reason(first)


def _added_lines(added: dict[str, int], needs: dict[str, Need]) -> Iterator[str]:
    for resource, amount in added.items():
        attachments = dict.fromkeys(attachment for _, attachment in needs[resource].sources)
        yield f"{resource}={amount} for {','.join(attachments)}"


def _audit(parts: Iterable[str]) -> str:
    text = "; ".join(parts)
    return text if len(text) <= _AUDIT_LENGTH else text[: _AUDIT_LENGTH - 1] + "…"
