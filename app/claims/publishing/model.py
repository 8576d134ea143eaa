"""What the planner of network data reads, and what it answers. Pure.

Of a NetworkAttachmentDefinition it reads the resource and the subnets of addresses, out of the address management
(IPAM) of host-local, static and whereabouts, of a single plugin or of each in a list.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from ipaddress import IPv4Address, IPv4Interface, IPv4Network, IPv6Address, IPv6Interface, IPv6Network, ip_interface
from itertools import islice
from typing import Literal

import msgspec

from app.claims.model import DeviceKey
from app.claims.slices import Slice
from app.claims.stored import Claim, ClaimPod
from app.kube.store import Key
from app.networks.model import RESOURCE_NAME, project
from app.wire import JSON, decode_json, mapping

NETWORK_DRIVERS = frozenset({"dra.net", "sriovnetwork.k8snetworkplumbingwg.io", "cni.dra.networking.x-k8s.io"})
"""The DRA drivers known to have network devices only: dranet, dra-driver-sriov and cni-dra-driver."""
Reason = Literal[
    "PodOver",  # the Pod has ended
    "HostNetwork",  # the Pod has no network of its own
    "NoNetworkStatus",  # Multus has not written what it attached
    "BadNetworkStatus",  # what is written is not a network status
    "NotAllocated",
    "NotReserved",  # the claim is not reserved for this Pod
    "SharedClaim",  # reserved for several Pods
    "PodGroup",  # reserved for something that is not a Pod
    "AdminAccess",
    "NotNetwork",  # nothing says that the device is a network device
    "NoSlice",  # its attributes are not known
    "NoInterface",  # no entry of the network status is left for it
    "Ambiguous",  # entries are left, but no rule says which is its
]
MOST_RANGES = 1024
"""Subnets and fixed addresses that are kept of an attachment; each address of a Pod is looked up in them."""


@dataclass(frozen=True, slots=True)
class Attachment:
    """What is kept of a NetworkAttachmentDefinition. `key` is NAMESPACE/NAME, `resource` "" where it names none.

    `subnets` are the ranges of its address management, `statics` its fixed addresses, both in their order.
    """

    key: str
    resource: str
    subnets: tuple[IPv4Network | IPv6Network, ...] = ()
    statics: tuple[IPv4Interface | IPv6Interface, ...] = ()
    _fixed: frozenset[IPv4Address | IPv6Address] = field(init=False, repr=False, compare=False)
    _networks: Mapping[tuple[int, int], frozenset[int]] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        networks: dict[tuple[int, int], set[int]] = {}
        for subnet in self.subnets:
            bits = subnet.max_prefixlen - subnet.prefixlen
            networks.setdefault((subnet.version, bits), set()).add(int(subnet.network_address) >> bits)
        object.__setattr__(self, "_fixed", frozenset(static.ip for static in self.statics))
        object.__setattr__(self, "_networks", {key: frozenset(numbers) for key, numbers in networks.items()})

    @property
    def has_subnets(self) -> bool:
        """Whether it is known which addresses are of the network."""
        return bool(self.subnets or self.statics)

    def includes(self, address: IPv4Address | IPv6Address) -> bool:
        """Whether the address is known to be one of the network.

        It costs as much as the subnets have different lengths of prefixes.
        """
        number = int(address)
        return address in self._fixed or any(
            version == address.version and number >> bits in networks
            for (version, bits), networks in self._networks.items()
        )

    def excludes(self, address: IPv4Address | IPv6Address) -> bool:
        """Whether the address is outside the network. One without subnets of its family says nothing."""
        has_subnets = any(version == address.version for version, _ in self._networks)
        return has_subnets and not self.includes(address)


def may_publish(
    address: IPv4Address | IPv6Address,
    attachment: Attachment | None,
    *,
    unconfined: bool,
    excluded: Iterable[IPv4Network | IPv6Network],
) -> bool:
    """Whether an address that the annotation of a Pod says is published, as network data and as an endpoint alike.

    Its author may write any address: one in the subnets of the attachment is one of the network. `unconfined`: an
    administrator lets those of the attachment be published although nothing says which they are. None in `excluded` is.
    Each link has link-local addresses of IPv6, no subnet names them, and they lead nowhere else.
    """
    if any(address in network for network in excluded):
        return False
    if address.version == 6 and address.is_link_local:
        return True
    if attachment is not None and attachment.has_subnets:
        return attachment.includes(address)
    return unconfined


@dataclass(frozen=True, slots=True)
class Inputs:
    """A Pod, and what exists of its claims, of the pools of their devices, and of its attachments.

    `slices` may hold several generations of a pool. `attachments` are by NAMESPACE/NAME. `home` is the namespace of a
    default network that names none. `drivers` are those of which every device is a network device. `unconfined` are the
    attachments, and `excluded` the ranges, of `may_publish`.
    """

    pod: ClaimPod
    claims: tuple[Claim, ...]
    slices: tuple[Slice, ...]
    attachments: Mapping[str, Attachment]
    home: str = "kube-system"
    drivers: frozenset[str] = NETWORK_DRIVERS
    unconfined: Container[str] = ()
    excluded: tuple[IPv4Network | IPv6Network, ...] = ()


@dataclass(frozen=True, slots=True)
class NetworkData:
    """The network data of a device. `network` is NAMESPACE/NAME of its attachment.

    `ips` are in canonical CIDR form, at most 16; `dropped` counts those beyond. `unknown_prefixes` are those of `ips`
    whose prefix nothing says: they have /32 or /128. `withheld` are addresses of the network status that are not
    published, because the attachment has subnets (`confined`) without them, or because nothing says its subnets.
    """

    interface: str
    hardware_address: str
    ips: tuple[str, ...]
    unknown_prefixes: tuple[str, ...]
    dropped: int
    network: str
    withheld: tuple[str, ...] = ()
    confined: bool = True

    def body(self) -> JSON:
        """`networkData` as resource.k8s.io/v1 has it; empty members are left out."""
        members = {"interfaceName": self.interface, "hardwareAddress": self.hardware_address, "ips": list(self.ips)}
        return {name: value for name, value in members.items() if value}


@dataclass(frozen=True, slots=True)
class Unpublished:
    """A device that gets no network data, and why. `device` is None where that holds for all devices of the claim.

    `problem` is true where a user should look, false for what is no network device or is not attached yet.
    """

    claim: Key
    device: DeviceKey | None
    reason: Reason
    message: str
    problem: bool


@dataclass(frozen=True, slots=True)
class Planned:
    """The network data of the devices of a Pod, by claim and device. A claim without any is not in `data`."""

    data: Mapping[Key, Mapping[DeviceKey, NetworkData]]
    unpublished: tuple[Unpublished, ...]


def stored_attachment(obj: JSON, keys: Sequence[str] = (RESOURCE_NAME,)) -> Attachment:
    """`keys` are the annotations that name its resource; the first that is present counts. Never fails on odd texts.

    An attachment with more than `MOST_RANGES` is as one that says nothing of its addresses.
    """
    attachment = project(obj, keys)
    managed = list(_managements(mapping(obj.get("spec")).get("config")))
    subnets = list(islice((subnet for ipam in managed for subnet in _subnets(ipam)), MOST_RANGES + 1))
    statics = list(islice((address for ipam in managed for address in _statics(ipam)), MOST_RANGES + 1))
    if len(subnets) + len(statics) > MOST_RANGES:
        # A part of them would say that the addresses in the others are outside.
        subnets, statics = [], []
    return Attachment(
        key=attachment.key,
        resource=next(iter(attachment.resources), ""),
        subnets=tuple(dict.fromkeys(subnets)),
        statics=tuple(dict.fromkeys(statics)),
    )


def _managements(config: object) -> Iterator[JSON]:
    """The IPAM of each plugin of a CNI configuration."""
    try:
        network = mapping(decode_json(config)) if isinstance(config, str) else {}
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return
    for plugin in (network, *_objects(network.get("plugins"))):
        yield mapping(plugin.get("ipam"))


def _subnets(ipam: JSON) -> Iterator[IPv4Network | IPv6Network]:
    """host-local has `subnet` and lists of `ranges`, whereabouts has `range` and `ipRanges`."""
    texts = [ipam.get("subnet"), ipam.get("range")]
    ranges = ipam.get("ranges")
    for group in ranges if isinstance(ranges, list) else ():
        texts += [part.get("subnet") for part in _objects(group)]
    texts += [part.get("range") for part in _objects(ipam.get("ipRanges"))]
    for text in texts:
        # whereabouts also takes FIRST-LAST/PREFIX.
        interface = _interface(text.rpartition("-")[2] if isinstance(text, str) else None)
        if interface is not None:
            yield interface.network


def _statics(ipam: JSON) -> Iterator[IPv4Interface | IPv6Interface]:
    for entry in _objects(ipam.get("addresses")):
        interface = _interface(entry.get("address"))
        if interface is not None:
            yield interface


def _objects(value: object) -> list[JSON]:
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def _interface(text: object) -> IPv4Interface | IPv6Interface | None:
    """An address with a prefix; none where the prefix is missing, or is 0 and so says nothing."""
    if not isinstance(text, str) or "/" not in text or "%" in text:
        return None
    try:
        interface = ip_interface(text.strip())
    except ValueError:
        return None
    return interface if interface.network.prefixlen else None
