"""Claims of a Pod: how they are added to it and to its containers, which it asks for, and what it asks for twice. Pure.

In a container a reference to a claim excludes references to single requests of it, so the whole claim is only
referred to where the container has no reference to it.

A container asks for a definition as if it were a resource: `berth.dev/NAME: N` becomes N claims. No node announces
such a resource, so the request is taken out. Each claim is one of its own, so that the devices of each are aligned
among themselves.

Where a Pod asks for hardware by an extended resource and by a claim, the scheduler gives a device for each
(KEP-5004), and one of them is used by nothing. The resources of a DeviceClass are its `spec.extendedResourceName` and
the implicit `deviceclass.resource.kubernetes.io/NAME`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Literal, NamedTuple

from app.admission.patch import Patch
from app.admission.pods import INJECT, Container, Pod, Quantity, Resources
from app.claims.definitions import Definitions, DeviceClass
from app.claims.model import MOST_CLAIMS
from app.errors import Denied
from app.kube import quantity
from app.kube.names import shorten
from app.kube.resources import IMPLICIT_PREFIX
from app.networks.model import CLAIM_TEMPLATE, DEVICE_CLASS
from app.text import quoted
from app.wire import pointer

Kind = Literal["containers", "initContainers"]
PREFIX = "berth.dev/"
_LISTED = 20


@dataclass(frozen=True, slots=True)
class Added:
    """A claim that a Pod lacks, or whose container does not refer to it. `reason` is why it needs it."""

    name: str
    template: str
    kind: Kind
    container: int
    reason: str


def add_claims(pod: Pod, claims: list[Added], patch: Patch) -> list[Added]:
    """Plan what of these the Pod lacks, and return that. Raises Denied where it would be too many."""
    existing = {claim.name for claim in pod.spec.resource_claims}
    used = {name for _, _, container in containers_of(pod) for name in claims_of(container)}
    missing = [claim for claim in claims if claim.name not in existing or claim.name not in used]
    if missing:
        check_number(len(missing), first=missing[0].reason)
    for claim in missing:
        if claim.name not in existing:
            patch.ensure("/spec/resourceClaims", [], present=bool(pod.spec.resource_claims), reason=claim.reason)
            value = {"name": claim.name, "resourceClaimTemplateName": claim.template}
            patch.add("/spec/resourceClaims/-", value, reason=claim.reason)
        if claim.name not in used:
            _refer(pod, claim, patch)
    return missing


def check_number(count: int, *, first: str) -> None:
    """Raises Denied for more claims than are added to one Pod."""
    if count > MOST_CLAIMS:
        bound = f"want at most {MOST_CLAIMS} in a Pod, got {count}; the first is for: {first}"
        raise Denied(f"claims for networks and definitions: {bound}", reason="TooManyClaims")


def _refer(pod: Pod, claim: Added, patch: Patch) -> None:
    containers = pod.spec.containers if claim.kind == "containers" else pod.spec.init_containers
    resources, base = containers[claim.container].resources, f"/spec/{claim.kind}/{claim.container}/resources"
    patch.ensure(base, {}, present=resources is not None, reason=claim.reason)
    patch.ensure(f"{base}/claims", [], present=bool(resources and resources.claims), reason=claim.reason)
    patch.add(f"{base}/claims/-", {"name": claim.name}, reason=claim.reason)


def containers_of(pod: Pod) -> Iterator[tuple[Kind, int, Container]]:
    for index, container in enumerate(pod.spec.containers):
        yield "containers", index, container
    for index, container in enumerate(pod.spec.init_containers):
        yield "initContainers", index, container


def claims_of(container: Container) -> list[str]:
    """The names of the claims that a container uses."""
    return [claim.name for claim in container.resources.claims] if container.resources is not None else []


@dataclass(frozen=True, slots=True)
class DefinitionRequest:
    """How many claims of a definition a container asks for; `sides` are those of its resources that say it."""

    kind: Kind
    index: int
    container: Container
    definition: str
    count: int
    sides: tuple[str, ...]

    @property
    def reason(self) -> str:
        return f"container {self.container.name} asks for {PREFIX}{self.definition}"


def asked_of(pod: Pod) -> list[DefinitionRequest]:
    """What the containers of a Pod ask for. Raises Denied where an amount is none."""
    return [
        request
        for kind, index, container in containers_of(pod)
        if container.resources is not None and (container.resources.limits or container.resources.requests)
        for request in _asked(kind, index, container, container.resources)
    ]


def _asked(kind: Kind, index: int, container: Container, resources: Resources) -> Iterator[DefinitionRequest]:
    sides = {"requests": resources.requests, "limits": resources.limits}
    for resource in dict.fromkeys(name for side in sides.values() for name in side if name.startswith(PREFIX)):
        amounts = {name: side[resource] for name, side in sides.items() if resource in side}
        count = max(_amount(value, container, resource) for value in amounts.values())
        yield DefinitionRequest(kind, index, container, resource.removeprefix(PREFIX), count, tuple(amounts))


def plan_pairs(
    requests: list[DefinitionRequest], definitions: Definitions, patch: Patch, *, existing: int = 0
) -> list[Added]:
    """Take the requests out of the containers; the claims in their place. The Pod has `existing` claims already.

    Raises Denied for unknown definitions, and for too many claims.
    """
    claims = []
    # Looked at before names are made: of these, what the Pod has already needs no claim.
    check_number(sum(request.count for request in requests) - existing, first=requests[0].reason)
    for request in requests:
        if request.definition not in definitions:
            names = ", ".join(PREFIX + name for name in sorted(definitions)[:_LISTED]) or "there is none"
            raise Denied(
                f"container {quoted(request.container.name)} asks for {quoted(PREFIX + request.definition)}, and there "
                f"is no definition of this name: want one of: {names}",
                reason="UnknownDefinition",
            )
        for side in request.sides:
            place = pointer("spec", request.kind, request.index, "resources", side, PREFIX + request.definition)
            patch.remove(place, reason=f"{request.reason}: claims of it serve this")
        claims += [
            Added(name, request.definition, request.kind, request.index, request.reason) for name in _names(request)
        ]
    return claims


def _names(request: DefinitionRequest) -> Iterator[str]:
    """Stable names; those that the container uses already are of an earlier request."""
    taken, made, index = set(claims_of(request.container)), 0, 0
    while made < request.count:
        # With the slash no two texts are the same; it makes `shorten` add a hash.
        name = shorten(f"{request.definition}/{request.container.name}/{index}")
        index += 1
        if name not in taken:
            made += 1
            yield name


def _amount(value: Quantity, container: Container, resource: str) -> int:
    where = f"container {quoted(container.name)} asks for {resource}"
    try:
        count = quantity.parse_integer(value)
    except ValueError as error:
        raise Denied(f"{where}: {error}", reason="BadResourceAmount") from error
    if not 0 <= count <= MOST_CLAIMS:
        raise Denied(f"{where}: want at most {MOST_CLAIMS}, got {quoted(str(value))}", reason="BadResourceAmount")
    return count


class Asking(NamedTuple):
    """Which container asks for an extended resource, and where in the Pod."""

    resource: str
    field: str


def extended_resources(pod: Pod) -> list[Asking]:
    """The extended resources that containers ask for, each where it stands first; amounts of zero do not count."""
    by_resource: dict[str, Asking] = {}
    for kind, index, container in containers_of(pod):
        resources = container.resources
        for side, amounts in (("limits", resources.limits), ("requests", resources.requests)) if resources else ():
            for name, value in amounts.items():
                if "/" in name and _is_some(value):
                    by_resource.setdefault(name, Asking(name, f"spec.{kind}[{index}].resources.{side}[{name}]"))
    return list(by_resource.values())


def doubled(
    asking: Iterable[Asking], classes: Mapping[str, DeviceClass | None], claims: Mapping[str, str]
) -> Iterator[str]:
    """What is asked for twice. `claims` is the claim of the Pod that asks for a device of a class, by the class.

    A class of `classes` that does not exist (None) has its implicit resource alone.
    """
    served = {IMPLICIT_PREFIX + name: name for name in claims}
    served |= {
        device_class.resource: name
        for name, device_class in classes.items()
        if device_class is not None and device_class.resource
    }
    for request in asking:
        name = served.get(request.resource)
        if name is not None:
            yield (
                f"{request.field}: {request.resource} and claim {quoted(claims[name])} both ask for a device of "
                f"DeviceClass {name}: drop one of them. Where networks need the resource, annotate their attachment "
                f'with {DEVICE_CLASS} or {CLAIM_TEMPLATE} to have it served by a claim, or with {INJECT}: "false"; on '
                "the Pod the latter turns off injection and this check"
            )


def _is_some(value: str | float) -> bool:
    """What is no quantity, the API server refuses."""
    try:
        return quantity.parse(value) > 0
    except ValueError:
        return False
