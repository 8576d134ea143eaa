"""Adds claims to a Pod: to its spec, and to the container that uses them. Pure.

Facts: in a container a reference to a claim excludes references to single requests of it, so the whole claim is only
referred to where the container has no reference to it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from app.admission.patch import Patch
from app.admission.pods import Container, Pod
from app.claims.model import MOST_CLAIMS
from app.errors import Denied

Kind = Literal["containers", "initContainers"]


@dataclass(frozen=True, slots=True)
class Added:
    """A claim that a Pod lacks, or whose container does not refer to it. `reason` is why it needs it."""

    name: str
    template: str
    kind: Kind
    container: int
    reason: str


def add_claims(pod: Pod, wanted: list[Added], patch: Patch) -> list[Added]:
    """Plan what of these the Pod lacks, and return that. Raises Denied where it would be too many."""
    existing = {claim.name for claim in pod.spec.resource_claims}
    used = {name for _, _, container in containers_of(pod) for name in claims_of(container)}
    missing = [claim for claim in wanted if claim.name not in existing or claim.name not in used]
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


def _refer(pod: Pod, one: Added, patch: Patch) -> None:
    containers = pod.spec.containers if one.kind == "containers" else pod.spec.init_containers
    resources, base = containers[one.container].resources, f"/spec/{one.kind}/{one.container}/resources"
    patch.ensure(base, {}, present=resources is not None, reason=one.reason)
    patch.ensure(f"{base}/claims", [], present=bool(resources and resources.claims), reason=one.reason)
    patch.add(f"{base}/claims/-", {"name": one.name}, reason=one.reason)


def containers_of(pod: Pod) -> Iterator[tuple[Kind, int, Container]]:
    for index, container in enumerate(pod.spec.containers):
        yield "containers", index, container
    for index, container in enumerate(pod.spec.init_containers):
        yield "initContainers", index, container


def claims_of(container: Container) -> list[str]:
    """The names of the claims that a container uses."""
    return [claim.name for claim in container.resources.claims] if container.resources is not None else []
