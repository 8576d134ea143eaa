"""The addresses that a Pod has on a network: as Multus says, else by the network data of its claims. Pure.

Of a device that the Service names, its driver alone says which they are.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import islice
from typing import Literal

from app.claims.model import FIELD_MANAGER, MOST_IPS, DeviceKey
from app.claims.publishing.model import Attachment, may_publish
from app.claims.slices import Pools
from app.claims.stored import Claim, Result
from app.kube.store import Key
from app.services.model import NamedDevice, Pod
from app.wire import JSON

Address = ipaddress.IPv4Address | ipaddress.IPv6Address
Range = ipaddress.IPv4Network | ipaddress.IPv6Network
Reason = Literal[
    "HostNetwork",
    "NoNode",
    "NoNetworkStatus",
    "BadNetworkStatus",
    "NotAttached",
    "NoAddress",
    "BadAddress",
    "OutsideNetwork",
    "NoSubnets",
    "NotOfDriver",
]
"""Why a Pod is no endpoint: it is on the network of its node, which no attachment changes; its node is not known;
nothing says what it is attached to; Multus' annotation cannot be read; it is not on the network; it has no address
there; it has none that an EndpointSlice may have; it has none in the subnets of the attachment, or
none that may be published; nothing says what these subnets are; the network data of the device that the Service names
is ours, a copy of Multus' annotation."""


@dataclass(frozen=True, slots=True)
class Network:
    """An attachment (NAMESPACE/NAME), its resource ("" without) and all attachments that have this resource.

    `attachment` is None where it does not exist. `unconfined`: an administrator lets its addresses be published
    although nothing says which they are. Addresses in `excluded` are not published in any case. With a `device` there
    is no attachment (`key` is ""): its driver says which addresses it has.
    """

    key: str
    resource: str = ""
    sharing: frozenset[str] = frozenset()
    attachment: Attachment | None = None
    unconfined: bool = False
    excluded: tuple[Range, ...] = ()
    device: NamedDevice | None = None

    @property
    def has_subnets(self) -> bool:
        return self.attachment is not None and self.attachment.has_subnets

    def publishes(self, address: Address) -> bool:
        unconfined = self.unconfined or self.device is not None
        return may_publish(address, self.attachment, unconfined=unconfined, excluded=self.excluded)


@dataclass(frozen=True, slots=True)
class Claimed:
    """The claims of Pods, and of their devices the attribute resourceName, where one is published."""

    claims: Mapping[Key, Claim] = field(default_factory=dict)
    resources: Mapping[DeviceKey, str] = field(default_factory=dict)


def claimed(claims: Mapping[Key, Claim], pools: Pools) -> Claimed:
    """These claims, and what the pools say of their devices."""
    devices = (result.device for claim in claims.values() for result in claim.results)
    resources = (
        (device, entry.attributes.resource_name) for device in devices if (entry := pools.find(device)) is not None
    )
    return Claimed(claims, {device: resource for device, resource in resources if resource})


def addresses_of(pod: Pod, network: Network, claimed: Claimed) -> tuple[Address, ...] | Reason:
    """In the order of their sources, each once, and at most `MOST_IPS`.

    An annotation has room for thousands, and each is an endpoint that every node of the cluster gets. Its author may
    write any address, that of a Pod or Service of others too (CVE-2021-25740): only one in the subnets of the
    attachment is one of the network.
    """
    if pod.host_network:
        return "HostNetwork"
    texts = _by_driver(pod, network.device, claimed) if network.device else _texts(pod, network, claimed)
    if isinstance(texts, str):
        return texts
    if not texts:
        return "NoAddress"
    addresses = dict.fromkeys(address for text in texts if (address := _usable(text)) is not None)
    if not addresses:
        return "BadAddress"
    if network.device is None and not network.has_subnets and not network.unconfined:
        return "NoSubnets"
    return tuple(islice(filter(network.publishes, addresses), MOST_IPS)) or "OutsideNetwork"


@lru_cache(maxsize=16384)
def _usable(text: str) -> Address | None:
    """None for what is no address, and for those that an API server refuses in an EndpointSlice."""
    try:
        address = ipaddress.ip_interface(text).ip
    except ValueError:
        return None
    if isinstance(address, ipaddress.IPv6Address):
        if address.scope_id is not None:
            return None
        address = address.ipv4_mapped or address
    odd = address.is_unspecified or address.is_loopback or address.is_link_local or address.is_multicast
    return None if odd else address


def _texts(pod: Pod, network: Network, claimed: Claimed) -> tuple[str, ...] | Reason:
    """What is said of the Pod's addresses on an attachment."""
    texts = (pod.attached or {}).get(network.key)
    if texts is None:
        texts = _by_claims(pod, network, claimed)
    if texts is not None:
        return texts
    if pod.odd:
        return "BadNetworkStatus"
    # Multus writes before containers run: of a Pod that is ready it is not going to say more.
    return "NoNetworkStatus" if pod.attached is None and not pod.ready else "NotAttached"


def _by_driver(pod: Pod, device: NamedDevice, claimed: Claimed) -> tuple[str, ...] | Reason:
    """What drivers say of the devices that the Service names.

    Network data that we have written is a copy of Multus' annotation, and only an attachment says what of it is true.
    """
    texts: list[str] | None = None
    copied = False
    for claim, result in _own_devices(pod, claimed):
        entry = claim.entries.get(result.device)
        data = None if entry is None else entry.network_data
        if entry is None or data is None or not _is_named(device, result, data):
            continue
        if FIELD_MANAGER in entry.managers:
            copied = True
        else:
            texts = [*(texts or ()), *(data.get("ips") or ())]
    if texts is not None:
        return tuple(texts)
    if copied:
        return "NotOfDriver"
    return "NotAttached" if pod.ready else "NoNetworkStatus"


def _is_named(device: NamedDevice, result: Result, data: JSON) -> bool:
    requests = ("", result.request, result.request.partition("/")[0])
    return device.interface in ("", data.get("interfaceName")) and device.request in requests


def _by_claims(pod: Pod, network: Network, claimed: Claimed) -> tuple[str, ...] | None:
    """What its devices on this network have; None where none is known to be there."""
    texts: list[str] | None = None
    for claim, result in _own_devices(pod, claimed):
        entry = claim.entries.get(result.device)
        if entry is None or entry.network_data is None or not _is_on(pod, claim, result, network, claimed):
            continue
        texts = [*(texts or ()), *(entry.network_data.get("ips") or ())]
    return None if texts is None else tuple(texts)


def _own_devices(pod: Pod, claimed: Claimed) -> Iterator[tuple[Claim, Result]]:
    """Those that only this Pod uses: of others nothing says whose addresses they have."""
    for name in pod.claims:
        claim = claimed.claims.get((pod.key[0], name))
        if claim is not None and [consumer.uid for consumer in claim.consumers] == [pod.uid]:
            yield from ((claim, result) for result in claim.results if not result.admin_access)


def _is_on(pod: Pod, claim: Claim, result: Result, network: Network, claimed: Claimed) -> bool:
    """The configuration for its driver names the attachment, or only this attachment can have the device."""
    named = set(_named(claim, result))
    if named:
        return named == {network.key}
    if not network.resource or claimed.resources.get(result.device) != network.resource or pod.selected is None:
        return False
    return (network.sharing & pod.selected if pod.selected else network.sharing) == {network.key}


def _named(claim: Claim, result: Result) -> Iterator[str]:
    """The attachments in opaque parameters as dra-driver-sriov has them (VfConfig)."""
    for config in claim.configs:
        name = _text(config.parameters, "netAttachDefName") if config.concerns(result) else ""
        if name:
            yield f"{_text(config.parameters, 'netAttachDefNamespace') or claim.key[0]}/{name}"


def _text(parameters: JSON, name: str) -> str:
    value = parameters.get(name)
    return value if isinstance(value, str) else ""
