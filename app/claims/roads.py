"""How a resource, or a DeviceClass, is served in a cluster. Pure.

A device is served in one of three ways: by the device plugin of a node, by an extended resource that a DeviceClass maps
(KEP-5004), or by a claim. Of a node that announces a resource, the device plugin serves it; of all others, the
DeviceClass.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Literal, NamedTuple

from app.cel.calls import NoValue
from app.cel.syntax import BadExpression, Node, parse
from app.cel.values import evaluate
from app.claims.model import DEVICE_ID, RESOURCE_NAME
from app.kube import quantity
from app.kube.resources import IMPLICIT_PREFIX
from app.networks.model import Attachment
from app.wire import JSON

Way = Literal["device plugin", "DRA by extended resource", "DRA by claim", "nothing"]
_SHOWN = 3


@dataclass(frozen=True, slots=True)
class Offer:
    """What a cluster offers: nodes by their allocatable amounts, and DeviceClasses and ResourceSlices as they are."""

    nodes: Mapping[str, Mapping[str, str]]
    classes: Sequence[JSON]
    slices: Sequence[JSON]


@dataclass(frozen=True, slots=True)
class Road:
    """`ways` are all that serve it, one for each kind of node; `text` says it in words, with what is missing."""

    ways: tuple[Way, ...]
    text: str

    @property
    def missing(self) -> bool:
        """Whether no node and no driver offers it."""
        return self.ways == ("nothing",)


class Demand(NamedTuple):
    """What a Pod that selects an attachment asks for: a resource, or a device of a DeviceClass."""

    name: str
    by_class: bool

    def road(self, offer: Offer) -> Road:
        return claim_road(self.name, offer) if self.by_class else road_of(self.name, offer)


def demands_of(attachment: Attachment) -> list[Demand]:
    """What Pods that select the attachment ask for. Which class a template asks for depends on their namespace."""
    if attachment.claim is not None:
        return [Demand(attachment.claim.device_class, True)] if attachment.claim.device_class else []
    return [Demand(name, False) for name in attachment.resources]


def allocatable_of(nodes: Iterable[JSON]) -> dict[str, Mapping[str, str]]:
    return {node["metadata"]["name"]: (node.get("status") or {}).get("allocatable") or {} for node in nodes}


def road_of(resource: str, offer: Offer) -> Road:
    """The road of an extended resource."""
    plugin = sorted(name for name, amounts in offer.nodes.items() if _is_some(amounts.get(resource)))
    mapped = [device_class for device_class in offer.classes if serves(device_class, resource)]
    ways: list[tuple[Way, str]] = []
    if plugin:
        ways.append(("device plugin", f"device plugin, on {_listed(plugin)}"))
    hints = []
    if "/" not in resource:  # no container can ask for it
        own = [
            device
            for part in offer.slices
            for device in part["spec"].get("devices") or ()
            if multus_finds(device, resource)
        ]
        if own:
            ways.append(("DRA by claim", f"claims of the Pods, with {_counted(len(own))} of this {RESOURCE_NAME}"))
    for device_class in mapped:
        name, devices = device_class["metadata"]["name"], devices_of(device_class, offer.slices)
        if not devices:
            hints.append(f"DeviceClass {name} maps it, and no ResourceSlice has a device of that class")
            continue
        where = f"DRA by extended resource, DeviceClass {name} with {_counted(len(devices))}"
        ways.append(("DRA by extended resource", where))
        if not any(multus_finds(device, resource) for device in devices):
            hints.append(
                f"Multus finds none of these devices: they lack the attributes {DEVICE_ID} and {RESOURCE_NAME} "
                f"({resource})"
            )
    if not ways:
        ways = [("nothing", "nothing offers it")]
    return Road(tuple(dict.fromkeys(way for way, _ in ways)), "; ".join([*(text for _, text in ways), *hints]))


def claim_road(device_class: str, offer: Offer) -> Road:
    """The road of a claim for a device of a class."""
    obj = next((obj for obj in offer.classes if obj["metadata"]["name"] == device_class), None)
    if obj is None:
        return Road(("nothing",), f"nothing offers it: there is no DeviceClass {device_class}")
    devices = devices_of(obj, offer.slices)
    if not devices:
        return Road(("nothing",), f"nothing offers it: no ResourceSlice has a device of DeviceClass {device_class}")
    return Road(("DRA by claim",), f"DRA by claim, DeviceClass {device_class} with {_counted(len(devices))}")


def devices_of(device_class: JSON, slices: Iterable[JSON]) -> list[JSON]:
    """The devices that a class selects, each with `driver`, `pool` and `node`, which is "" for one of no single node.

    A selector beyond the CEL that is known here selects every device: it is not decided.
    """
    listed = list(slices)
    newest: dict[tuple[str, str], int] = {}
    for resource_slice in listed:
        pool = resource_slice["spec"]["pool"]
        key = resource_slice["spec"]["driver"], pool["name"]
        newest[key] = max(newest.get(key, 0), pool.get("generation", 0))
    selectors = [
        selector["cel"]["expression"]
        for selector in (device_class.get("spec") or {}).get("selectors") or ()
        if selector.get("cel")
    ]
    matching = []
    for resource_slice in listed:
        driver, pool = resource_slice["spec"]["driver"], resource_slice["spec"]["pool"]
        if pool.get("generation", 0) == newest[driver, pool["name"]]:
            where = {"driver": driver, "pool": pool["name"], "node": resource_slice["spec"].get("nodeName") or ""}
            devices = ({**device, **where} for device in resource_slice["spec"].get("devices") or ())
            matching += [device for device in devices if all(_selects(text, device) for text in selectors)]
    return matching


def serves(device_class: JSON, resource: str) -> bool:
    """Whether a class maps an extended resource, by its own name or by that of every class."""
    name = device_class["metadata"]["name"]
    return resource in (IMPLICIT_PREFIX + name, (device_class.get("spec") or {}).get("extendedResourceName"))


def _selects(expression: str, device: JSON) -> bool:
    node = _parsed(expression)
    if node is None:
        return True
    attributes: dict[str, dict[str, Any]] = {}
    for key, value in (device.get("attributes") or {}).items():
        domain, slash, name = key.rpartition("/")
        attributes.setdefault(domain if slash else device["driver"], {})[name] = next(iter(value.values()), None)
    shown = {"driver": device["driver"], "attributes": attributes, "capacity": device.get("capacity") or {}}
    try:
        return evaluate(node, {"device": shown}) is not False
    except (NoValue, RecursionError):  # an expression may be a chain of a thousand terms
        return True


@lru_cache(maxsize=256)
def _parsed(expression: str) -> Node | None:
    try:
        return parse(expression)
    except BadExpression:
        return None


def multus_finds(device: JSON, resource: str) -> bool:
    """Whether a device has the attributes by which Multus gives it to attachments with this resource."""
    attributes = device.get("attributes") or {}
    named = (attributes.get(RESOURCE_NAME) or {}).get("string")
    return named == resource and bool((attributes.get(DEVICE_ID) or {}).get("string"))


def _is_some(amount: object) -> bool:
    try:
        return amount is not None and quantity.parse(amount) > 0
    except ValueError:
        return False


def _listed(names: Sequence[str]) -> str:
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return ", ".join(names[:_SHOWN]) + more


def _counted(devices: int) -> str:
    return f"{devices} device" + ("" if devices == 1 else "s")
