"""The planner: everything known about one Pod in, operations with their reasons out. Pure, no clock, no client.

It serves the webhook and `berth explain`. Order: annotations, resources, huge pages, mounts and volume, node selector;
sorted within each, so that equal input gives an equal patch.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache

import msgspec

from app.admission.chain import Plan, audit_text
from app.admission.patch import pointer
from app.admission.pods import Pod
from app.errors import Denied
from app.networks.device_requests import Mode, Need, count_needs, plan_resources
from app.networks.hugepages import plan_hugepages
from app.networks.model import Attachment
from app.networks.nodeselector import plan_node_selector, wanted_labels
from app.networks.podnetinfo import MOUNT_PATH, VOLUME, find_volume, is_foreign, plan_podnetinfo
from app.networks.userdefined import Merged

_CACHED_NETWORKS = 16
_CACHED_SELECTOR = 512
MOST_CONTAINERS = 1000
"""Each gets a mount and a variable. The API allows more, and the reviews of others would have to wait for them."""

Networks = tuple[tuple[str, Attachment], ...]
"""(annotation, attachment) pairs in their order."""


class Inputs(msgspec.Struct, frozen=True):
    """One Pod, the annotations it will have, and its networks as (annotation, attachment) in their order."""

    pod: Pod
    annotations: Merged
    networks: Networks
    mode: Mode = "top-up"
    node_selector_conflict: str = "override"
    hugepages: bool = False


class Demand(msgspec.Struct, frozen=True):
    """What networks ask of any Pod. Plans share it, so its contents must not be changed.

    `first` is the reason of the first need, which stands for all where network information is mounted; `audit` is
    the line about resources for a Pod that gets all of them, `volume` the one about that information.
    """

    needs: dict[str, Need]
    labels: dict[str, tuple[str, Attachment]]
    counts: dict[str, int]
    first: str
    audit: str
    volume: str


def demand(networks: Networks) -> Demand:
    """Raises Denied where an attachment is broken or two contradict each other.

    Pods of one template have the same networks, so what was found for them is kept. It follows from the attachments
    alone, which are values: a changed attachment is another key. Large ones are not kept, so that memory is bounded.
    """
    if len(networks) > _CACHED_NETWORKS:
        return _demand(networks)
    for _, attachment in networks:
        if len(attachment.node_selector) > _CACHED_SELECTOR:
            return _demand(networks)
    return _demand_cached(networks)


def _demand(networks: Networks) -> Demand:
    labels = wanted_labels(attachment for _, attachment in networks)
    needs = count_needs(networks)
    counts = {resource: need.count for resource, need in needs.items()}
    first = next(iter(needs.values())).reason if needs else ""
    volume = audit_text([f"{VOLUME} at {MOUNT_PATH} for {','.join(needs)}"])
    return Demand(needs, labels, counts, first, audit_text(_added_lines(counts, needs)), volume)


_demand_cached = lru_cache(maxsize=512)(_demand)


def plan(inputs: Inputs, plan: Plan) -> None:
    """Write what the Pod lacks into `plan`. Raises Denied where its author or an attachment's author must act."""
    pod = inputs.pod
    before = len(plan.patch.operations)
    wanted = demand(inputs.networks)
    needs, labels = wanted.needs, wanted.labels
    if (needs or labels) and not pod.spec.containers:
        raise Denied("spec.containers is empty: nothing can use the networks of the Pod", reason="NoContainers")
    if needs and len(pod.spec.containers) > MOST_CONTAINERS:
        bound = f"want at most {MOST_CONTAINERS} in a Pod with networks, got {len(pod.spec.containers)}"
        raise Denied(f"spec.containers: {bound}", reason="TooManyContainers")
    _plan_annotations(inputs, plan)
    added: dict[str, int] = {}
    mounted = 0
    if needs:
        added = plan_resources(pod, needs, plan, mode=inputs.mode, annotations=inputs.annotations.annotations)
        found = find_volume(pod)
        files = plan_hugepages(pod, plan) if inputs.hugepages and not is_foreign(found) else []
        mounted = plan_podnetinfo(pod, found, files, plan, reason=wanted.first)
    selectors = plan_node_selector(pod, labels, plan, conflict=inputs.node_selector_conflict) if labels else []
    plan.warnings.extend(inputs.annotations.warnings)
    if len(plan.patch.operations) == before:
        plan.skip("NothingMissing", "the Pod has all that its networks need")
        return
    plan.reason = plan.reason or "Injected"
    plan.audit["decision"] = plan.reason
    if added:
        plan.audit["resources"] = wanted.audit if added == wanted.counts else audit_text(_added_lines(added, needs))
    elif "resource" in plan.injected:
        plan.audit["resources"] = audit_text([f"requests and limits made equal for {','.join(needs)}"])
    if mounted:
        plan.audit["volume"] = wanted.volume
    if selectors:
        plan.audit["node-selector"] = audit_text(selectors)
    if inputs.annotations.sources:
        plan.audit["annotations"] = audit_text(_annotation_lines(inputs))


def _plan_annotations(inputs: Inputs, plan: Plan) -> None:
    sources = inputs.annotations.sources
    for key in sorted(sources):
        reason = f"user-defined injection of label {sources[key]}"
        plan.patch.ensure("/metadata/annotations", {}, present=bool(inputs.pod.metadata.annotations), reason=reason)
        plan.patch.add(pointer("metadata", "annotations", key), inputs.annotations.annotations[key], reason=reason)
    if sources:
        plan.count("annotation", len(sources))


def _annotation_lines(inputs: Inputs) -> Iterator[str]:
    for key, label in sorted(inputs.annotations.sources.items()):
        yield f"{key} for label {label}"


def _added_lines(added: dict[str, int], needs: dict[str, Need]) -> Iterator[str]:
    for resource, amount in added.items():
        yield f"{resource}={amount} for {','.join(needs[resource].attachments)}"
