"""Containers that ask for a definition as if it were a resource: `berth.dev/NAME: N` becomes N claims. Pure.

No node announces such a resource, so the request is taken out. Each claim is one of its own, so that the devices of
each are aligned among themselves.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from app.admission.patch import Patch
from app.admission.pods import Container, Pod, Quantity, Resources
from app.claims.definitions import Definitions
from app.claims.injection.adding import Added, Kind, check_number, claims_of, containers_of
from app.claims.model import MOST_CLAIMS
from app.errors import Denied
from app.kube import quantity
from app.kube.names import shorten
from app.text import quoted
from app.wire import pointer

PREFIX = "berth.dev/"
_LISTED = 20


@dataclass(frozen=True, slots=True)
class Asked:
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


def asked_of(pod: Pod) -> list[Asked]:
    """What the containers of a Pod ask for. Raises Denied where an amount is none."""
    return [
        request
        for kind, index, container in containers_of(pod)
        if container.resources is not None and (container.resources.limits or container.resources.requests)
        for request in _asked(kind, index, container, container.resources)
    ]


def _asked(kind: Kind, index: int, container: Container, resources: Resources) -> Iterator[Asked]:
    sides = {"requests": resources.requests, "limits": resources.limits}
    for resource in dict.fromkeys(name for side in sides.values() for name in side if name.startswith(PREFIX)):
        amounts = {name: side[resource] for name, side in sides.items() if resource in side}
        count = max(_amount(value, container, resource) for value in amounts.values())
        yield Asked(kind, index, container, resource.removeprefix(PREFIX), count, tuple(amounts))


def plan_pairs(asked: list[Asked], definitions: Definitions, patch: Patch, *, existing: int = 0) -> list[Added]:
    """Take the requests out of the containers; the claims in their place. The Pod has `existing` claims already.

    Raises Denied for unknown definitions, and for too many claims.
    """
    claims = []
    # Looked at before names are made: of these, what the Pod has already needs no claim.
    check_number(sum(request.count for request in asked) - existing, first=asked[0].reason)
    for request in asked:
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


def _names(one: Asked) -> Iterator[str]:
    """Stable names; those that the container uses already are of an earlier request."""
    taken, made, index = set(claims_of(one.container)), 0, 0
    while made < one.count:
        # With the slash no two texts are the same; it makes `shorten` add a hash.
        name = shorten(f"{one.definition}/{one.container.name}/{index}")
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
