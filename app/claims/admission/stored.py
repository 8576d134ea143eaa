"""What reviews keep of ResourceClaims and Pods: interfaces and addresses, and nothing of objects without any. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from ipaddress import IPv4Address, IPv6Address
from typing import NamedTuple

from app.cel.addresses import BadAddressError, parse_cidr, parse_ip
from app.claims.changes import entries_of
from app.claims.format import INTERFACE_NAME, IPS
from app.claims.model import DeviceKey, device_key
from app.claims.network_status import attached_to, status_in
from app.kube.conditions import status_of
from app.kube.store import Key, key_of
from app.pace import step
from app.wire import JSON

MOST_IPS = 16
"""Addresses of one device, as an API server bounds them."""
Address = IPv4Address | IPv6Address


class PodName(NamedTuple):
    """A Pod of the claim's namespace."""

    name: str
    uid: str


class HeldEntry(NamedTuple):
    """The network data of one device. `addresses` are in the order of `ips`, None for a text that is none."""

    device: DeviceKey
    interface: str
    addresses: tuple[Address | None, ...]


class HeldClaim(NamedTuple):
    """A claim with network data. `pod` is None where the claim is not reserved for one Pod alone."""

    key: Key
    pod: PodName | None
    entries: tuple[HeldEntry, ...]

    def addresses(self) -> Iterator[Address]:
        """Those by which a cache finds it; none where no Pod says on which network they are."""
        entries = self.entries if self.pod is not None else ()
        return (address for one in entries for address in one.addresses if address is not None)


class PodInterface(NamedTuple):
    """An interface on a network, NAMESPACE/NAME of its attachment."""

    name: str
    network: str
    addresses: tuple[Address, ...]


class NetworkPod(NamedTuple):
    """A Pod with interfaces on networks of attachments."""

    key: Key
    uid: str
    interfaces: tuple[PodInterface, ...]

    def addresses(self) -> Iterator[tuple[str, Address]]:
        """Those by which a cache finds it, each with its network."""
        return ((one.network, address) for one in self.interfaces for address in one.addresses)

    def network_of(self, interface: str) -> str:
        """The network of an interface; "" where Multus has not named the interface."""
        return next((one.network for one in self.interfaces if one.name == interface), "")


def stored_claim(obj: JSON) -> HeldClaim | None:
    """None for a claim without network data, and for one that is being deleted."""
    if "deletionTimestamp" in obj["metadata"]:
        return None
    found = held_claim(key_of(obj), obj)
    return found if found.entries else None


def held_claim(key: Key, obj: JSON) -> HeldClaim:
    """Raises TypeError, ValueError, AttributeError or KeyError for an object of another shape."""
    consumers = status_of(obj).get("reservedFor") or []
    pods = [PodName(one["name"], one["uid"]) for one in consumers if one.get("resource") == "pods"]
    entries = [(device_key(one), one["networkData"]) for one in entries_of(obj) if one.get("networkData")]
    return HeldClaim(
        key,
        pods[0] if len(consumers) == len(pods) == 1 else None,
        tuple(HeldEntry(device, _text(data.get(INTERFACE_NAME)), _addresses(data)) for device, data in entries),
    )


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""


def _addresses(data: JSON) -> tuple[Address | None, ...]:
    step(4 * MOST_IPS)
    return tuple(_in_cidr(text) for text in (data.get(IPS) or ())[:MOST_IPS])


def _in_cidr(text: object) -> Address | None:
    try:
        return parse_cidr(text).ip if isinstance(text, str) else None
    except BadAddressError:
        return None


def stored_network_pod(obj: JSON) -> NetworkPod | None:
    """None for a Pod that has ended or is being deleted: its addresses may be those of another one already.

    Networks that are no attachments, as that of the cluster, are left out, and so is a status that cannot be read.
    """
    metadata, status = obj["metadata"], status_of(obj)
    text = status_in(metadata.get("annotations") or {})
    if not text or "deletionTimestamp" in metadata or status.get("phase") in ("Succeeded", "Failed"):
        return None
    try:
        found = attached_to(text)
    except ValueError:
        return None
    interfaces = tuple(
        PodInterface(one.interface, one.name, tuple(_bare(one.ips)))
        for one in found
        if one.interface and "/" in one.name
    )
    return NetworkPod(key_of(obj), metadata.get("uid", ""), interfaces) if interfaces else None


def _bare(texts: tuple[str, ...]) -> Iterator[Address]:
    for text in texts:
        try:
            yield parse_ip(text)
        except BadAddressError:
            continue
