"""Names of dynamic resource allocation and of Multus that the wing reads and writes. Pure."""

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
