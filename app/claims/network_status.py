"""Reads the annotation network-status, in which Multus says what it has attached to a Pod. Pure."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from app.claims.model import NETWORK_STATUS, OLD_NETWORK_STATUS

_MOST_BYTES = 256 * 1024
"""As the API server limits all annotations of an object together."""


class _PciInfo(msgspec.Struct, frozen=True, rename="kebab"):
    pci_address: str = ""


class DeviceInfo(msgspec.Struct, frozen=True):
    """What the device plugin or the CNI plugin said of a device."""

    pci: _PciInfo = _PciInfo()
    vdpa: _PciInfo = _PciInfo()


class Attached(msgspec.Struct, frozen=True, rename={"device_info": "device-info"}):
    """An interface of a Pod. `name` is NAMESPACE/NAME of the attachment; that of the cluster network is another one.

    `ips` are bare addresses. `interface` is "" where the CNI plugin named none.
    """

    name: str
    interface: str = ""
    ips: tuple[str, ...] = ()
    mac: str = ""
    default: bool = False
    device_info: DeviceInfo | None = None

    @property
    def pci_address(self) -> str:
        """The address of its PCI device in lower case, "" where it is not known."""
        info = self.device_info
        return "" if info is None else (info.pci.pci_address or info.vdpa.pci_address).lower()


def status_in(annotations: Mapping[str, str]) -> str | None:
    """The text of the network status of a Pod with these annotations; None where it has none."""
    return annotations.get(NETWORK_STATUS, annotations.get(OLD_NETWORK_STATUS))


_decode = msgspec.json.Decoder(tuple[Attached, ...]).decode


def attached_to(text: str) -> tuple[Attached, ...]:
    """What is attached, in the order of Multus. Raises ValueError where the text is not a network status."""
    if len(text.encode(errors="replace")) > _MOST_BYTES:
        raise ValueError(f"larger than {_MOST_BYTES} bytes")
    try:
        return _decode(text)
    except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
        raise ValueError(f"not a network status: {error}") from error
