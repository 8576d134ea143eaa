"""Of which DeviceClasses a claim asks for devices, and for how many. Pure.

Facts: resource.k8s.io/v1, ResourceClaimSpec.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from app.claims.model import MOST_CLAIMS
from app.kube.owners import controller_of
from app.wire import JSON

Requests = Mapping[str, int]
"""How many devices are asked for, by DeviceClass."""
_ALL = MOST_CLAIMS
"""Stands for all devices of a node: a claim has at most so many results."""


def requests_of(spec: JSON) -> Requests:
    """The requests of the spec of a ResourceClaim. Each alternative counts; requests with admin access do not."""
    found: dict[str, int] = {}
    for name, count in _requests((spec.get("devices") or {}).get("requests") or ()):
        found[name] = found.get(name, 0) + count
    return found


def _requests(requests: Iterable[JSON]) -> Iterator[tuple[str, int]]:
    for entry in requests:
        exactly = entry.get("exactly") or {}
        for request in (exactly, *(entry.get("firstAvailable") or ())):
            name = request.get("deviceClassName")
            if name and not request.get("adminAccess"):
                yield name, _ALL if request.get("allocationMode") == "All" else request.get("count") or 1


def added(parts: Iterable[Requests]) -> Requests:
    """All of them together."""
    found: dict[str, int] = {}
    for part in parts:
        for name, count in part.items():
            found[name] = found.get(name, 0) + count
    return found


def template_requests(template: JSON) -> Requests:
    """What is kept of a ResourceClaimTemplate."""
    return requests_of((template.get("spec") or {}).get("spec") or {})


def claim_requests(claim: JSON) -> Requests | None:
    """What is kept of a ResourceClaim that a Pod can name; None for one that was made for a Pod."""
    owner = controller_of(claim["metadata"])
    return None if owner.get("kind") == "Pod" else requests_of(claim.get("spec") or {})
