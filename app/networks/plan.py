"""The planner: everything known about one Pod in, operations with their reasons out. Pure, no clock, no client.

It serves the webhook and `berth explain`. Order: annotations, resources, huge pages, mounts and volume, node selector;
sorted within each, so that equal input gives an equal patch.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping
from functools import lru_cache, partial

import msgspec

from app.admission.chain import UNTOUCHED, Finished, MutationPlan, audit_text, refuse
from app.admission.pods import Pod, crowded
from app.errors import Denied
from app.networks import podnetinfo, userdefined
from app.networks.device_requests import (
    Need,
    count_needs,
    no_containers,
    plan_resources,
    resources_shape,
    target_container,
)
from app.networks.model import (
    CACHED_LENGTH,
    NODE_SELECTOR,
    Attachment,
    Mode,
    Networks,
    parse_node_selector,
    unrequestable,
)
from app.text import quoted
from app.wire import pointer

NO_NETWORKS = ("NoNetworks", "the Pod selects no networks")
_CACHED_NETWORKS = 16
_NODE_SELECTOR = "/spec/nodeSelector"
_Labels = dict[str, tuple[str, Attachment]]
"""The value of each label, with the first attachment that asks for it."""


class Inputs(msgspec.Struct, frozen=True):
    """One Pod, the annotations it will have, and what the settings and switches say.

    `claimed` are the devices that the Pod's claims ask for, by the resource that would ask for the same; `named` those
    that its containers ask for by another name.
    """

    pod: Pod
    annotations: userdefined.Merged
    mode: Mode
    node_selector_conflict: str
    hugepages: bool
    claimed: Mapping[str, int] = {}
    named: Mapping[str, int] = {}


class Demand(msgspec.Struct, frozen=True, eq=False):
    """What networks ask of any Pod. Plans share it, so its contents must not be changed.

    `first` is the reason of the first need, which stands for all where network information is mounted; `audit` is
    the line about resources for a Pod that gets all of them, `volume` the one about that information. `unasked` has a
    line for each attachment whose device no container can ask for. One that is `kept` is found again, and small.
    """

    needs: dict[str, Need]
    labels: _Labels
    counts: dict[str, int]
    first: str
    audit: str
    volume: str
    kept: bool
    unasked: tuple[str, ...] = ()


_MOST_PLANS = 512
_plans: dict[Hashable, Finished] = {}
"""Plans that were finished, by the shape of their Pods."""


def plan_networks(inputs: Inputs, networks: Networks | None, plan: MutationPlan) -> None:
    """Write what the Pod lacks for these networks into `plan`; None where its namespace is needed and not known.

    Raises Denied where its author or an attachment's author must act.
    """
    if networks is None:
        plan.skip("NoNamespace", "the namespace of the Pod is not known: its networks cannot be looked up")
    elif not networks and not inputs.annotations.sources:
        plan.skip(*NO_NETWORKS)
    else:
        plan_demand(inputs, demand_of(networks), plan)


def plan_alike(pod: Pod, demand: Demand, plan: MutationPlan, *, hugepages: bool) -> bool:
    """Whether a plan for this demand was finished for a Pod of the same shape; it is `plan` then, too.

    It holds for every mode but `add`, and where neither the control switches nor claims change what is wanted.
    """
    operations = _plans.get(_shape(pod, demand, hugepages=hugepages)) if plan.finished is UNTOUCHED else None
    if operations is None:
        return False
    plan.finished = operations
    return True


def _shape(pod: Pod, demand: Demand, *, hugepages: bool) -> Hashable | None:
    """All that a plan depends on, where that is few bits; None where it is more, such as amounts or names."""
    selector = pod.spec.node_selector
    if not demand.kept or not selector.keys().isdisjoint(demand.labels):
        return None
    resources = resources_shape(pod, demand.needs.keys())
    if resources is None:
        return None
    mounts = podnetinfo.mounts_shape(pod, hugepages=hugepages)
    return None if mounts is None else (demand, resources, mounts, bool(selector))


def plan_demand(inputs: Inputs, demand: Demand, plan: MutationPlan) -> None:
    """As `plan_networks`, for what its networks ask. Finishes the plan for Pods that are alike, where there can be."""
    merged = inputs.annotations
    shape = None
    served = inputs.claimed or inputs.named
    if plan.finished is UNTOUCHED and inputs.mode != "add" and not served and not merged.sources:
        shape = _shape(inputs.pod, demand, hugepages=inputs.hugepages)
    _plan(inputs, demand, plan)
    if shape is not None and not merged.warnings:
        if len(_plans) >= _MOST_PLANS:
            _plans.clear()
        _plans[shape] = plan.finish()


def _plan(inputs: Inputs, demand: Demand, plan: MutationPlan) -> None:
    pod, merged = inputs.pod, inputs.annotations
    before = len(plan.patch.operations)
    if not pod.spec.resource_claims:
        plan.warnings += demand.unasked
    demand = _unclaimed(demand, inputs.claimed, plan)
    demand = _unnamed(demand, inputs, plan)
    needs, labels = demand.needs, demand.labels
    _check_containers(pod, demand)
    _plan_annotations(pod, merged, plan)
    added: dict[str, int] = {}
    mounted = 0
    if needs:
        target = target_container(pod, merged.annotations)
        added = plan_resources(pod, needs, plan, target=target, mode=inputs.mode, annotations=merged.annotations)
        mounted = podnetinfo.plan_podnetinfo(pod, plan, target=target, hugepages=inputs.hugepages, reason=demand.first)
    selectors = _plan_node_selector(pod, labels, plan, conflict=inputs.node_selector_conflict)
    plan.warnings.extend(merged.warnings)
    if len(plan.patch.operations) == before:
        plan.skip("NothingMissing", "the Pod has all that its networks need")
        return
    plan.reason = plan.reason or "Injected"
    plan.audit["decision"] = plan.reason
    if added:
        plan.audit["resources"] = demand.audit if added == demand.counts else audit_text(_added_lines(added, needs))
    elif "resource" in plan.injected:
        plan.audit["resources"] = audit_text([f"requests and limits made equal for {','.join(needs)}"])
    if mounted:
        plan.audit["volume"] = demand.volume
    if selectors:
        plan.audit["node-selector"] = audit_text(selectors)
    if merged.sources:
        lines = (f"{key} for label {label}" for key, label in sorted(merged.sources.items()))
        plan.audit["annotations"] = audit_text(lines)


def _unclaimed(demand: Demand, claimed: Mapping[str, int], plan: MutationPlan) -> Demand:
    """What is left to ask for: the author of a Pod with a claim for the same devices has seen to these networks."""
    if not claimed or claimed.keys().isdisjoint(demand.needs):
        return demand
    served = {resource: need for resource, need in demand.needs.items() if resource in claimed}
    plan.audit["claimed"] = audit_text(f"{resource}: claims of the Pod ask for its devices" for resource in served)
    plan.warnings += [
        f"claims of the Pod ask for {claimed[resource]} of the devices that serve {resource}, and its networks need "
        f"{need.count}: nothing is injected; ask for as many"
        for resource, need in served.items()
        if claimed[resource] < need.count
    ]
    left = {resource: need for resource, need in demand.needs.items() if resource not in served}
    return _demand_for(left, demand.labels)


def _unnamed(demand: Demand, inputs: Inputs, plan: MutationPlan) -> Demand:
    """What is left to ask for beside what the Pod asks for by another name; in the mode `add` all of it."""
    named = {resource: count for resource, count in inputs.named.items() if resource in demand.needs}
    if not named or inputs.mode == "add":
        return demand
    lines = (f"{resource}={count} by another name of its DeviceClass" for resource, count in named.items())
    plan.audit["named"] = audit_text(lines)
    left: dict[str, Need] = {}
    for resource, need in demand.needs.items():
        count = need.count - named.get(resource, 0)
        if resource not in named or (inputs.mode == "top-up" and count > 0):
            left[resource] = msgspec.structs.replace(need, count=count)
    return _demand_for(left, demand.labels)


def _check_containers(pod: Pod, demand: Demand) -> None:
    count = len(pod.spec.containers)
    if not count and (demand.needs or demand.labels):
        raise no_containers()
    if demand.needs:
        # Each gets a mount and a variable.
        problems = list(crowded(count, len(pod.spec.init_containers), what="has networks"))
        refuse(problems, reason="TooManyContainers")


def _plan_annotations(pod: Pod, merged: userdefined.Merged, plan: MutationPlan) -> None:
    for key, label in sorted(merged.sources.items()):
        reason = f"user-defined injection of label {label}"
        plan.patch.ensure(userdefined.PATH, {}, present=bool(pod.metadata.annotations), reason=reason)
        plan.patch.add(pointer("metadata", "annotations", key), merged.annotations[key], reason=reason)
    if merged.sources:
        plan.count("annotation", len(merged.sources))


def demand_of(networks: Networks) -> Demand:
    """Raises Denied where an attachment is broken or two contradict each other.

    Pods of one template have the same networks, so what was found for them is kept. It follows from the attachments
    alone, which are values: a changed attachment is another key. Large ones are not kept, so that memory is bounded.
    """
    if len(networks) > _CACHED_NETWORKS:
        return _found_for(networks)
    for _, attachment in networks:
        if len(attachment.node_selector) > CACHED_LENGTH:
            return _found_for(networks)
    return _kept_for(networks)


def _found_for(networks: Networks, *, kept: bool = False) -> Demand:
    labels = _wanted_labels(attachment for _, attachment in networks)
    unasked = tuple(dict.fromkeys(_unasked(networks)))
    return _demand_for(count_needs(networks), labels, kept=kept and not unasked, unasked=unasked)


def _unasked(networks: Networks) -> Iterator[str]:
    for _, attachment in networks:
        for name in filter(unrequestable, attachment.resources):
            yield (
                f"network attachment definition '{attachment.key}' needs {quoted(name)}, which has no domain, so no "
                "container can ask for it: nothing is injected, and the Pod needs a claim of its own for the device"
            )


def _demand_for(
    needs: dict[str, Need], labels: _Labels, *, kept: bool = False, unasked: tuple[str, ...] = ()
) -> Demand:
    counts = {resource: need.count for resource, need in needs.items()}
    first = next(iter(needs.values())).reason if needs else ""
    volume = audit_text([f"{podnetinfo.VOLUME} at {podnetinfo.MOUNT_PATH} for {','.join(needs)}"])
    return Demand(needs, labels, counts, first, audit_text(_added_lines(counts, needs)), volume, kept, unasked)


_kept_for = lru_cache(maxsize=512)(partial(_found_for, kept=True))


def _added_lines(added: dict[str, int], needs: dict[str, Need]) -> Iterator[str]:
    for resource, amount in added.items():
        yield f"{resource}={amount} for {','.join(needs[resource].attachments)}"


def _wanted_labels(attachments: Iterable[Attachment]) -> _Labels:
    """Raises Denied for a broken selector, and where two attachments contradict each other: no node fits both."""
    by_key: _Labels = {}
    for attachment in attachments:
        if not attachment.node_selector:
            continue
        try:
            labels = parse_node_selector(attachment.node_selector)
        except ValueError as error:
            raise Denied(
                f"network attachment definition '{attachment.key}': annotation {NODE_SELECTOR}: {error}",
                reason="BadNodeSelector",
            ) from error
        for key, value in labels:
            other_value, other = by_key.setdefault(key, (value, attachment))
            if other_value != value:
                raise Denied(
                    f"network attachment definitions '{other.key}' and '{attachment.key}' contradict each other: "
                    f"their node selectors ask for {key}={other_value} and {key}={value}; no node fits both",
                    reason="NodeSelectorContradiction",
                )
    return by_key


def _plan_node_selector(pod: Pod, labels: _Labels, plan: MutationPlan, *, conflict: str) -> list[str]:
    """Plan the labels that the Pod's selector lacks; returns a line for each. Raises Denied for conflict "deny"."""
    if not labels:
        return []
    own = pod.spec.node_selector
    changes = [(key, value, source) for key, (value, source) in sorted(labels.items()) if own.get(key) != value]
    for key, value, source in changes:
        if key in own:
            text = f"nodeSelector {key}={quoted(own[key])[1:-1]} of the Pod"
            if conflict == "deny":
                raise Denied(
                    f"{text} contradicts network attachment definition '{source.key}', which asks for {key}={value}",
                    reason="NodeSelectorConflict",
                )
            plan.warnings.append(f"{text} is overridden with {value!r} by network attachment '{source.key}'")
        reason = f"annotation {NODE_SELECTOR} of {source.key}"
        plan.patch.ensure(_NODE_SELECTOR, {}, present=bool(own), reason=reason)
        plan.patch.add(pointer("spec", "nodeSelector", key), value, reason=reason)
    if changes:
        plan.count("node-selector", len(changes))
    return [f"{key}={value} for {source.key}" for key, value, source in changes]
