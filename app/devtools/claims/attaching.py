"""What Multus makes of a Pod's annotations: which attachment gets which device, and the network status. Pure.

Devices come from claims as Multus finds them: by ResourceSlices of the node, their generations merged, by attributes
`k8s.cni.cncf.io/resourceName` and `deviceID`. Claims that a Pod names itself are not looked at.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from app.claims.model import DEVICE_ID, PCI_BUS_ID, RESOURCE_NAME, device_key
from app.devtools.claims.annotations import FIRST, Element, selected
from app.devtools.sandbox.standins.sandboxes import NotAttached
from app.networks.model import RESOURCE_NAME as RESOURCE_OF_ATTACHMENT
from app.wire import JSON

CLUSTER_NETWORK = "cluster-network"


@dataclass(slots=True)
class DeviceMap:
    """The IDs of devices by resource, in the order of strings. Each use of a resource takes the next one."""

    ids: Mapping[str, Sequence[str]]
    addresses: Mapping[str, str] = field(default_factory=dict)
    _used: dict[str, int] = field(default_factory=dict)

    def next_id(self, resource: str) -> str:
        """The next ID; "" where the resource is used up: the attachment then gets no device."""
        at = self._used.get(resource, 0)
        self._used[resource] = at + 1
        ids = self.ids.get(resource, ())
        return ids[at] if at < len(ids) else ""

    def fresh(self) -> DeviceMap:
        """The same devices, none used."""
        return DeviceMap(self.ids, self.addresses)


def device_map(claims: Iterable[tuple[JSON, Mapping[str, str] | None]], slices: Iterable[JSON], node: str) -> DeviceMap:
    """The devices of these claims. One for extended resources comes with the resource of each of its requests.

    Raises NotAttached for a claim that has no devices, and for a device for an extended resource whose attributes do
    not say so. Without the attributes, a device of another claim is skipped.
    """
    known: dict[tuple[str, ...], JSON] = {}
    for body in slices:
        spec = body["spec"]
        if spec.get("nodeName") == node:  # Multus finds no others
            for device in spec.get("devices") or ():
                known[spec["driver"], spec["pool"]["name"], device["name"]] = device.get("attributes") or {}
    ids: dict[str, set[str]] = {}
    addresses: dict[str, str] = {}
    for claim, extended in claims:
        allocation = (claim.get("status") or {}).get("allocation")
        if not allocation:
            raise NotAttached(f"claim {claim['metadata']['name']} has no allocation")
        for result in (allocation.get("devices") or {}).get("results") or ():
            attributes = known.get(device_key(result)[:3], {})
            device, resource = _text(attributes, DEVICE_ID), _text(attributes, RESOURCE_NAME)
            if extended is not None and not (device and resource == extended.get(result["request"])):
                raise NotAttached(f"device {result['device']} lacks {DEVICE_ID} or the resource's {RESOURCE_NAME}")
            if device and resource:
                ids.setdefault(resource, set()).add(device)
                addresses[device] = _text(attributes, PCI_BUS_ID) or device
    return DeviceMap({resource: sorted(found) for resource, found in ids.items()}, addresses)


def _text(attributes: JSON, name: str) -> str:
    return str((attributes.get(name) or {}).get("string") or "")


def network_status(
    pod: JSON,
    attachments: Mapping[tuple[str, str], JSON],
    devices: DeviceMap,
    *,
    address: str,
    sandbox: int,
    give: Callable[[Element], list[str]],
) -> list[JSON]:
    """The status of all networks, the default one first. `sandbox` counts the sandboxes of the Pod.

    `address` is the Pod's own, `give` has those for an element.
    """
    uid, (default, others) = pod["metadata"]["uid"], selected(pod)
    entries = []
    first = default or Element("", CLUSTER_NETWORK, FIRST)
    at = _device(attachments.get(first.key), devices.fresh())
    entries.append(_entry(first, [address], at, f"{uid}/{sandbox}", devices, default=True))
    for element in others:
        at = _device(attachments[element.key], devices)
        entries.append(_entry(element, give(element), at, f"{uid}/{sandbox}", devices))
    return entries


def annotation(entries: Sequence[JSON]) -> str:
    """The network status as Multus writes it (pkg/utils of network-attachment-definition-client)."""
    return f"[{','.join(json.dumps(entry, indent=4) for entry in entries)}]"


def _device(attachment: JSON | None, devices: DeviceMap) -> str:
    resource = resource_of(attachment) if attachment else ""
    return devices.next_id(resource) if resource else ""


def resource_of(attachment: JSON) -> str:
    """The resource whose devices feed the attachment; "" for none."""
    return str((attachment["metadata"].get("annotations") or {}).get(RESOURCE_OF_ATTACHMENT) or "").strip()


def _entry(
    element: Element, ips: list[str], device: str, sandbox: str, devices: DeviceMap, *, default: bool = False
) -> JSON:
    """The members are in the order in which Multus writes them."""
    namespace, name = element.key
    entry: JSON = {"name": f"{namespace}/{name}" if namespace else name, "interface": element.interface}
    entry |= {"ips": ips} if ips else {}
    entry |= {"mac": _mac(element, f"{sandbox}/{element.interface}")}
    entry |= {"default": True, "dns": {}} if default else {"dns": {}}
    if device:
        pci = {"pci-address": devices.addresses.get(device, device)}
        entry["device-info"] = {"type": "pci", "version": "1.1.0", "pci": pci}
    return entry


def _mac(element: Element, seed: str) -> str:
    """What is asked for, else a locally administered address that differs where the seed does."""
    octets = re.findall("[0-9a-f]{2}", re.sub("[:.-]", "", element.mac.lower()))
    return ":".join(octets or ("02", *(f"{byte:02x}" for byte in hashlib.sha256(seed.encode()).digest()[:5])))
