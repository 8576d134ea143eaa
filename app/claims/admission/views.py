"""What reviews keep of ResourceClaims and Pods, and what the caches know around one claim.

That is its Pod, the network of each interface, and who else has a name or an address. By indices alone: a review costs
as much as its claim has entries, however many claims and Pods there are.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from ipaddress import IPv4Address, IPv6Address
from typing import NamedTuple

from app.admission.decision import may_name, named
from app.cel.libraries import BadAddressError, parse_cidr, parse_ip
from app.claims.format import INTERFACE_NAME, IPS
from app.claims.model import DeviceKey, device_key, entries_of
from app.claims.network_status import attached_to, status_in
from app.claims.publishing.model import Attachment
from app.kube.conditions import status_of
from app.kube.store import Key, Store, key_of
from app.pace import step
from app.wire import JSON

BY_ADDRESS, BY_POD = "address", "pod"
"""Indices: of Pods by network and address, of claims by the UID of their Pod."""
MOST_IPS = 16
"""Addresses of one device, as an API server bounds them."""
Address = IPv4Address | IPv6Address
_Place = tuple[str, Address]
"""An address on a network."""


class Views:
    """The caches: claims with network data, Pods on networks of attachments, and these attachments.

    The network of a claim's address follows from its Pod. So a change of either moves the claim among those that
    `holding` finds: a review looks at no claim that has the address on another network.
    """

    def __init__(self, claims: Store[HeldClaim], pods: Store[NetworkPod], attachments: Store[Attachment]) -> None:
        self.claims, self.pods, self.attachments = claims, pods, attachments
        self._holding: dict[_Place, dict[Key, None]] = {}
        self._places: dict[Key, tuple[_Place, ...]] = {}
        claims.subscribe(lambda _event, key, _old, claim: self._put(key, claim))
        pods.subscribe(lambda _event, _key, old, new: self._put_claims_of(old, new))

    def holding(self, network: str, address: Address) -> Iterator[HeldClaim]:
        """The claims of Pods that have an address on a network, in the order in which that became known."""
        claims = (self.claims.get(*key) for key in self._holding.get((network, address), ()))
        return (claim for claim in claims if claim is not None)

    def _put_claims_of(self, *pods: NetworkPod | None) -> None:
        for uid in {pod.uid for pod in pods if pod is not None}:
            for claim in self.claims.by_index(BY_POD, uid):
                self._put(claim.key, claim)

    def _put(self, key: Key, claim: HeldClaim | None) -> None:
        pod = self.pod_of(claim) if claim is not None else None
        places = tuple(claim.places(pod)) if claim is not None and pod is not None else ()
        if places == self._places.get(key, ()):
            return
        for place in self._places.pop(key, ()):
            self._holding[place].pop(key)
            if not self._holding[place]:
                del self._holding[place]
        for place in places:
            self._holding.setdefault(place, {})[key] = None
        if places:
            self._places[key] = places

    def pod_of(self, claim: HeldClaim) -> NetworkPod | None:
        """None where the claim is not of one Pod, and where Multus has not said what it attached to it."""
        pod = self.pods.get(claim.key[0], claim.pod.name) if claim.pod is not None else None
        return pod if pod is not None and claim.pod is not None and pod.uid == claim.pod.uid else None


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What is known of the interface of an entry.

    `network` is NAMESPACE/NAME of its attachment, "" where Multus has not named the interface; then nothing is said
    about addresses. `attachment` is None where it does not exist. `holders` say which other interface of the network
    has an address. `pod` is NAMESPACE/NAME of the Pod, and `namesake` another device of it with the same interface
    name, "" for none. `shows_subnets`: whether a message may say which subnets the attachment has.
    """

    network: str = ""
    attachment: Attachment | None = None
    shows_subnets: bool = False
    holders: Mapping[Address, str] = field(default_factory=dict)
    pod: str = ""
    namesake: str = ""


class Scene:
    """Around the claim as it is being written; what the cache has of it does not count.

    A claim that is not reserved for one Pod alone has no surroundings: its interfaces may be in different Pods.
    Objects of namespace `home` alone are named.
    """

    def __init__(self, views: Views, claim: HeldClaim, *, home: str) -> None:
        self._views, self._claim, self._home = views, claim, home
        self._pod = views.pod_of(claim)
        self._names: dict[str, list[tuple[Key, HeldEntry]]] = {}
        self._own: dict[tuple[str, Address], dict[str, HeldEntry]] = {}
        if claim.pod is None:
            return
        others = [other for other in views.claims.by_index(BY_POD, claim.pod.uid) if other.key != claim.key]
        for held in (claim, *others):
            step()
            for entry in held.entries:
                named = self._names.setdefault(entry.interface, [])
                if len(named) < 2:  # itself, and another one
                    named.append((held.key, entry))
        for entry in claim.entries:
            network = self._network(entry)
            for address in entry.addresses if network else ():
                if address is not None:
                    self._own.setdefault((network, address), {}).setdefault(entry.interface, entry)

    def around(self, entry: HeldEntry) -> Surroundings:
        """What is known around an entry of the claim."""
        claim, network = self._claim, self._network(entry)
        if claim.pod is None or not entry.interface:
            return Surroundings()
        namesakes = (
            self._device(key, other)
            for key, other in self._names[entry.interface]
            if (key, other) != (claim.key, entry)
        )
        holders = {
            address: holder
            for address in (entry.addresses if network else ())
            if address is not None and (holder := next(self._holders(entry.interface, network, address), ""))
        }
        place, _, name = network.partition("/")
        return Surroundings(
            network=network,
            attachment=self._views.attachments.get(place, name) if network else None,
            shows_subnets=may_name((place, name), self._home),
            holders=holders,
            pod=f"{claim.key[0]}/{claim.pod.name}",
            namesake=next(namesakes, ""),
        )

    def _network(self, entry: HeldEntry) -> str:
        return self._pod.network_of(entry.interface) if self._pod is not None else ""

    def _holders(self, interface: str, network: str, address: Address) -> Iterator[str]:
        """Who else has the address on the network, in words: another Pod, or another interface of the same one."""
        me = (self._pod.uid if self._pod is not None else "", interface)
        for pod in self._views.pods.among(BY_ADDRESS, (network, address)):
            for attached in pod.interfaces:
                if (pod.uid, attached.name) != me and attached.network == network and address in attached.addresses:
                    yield self._of(f"interface {attached.name}", "Pod", pod.key)
        for name, entry in self._own.get((network, address), {}).items():
            if name != interface:
                yield self._device(self._claim.key, entry)
        for claim in self._views.holding(network, address):
            step()
            its = self._views.pod_of(claim) if claim.key != self._claim.key else None
            if its is None:
                continue
            for entry in claim.entries:
                held = address in entry.addresses and its.network_of(entry.interface) == network
                if held and (its.uid, entry.interface) != me:
                    yield self._device(claim.key, entry)

    def _device(self, key: Key, entry: HeldEntry) -> str:
        return self._of(f"device {entry.device}", "claim", key)

    def _of(self, part: str, kind: str, key: Key) -> str:
        """A part of an object, which is not named either where the object may not be."""
        text = named(kind, key, self._home)
        return f"{part} of {text}" if may_name(key, self._home) else text


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

    def places(self, pod: NetworkPod) -> Iterable[_Place]:
        """Each of its addresses once, with the network on which it is in its Pod."""
        pairs = ((pod.network_of(entry.interface), entry.addresses) for entry in self.entries)
        return dict.fromkeys(
            (network, address)
            for network, addresses in pairs
            if network
            for address in addresses
            if address is not None
        )


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
        return ((interface.network, address) for interface in self.interfaces for address in interface.addresses)

    def network_of(self, interface: str) -> str:
        """The network of an interface; "" where Multus has not named the interface."""
        return next((attached.network for attached in self.interfaces if attached.name == interface), "")


def stored_claim(obj: JSON) -> HeldClaim | None:
    """None for a claim without network data, and for one that is being deleted."""
    if "deletionTimestamp" in obj["metadata"]:
        return None
    held = held_claim(key_of(obj), obj)
    return held if held.entries else None


def held_claim(key: Key, obj: JSON) -> HeldClaim:
    """Raises TypeError, ValueError, AttributeError or KeyError for an object of another shape."""
    consumers = status_of(obj).get("reservedFor") or []
    pods = [PodName(consumer["name"], consumer["uid"]) for consumer in consumers if consumer.get("resource") == "pods"]
    entries = [(device_key(entry), entry["networkData"]) for entry in entries_of(obj) if entry.get("networkData")]
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
        attached = attached_to(text)
    except ValueError:
        return None
    interfaces = tuple(
        PodInterface(entry.interface, entry.name, tuple(_bare(entry.ips)))
        for entry in attached
        if entry.interface and "/" in entry.name
    )
    return NetworkPod(key_of(obj), metadata.get("uid", ""), interfaces) if interfaces else None


def _bare(texts: tuple[str, ...]) -> Iterator[Address]:
    for text in texts:
        try:
            yield parse_ip(text)
        except BadAddressError:
            continue
