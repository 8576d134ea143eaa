"""Which nodes have the devices that a Pod's claims ask for. Pure."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from app.claims.model import DeviceKey
from app.devtools.sandbox.standins.devices.allocation import Chosen, Wanted, allocate, alternatives, requests_of
from app.devtools.sandbox.standins.devices.extended import Special, serving_classes, special_claim
from app.devtools.sandbox.standins.devices.pools import devices_of
from app.devtools.sandbox.standins.placement import matches_selector
from app.kinds.requests import amounts_of, pod_requests
from app.wire import JSON

NOT_ALLOCATED = "cannot allocate all claims"
ELSEWHERE = "resourceclaim not available on the node"


class ClassMissing(Exception):
    """A request names a class that is not there. The text is the scheduler's."""


@dataclass(frozen=True, slots=True)
class Stock:
    """What the cluster has: `taken` are devices that claims have already."""

    classes: Mapping[str, JSON]
    slices: Sequence[JSON]
    taken: Collection[DeviceKey]


@dataclass(frozen=True, slots=True)
class Found:
    """The devices on one node, by claim; the last are those of extended resources where `special` has requests."""

    devices: list[list[Chosen]]
    special: Special


@dataclass(slots=True)
class Fit:
    """The devices of one Pod: `claims` are its ResourceClaims, `special` that of its extended resources if it is there.

    Raises ClassMissing where a claim names a class that is not there.
    """

    pod: JSON
    claims: Sequence[JSON]
    special: JSON | None
    stock: Stock
    found: dict[str, Found] = field(default_factory=dict)
    _served: Mapping[str, str] = field(init=False)

    def __post_init__(self) -> None:
        for claim in self.pending:
            for request in requests_of(claim["spec"]):
                _check_classes(request, self.stock.classes)
        wanted = {name for name, amount in pod_requests(self.pod).items() if amount}
        serving = serving_classes(self.stock.classes.values()) if wanted else {}
        self._served = {name: serving[name] for name in sorted(wanted & serving.keys())}

    @property
    def pending(self) -> list[JSON]:
        """The claims that have no devices yet, that of extended resources last."""
        known = [*self.claims, *([] if self.special is None else [self.special])]
        return [claim for claim in known if not _allocation(claim)]

    def needed(self) -> bool:
        return bool(self.claims or self._served or self.special)

    def served(self, node: JSON) -> Collection[str]:
        return self._by_class(node).keys()

    def refusal(self, node: JSON) -> str | None:
        """Why the node cannot have the Pod; else `found` has the devices. Raises Refused."""
        for claim in (*self.claims, *([] if self.special is None else [self.special])):
            selector = _allocation(claim).get("nodeSelector")
            if selector and not matches_selector(selector, node):
                return ELSEWHERE
        special = special_claim(self.pod, self._by_class(node))
        wanted = [Wanted(_name(claim), claim["spec"]) for claim in self.pending]
        if self.special is None and special.requests:
            wanted.append(Wanted("with extended resources", {"devices": {"requests": special.requests}}))
        devices = devices_of(self.stock.slices, node) if wanted else []
        chosen = allocate(wanted, self.stock.classes, devices, self.stock.taken)
        if chosen is None:
            return NOT_ALLOCATED
        self.found[node["metadata"]["name"]] = Found(chosen, special)
        return None

    def _by_class(self, node: JSON) -> dict[str, str]:
        """The class of each resource that the node's own capacity does not offer."""
        allocatable = amounts_of((node.get("status") or {}).get("allocatable"))
        return {name: one for name, one in self._served.items() if not allocatable.get(name)}


def _check_classes(request: JSON, classes: Mapping[str, JSON]) -> None:
    for name, asked in alternatives(request):
        if asked["deviceClassName"] not in classes:
            raise ClassMissing(f"request {name}: device class {asked['deviceClassName']} does not exist")


def _allocation(claim: JSON) -> JSON:
    return (claim.get("status") or {}).get("allocation") or {}


def _name(claim: JSON) -> str:
    return f"{claim['metadata']['namespace']}/{claim['metadata']['name']}"
