"""Names of dynamic resource allocation and of Multus that the wing reads and writes. Pure.

An update changes the network data of some entries of `status.devices`: which ones is said in Python, and in CEL for
the API server. What was written before is not looked at again: an old odd entry must not keep others from writing
theirs.
"""

from __future__ import annotations

from typing import NamedTuple

from app.wire import JSON

DEVICE_ID = "k8s.cni.cncf.io/deviceID"
RESOURCE_NAME = "k8s.cni.cncf.io/resourceName"
"""Attributes of a device by which Multus finds it: its id, and the resourceName of the attachments that it serves."""
PCI_BUS_ID = "resource.kubernetes.io/pciBusID"
"""The standard attribute with the address of a PCI device."""
NETWORK_STATUS = "k8s.v1.cni.cncf.io/network-status"
"""Annotation on a Pod, by Multus: what it has attached, as a JSON list."""
OLD_NETWORK_STATUS = "k8s.v1.cni.cncf.io/networks-status"
"""Annotation on a Pod, by Multus: the older name of the network status."""
EXTENDED_RESOURCE_CLAIM = "resource.kubernetes.io/extended-resource-claim"
"""Annotation "true" on a ResourceClaim, by the scheduler: it made the claim for extended resources of a Pod."""
POD_CLAIM_NAME = "resource.kubernetes.io/pod-claim-name"
"""Annotation on a ResourceClaim, by the resource claim controller: the name in `spec.resourceClaims` of its Pod."""
FIELD_MANAGER = "berth-claims"
PUBLISHED = "NetworkDataPublished"
"""The condition on each entry of `status.devices` that has network data of ours."""
MOST_IPS = 16
HARDWARE_ADDRESS_BYTES = 128
"""Limits of `networkData`, by the validation of resource.k8s.io/v1."""
CLAIM_TEMPLATE_MARK = "berth.dev/claim-template"
"""Label on a ResourceClaimTemplate, by the controller: it is made from the definition of this name.
"""
CLAIM_TEMPLATE_HASH = "berth.dev/claim-template-hash"
"""Annotation on a ResourceClaimTemplate, by the controller: a hash of what it was made from."""
DEFINITIONS_NAME = "berth-claim-templates"
"""The ConfigMap with definitions of claims, as a rule."""
MOST_CLAIMS = 32
"""Claims that are added to one Pod. The API has such a limit for what is in a claim, and none for claims in a Pod."""
NEW_ENTRIES = "object.status.devices"


class DeviceKey(NamedTuple):
    """The keys of an entry of `status.devices`; `share` is the shareID, "" for a device that is not shared."""

    driver: str
    pool: str
    device: str
    share: str = ""

    def __str__(self) -> str:
        return "/".join(self[:3] if not self.share else self)


def device_key(obj: JSON) -> DeviceKey:
    """The key of an allocation result, of an entry of `status.devices`, or of its key in managedFields."""
    return DeviceKey(obj.get("driver", ""), obj.get("pool", ""), obj.get("device", ""), obj.get("shareID") or "")


def changed_entries(obj: JSON, old: JSON) -> list[tuple[int, JSON]]:
    """(index, entry) of those with other network data than the entry with the same keys had before, in their order.

    Raises TypeError, ValueError, AttributeError or KeyError for objects of other shapes.
    """
    before = {device_key(entry): entry.get("networkData") for entry in entries_of(old)}
    return [
        (index, entry)
        for index, entry in enumerate(entries_of(obj))
        if entry.get("networkData") and entry["networkData"] != before.get(device_key(entry))
    ]


def entries_of(obj: JSON) -> list[JSON]:
    return (obj.get("status") or {}).get("devices") or []


def _entries(name: str) -> str:
    return f"(has({name}.status) && has({name}.status.devices) ? {name}.status.devices : [])"


def _share(name: str) -> str:
    return f"(has({name}.shareID) ? {name}.shareID : '')"


_SAME_KEYS = f"o.driver == d.driver && o.pool == d.pool && o.device == d.device && {_share('o')} == {_share('d')}"
_IS_CHANGED = (
    f"has(d.networkData) && !{_entries('oldObject')}"
    f".exists(o, {_SAME_KEYS} && has(o.networkData) && o.networkData == d.networkData)"
)
CHANGED_ENTRIES = f"{_entries('object')}.filter(d, {_IS_CHANGED})"
"""The list of changed entries."""
CHANGES_NETWORK_DATA = f"{_entries('object')}.exists(d, {_IS_CHANGED})"
