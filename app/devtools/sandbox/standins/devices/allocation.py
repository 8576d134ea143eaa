"""Which devices of one node serve claims: a search in the order of requests, alternatives and devices. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

from app.claims.model import DeviceKey
from app.devtools.sandbox.standins.devices.pools import Device
from app.devtools.sandbox.standins.devices.selecting import Refused, selects, tolerates
from app.wire import JSON

_MOST_STEPS = 20_000
MOST_RESULTS = 32
"""Devices that one claim can have, by the API."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """A claim to be served; `name` is for messages."""

    name: str
    spec: JSON


@dataclass(frozen=True, slots=True)
class Chosen:
    """A device for a request; `request` is NAME/ALTERNATIVE for one of `firstAvailable`, `asked` what it asks for."""

    request: str
    asked: JSON
    device: Device

    @property
    def admin_access(self) -> bool:
        return bool(self.asked.get("adminAccess"))


def allocate(
    claims: Sequence[Wanted], classes: Mapping[str, JSON], devices: Sequence[Device], taken: Collection[DeviceKey]
) -> list[list[Chosen]] | None:
    """The devices of each claim, None where the node cannot serve them all. Raises Refused.

    `taken` are the devices that other claims have; requests with admin access may have them too.
    """
    search = _Search(claims, classes, devices, taken)
    return search.chosen if search.found(0) else None


def requests_of(spec: JSON) -> list[JSON]:
    return (spec.get("devices") or {}).get("requests") or []


def alternatives(request: JSON) -> Iterator[tuple[str, JSON]]:
    """What serves a request, the best first: the name for results, and what is asked for."""
    name = request["name"]
    if "exactly" in request:
        yield name, request["exactly"]
    for one in request.get("firstAvailable") or ():
        yield f"{name}/{one['name']}", one


class _Search:
    """`chosen` has the devices by claim."""

    def __init__(
        self,
        claims: Sequence[Wanted],
        classes: Mapping[str, JSON],
        devices: Sequence[Device],
        taken: Collection[DeviceKey],
    ) -> None:
        self._claims, self._classes, self._devices = claims, classes, devices
        self._taken = set(taken)
        self._requests = [(index, one) for index, claim in enumerate(claims) for one in requests_of(claim.spec)]
        self._steps = 0
        self.chosen: list[list[Chosen]] = [[] for _ in claims]

    def found(self, position: int) -> bool:
        """Whether the requests from this position on can be served, given what is chosen for those before."""
        if position == len(self._requests):
            return True
        index, request = self._requests[position]
        for name, asked in alternatives(request):
            candidates = self._candidates(index, asked)
            if asked.get("allocationMode") == "All":
                # All that match, in use or not: with one that is in use the request cannot be served.
                count = len(candidates) or MOST_RESULTS + 1
            else:
                count = int(asked.get("count") or 1)
            if self._fill(position, name, asked, candidates, count):
                return True
        return False

    def _candidates(self, index: int, asked: JSON) -> list[Device]:
        if asked.get("capacity"):
            raise Refused(f"claim {self._claims[index].name}: the sandbox does not allocate capacity of devices")
        spec: JSON = self._classes[asked["deviceClassName"]].get("spec") or {}
        try:
            return [
                device
                for device in self._devices
                if selects(spec.get("selectors") or (), device)
                and selects(asked.get("selectors") or (), device)
                and tolerates(asked, device)
            ]
        except Refused as error:
            raise Refused(f"claim {self._claims[index].name}: {error}") from error

    def _fill(self, position: int, name: str, asked: JSON, candidates: list[Device], count: int) -> bool:
        """Choose `count` of the candidates, then what follows."""
        if not count:
            return self.found(position + 1)
        index = self._requests[position][0]
        mine = self.chosen[index]
        for at, device in enumerate(candidates[: max(0, len(candidates) - count + 1)]):
            self._steps += 1
            if self._steps > _MOST_STEPS:
                raise Refused(f"claim {self._claims[index].name}: more than {_MOST_STEPS} steps of allocation")
            one = Chosen(name, asked, device)
            if len(mine) >= MOST_RESULTS or (device.key in self._taken and not one.admin_access):
                continue
            mine.append(one)
            if not one.admin_access:
                self._taken.add(device.key)
            if self._is_allowed(index) and self._fill(position, name, asked, candidates[at + 1 :], count - 1):
                return True
            mine.pop()
            if not one.admin_access:
                self._taken.discard(device.key)
        return False

    def _is_allowed(self, index: int) -> bool:
        constraints = (self._claims[index].spec.get("devices") or {}).get("constraints") or ()
        return all(_holds(one, self.chosen[index]) for one in constraints)


def _holds(constraint: JSON, chosen: Sequence[Chosen]) -> bool:
    names = constraint.get("requests") or ()
    concerned = [one for one in chosen if not names or is_named(one.request, names)]
    attribute = constraint.get("matchAttribute") or constraint.get("distinctAttribute")
    values = [one.device.attributes.get(str(attribute)) for one in concerned]
    if None in values:
        return False
    kinds = {(type(value), value) for value in values}
    return len(kinds) <= 1 if constraint.get("matchAttribute") else len(kinds) == len(values)


def is_named(request: str, names: Collection[str]) -> bool:
    """Whether the request of a result is one of these; an alternative is where its request is."""
    return request in names or request.partition("/")[0] in names
