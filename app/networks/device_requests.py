"""Counts the device resources that a Pod's networks need and plans them into its containers. Pure.

What counts as asked for already: the app containers, and init containers that restart (sidecars), because their
devices stay with the Pod. Devices of an ordinary init container are free again when it ends, and the scheduler takes
the larger of both phases, not the sum; so they neither serve a network nor add to the Pod's request.

Requests and limits of a device resource must be equal. The amount of a container is the larger of its two sides,
and the other side is brought to it wherever a needed resource stands.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, KeysView, Mapping
from functools import lru_cache
from typing import Literal, NamedTuple

import msgspec

from app.admission.chain import MutationPlan
from app.admission.patch import Patch, Steps
from app.admission.pods import Container, Pod, Quantity, Resources
from app.errors import Denied
from app.kube import quantity
from app.kube.resources import IMPLICIT_PREFIX
from app.networks.model import (
    INJECTED_RESOURCES,
    RESOURCES_CONTAINER,
    Attachment,
    Mode,
    Networks,
    resource_name,
    unrequestable,
)
from app.text import quoted
from app.wire import escape, pointer

_NOTHING = Resources()


class Need(msgspec.Struct, frozen=True):
    """How many of a resource the networks need, the keys of the attachments that need it, and why, in words."""

    count: int
    attachments: tuple[str, ...]
    reason: str


class Target(NamedTuple):
    """A container of a Pod: the member of its spec that has it, and the place in that."""

    kind: Literal["containers", "initContainers"]
    place: int

    def of(self, pod: Pod) -> Container:
        return (pod.spec.containers if self.kind == "containers" else pod.spec.init_containers)[self.place]


_FIRST = Target("containers", 0)
_Record = dict[str, dict[str, int]]
"""What was added, by container and resource."""
_decode_record = msgspec.json.Decoder(_Record).decode


def count_needs(networks: Iterable[tuple[str, Attachment]]) -> dict[str, Need]:
    """The needs of (annotation, attachment) pairs in the order of the resources' names, duplicates counted.

    Names that no container can ask for are left out. Raises Denied for a broken resource name.
    """
    needs: dict[str, dict[tuple[str, str], int]] = {}
    for annotation, attachment in networks:
        for text in attachment.resources:
            if unrequestable(text):
                continue
            try:
                name = resource_name(text)
            except ValueError as error:
                raise Denied(
                    f"network attachment definition '{attachment.key}' has a broken resource name: {error}",
                    reason="BadResourceName",
                ) from error
            sources = needs.setdefault(name, {})
            source = (annotation, attachment.key)
            sources[source] = sources.get(source, 0) + 1
    return {name: _need(name, needs[name]) for name in sorted(needs)}


def _need(resource: str, sources: Mapping[tuple[str, str], int]) -> Need:
    parts = [
        f"annotation {annotation} selects {attachment}{f' {times} times' if times > 1 else ''}"
        for (annotation, attachment), times in sources.items()
    ]
    attachments = dict.fromkeys(attachment for _, attachment in sources)
    return Need(sum(sources.values()), tuple(attachments), f"{' and '.join(parts)}, which needs {resource}")


def plan_resources(
    pod: Pod,
    needs: Mapping[str, Need],
    plan: MutationPlan,
    *,
    target: Target,
    mode: Mode,
    annotations: Mapping[str, str],
) -> dict[str, int]:
    """Plan what the containers lack; returns the amounts added to the `target` by resource.

    Raises Denied where an amount in the Pod is not a whole number.
    """
    record = _read_record(annotations) if mode == "add" else {}
    mine = record.setdefault(target.of(pod).name, {})
    added: dict[str, int] = {}
    changed = 0
    for resource, need in needs.items():
        held = holders(pod, resource)
        if not held:
            # No container requests it: in every mode the target gets all of it.
            _plan_whole(pod, target, resource, need, plan)
            added[resource] = mine[resource] = need.count
            changed += 1
            continue
        surplus = sum(held.values()) - need.count
        if surplus > 0 and mode != "add":
            plan.warnings.append(
                f"the Pod asks for {surplus} {resource} more than its networks need, and Multus attaches no network to "
                "a device without a selection: select the network once for each device, or ask for fewer"
            )
        present = held.get(target, 0)
        if mode == "top-up":
            missing = max(0, need.count - sum(held.values()))
        elif mode == "skip":
            missing = 0 if target in held or any(place.kind == "containers" for place in held) else need.count
        else:
            believed = _believed(pod, record, resource, held)
            missing = max(0, need.count - sum(believed.values()))
            mine[resource] = believed.get(target, 0) + missing
        if missing:
            held[target] = present + missing
            added[resource] = missing
        operations = len(plan.patch.operations)
        for holder, amount in held.items():
            _plan_sides(pod, holder, resource, amount, plan, need.reason)
        changed += len(plan.patch.operations) > operations
    if added and mode == "add":
        reason = "what was added, so that a second injection adds nothing"
        plan.patch.ensure("/metadata/annotations", {}, present=bool(pod.metadata.annotations), reason=reason)
        text = msgspec.json.encode(dict(sorted(record.items()))).decode()
        plan.patch.add(pointer("metadata", "annotations", INJECTED_RESOURCES), text, reason=reason)
        plan.count("annotation")
        plan.audit["record"] = f"{INJECTED_RESOURCES} for resources that were added"
    if changed:
        plan.count("resource", changed)
    return added


def resources_shape(pod: Pod, names: KeysView[str]) -> tuple[bool, bool, bool] | None:
    """What the plan for these resources depends on, where the first container gets all of them.

    None where a container names one of them already, where an annotation chooses the container, or where there is none.
    """
    containers = pod.spec.containers
    if RESOURCES_CONTAINER in pod.metadata.annotations or not containers:
        return None
    sidecars = pod.spec.init_containers
    for container in [*containers, *sidecars] if sidecars else containers:
        resources = container.resources
        if resources is not None and not (names.isdisjoint(resources.requests) and names.isdisjoint(resources.limits)):
            return None
    resources = containers[0].resources
    if resources is None:
        return False, False, False
    return True, bool(resources.requests), bool(resources.limits)


def _believed(pod: Pod, record: _Record, resource: str, held: Mapping[Target, int]) -> dict[Target, int]:
    """What of the record each container still holds.

    All of them count: the first container of a second injection may be a sidecar that was put before ours.
    """
    recorded = {holder: record.get(holder.of(pod).name, {}).get(resource, 0) for holder in held}
    return {holder: min(max(0, recorded[holder]), amount) for holder, amount in held.items()}


def target_container(pod: Pod, annotations: Mapping[str, str]) -> Target:
    """The container that gets what networks need: the named one, an app container or a sidecar, else the first.

    A sidecar is an init container that restarts (KEP-753). Raises Denied where there are no app containers, and for a
    name that neither has.
    """
    if not pod.spec.containers:
        raise no_containers()
    name = annotations.get(RESOURCES_CONTAINER)
    if name is None:
        return _FIRST
    beside = [*_beside(pod)]
    for target in beside:
        if target.of(pod).name == name:
            return target
    fault = f"the Pod has no container {quoted(name)}"
    if any(container.name == name for container in pod.spec.init_containers):
        fault = f"init container {quoted(name)} has no restartPolicy Always, so it ends before the Pod runs"
    names = ", ".join(quoted(target.of(pod).name)[1:-1] for target in beside[:20])
    raise Denied(f"annotation {RESOURCES_CONTAINER}: {fault}; want one of: {names}", reason="UnknownContainer")


def _beside(pod: Pod) -> Iterator[Target]:
    """The containers that are there while the Pod runs."""
    for index in range(len(pod.spec.containers)):
        yield Target("containers", index)
    for index, container in enumerate(pod.spec.init_containers):
        if container.restart_policy == "Always":
            yield Target("initContainers", index)


def no_containers() -> Denied:
    """What is said of a Pod that has networks and no app container."""
    return Denied("spec.containers is empty: nothing can use the networks of the Pod", reason="NoContainers")


def implicit_in(pod: Pod) -> set[str]:
    """The implicit resources of DeviceClasses that containers name."""
    names: set[str] = set()
    for container in [*pod.spec.containers, *pod.spec.init_containers]:
        if (resources := container.resources) is not None:
            sides = (*resources.requests, *resources.limits)
            names.update(name for name in sides if name.startswith(IMPLICIT_PREFIX))
    return names


def names_a_class(networks: Networks) -> bool:
    """Whether networks need an implicit resource of a DeviceClass."""
    return any(IMPLICIT_PREFIX in resource for _, attachment in networks for resource in attachment.resources)


def holders(pod: Pod, resource: str) -> dict[Target, int]:
    """The amounts by container that stand beside the app while it runs; a container that names zero is in it."""
    held: dict[Target, int] = {}
    for holder in _beside(pod):
        container = holder.of(pod)
        resources = container.resources or _NOTHING
        for side in (resources.requests, resources.limits):
            if resource in side:
                held[holder] = max(_amount(side[resource], container, resource), held.get(holder, 0))
    return held


def _amount(value: Quantity, container: Container, resource: str) -> int:
    if isinstance(value, str) and len(value) < 10 and value.isascii() and value.isdigit():
        return int(value)
    try:
        return quantity.parse_integer(value)
    except ValueError as error:
        raise Denied(
            f"container {quoted(container.name)} asks for {resource}: {error}", reason="BadResourceAmount"
        ) from error


def _plan_sides(pod: Pod, holder: Target, resource: str, amount: int, plan: MutationPlan, reason: str) -> None:
    container = holder.of(pod)
    resources = container.resources or _NOTHING
    base = f"/spec/{holder.kind}/{holder.place}/resources"
    for name, side in (("requests", resources.requests), ("limits", resources.limits)):
        current = side.get(resource)
        if current is not None and _amount(current, container, resource) == amount:
            continue
        plan.patch.ensure(base, {}, present=container.resources is not None, reason=reason)
        plan.patch.ensure(f"{base}/{name}", {}, present=bool(side), reason=reason)
        plan.patch.add(f"{base}/{name}/{escape(resource)}", str(amount), reason=reason)


def _plan_whole(pod: Pod, target: Target, resource: str, need: Need, plan: MutationPlan) -> None:
    resources = target.of(pod).resources
    sides = resources or _NOTHING
    steps = _both_sides(target, resource, need.count, resources is not None, bool(sides.requests), bool(sides.limits))
    plan.patch.extend(steps, reason=need.reason)


@lru_cache(maxsize=2048)
def _both_sides(
    target: Target,
    resource: str,
    amount: int,
    has_resources: bool,  # noqa: FBT001  positional, as keywords make the key of a cache dear
    has_requests: bool,  # noqa: FBT001
    has_limits: bool,  # noqa: FBT001
) -> Steps:
    """The amount in both sides of a container that names the resource in neither.

    Kept because Pods of one template lack the same. The arguments say all that the operations depend on; they are
    short, since a resource name that was checked is, and operations are only ever read.
    """
    patch = Patch()
    base = f"/spec/{target.kind}/{target.place}/resources"
    for name, present in (("requests", has_requests), ("limits", has_limits)):
        patch.ensure(base, {}, present=has_resources, reason="")
        patch.ensure(f"{base}/{name}", {}, present=present, reason="")
        patch.add(f"{base}/{name}/{escape(resource)}", str(amount), reason="")
    return patch.steps()


def _read_record(annotations: Mapping[str, str]) -> _Record:
    """The record of earlier injections; an unreadable one counts as none."""
    try:
        return _decode_record(annotations.get(INJECTED_RESOURCES, "{}"))
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return {}
