"""What the network data of the devices of a Pod is, or in words why a claim or a device has none. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from ipaddress import IPv4Address, IPv6Address, ip_address
from itertools import islice
from typing import NamedTuple

from app.claims.format import INTERFACE_NAME, is_of_interface, is_well_formed
from app.claims.model import DEVICE_ID, HARDWARE_ADDRESS_BYTES, MOST_IPS, NETWORK_STATUS, RESOURCE_NAME, DeviceKey
from app.claims.network_status import Attached, attached_to
from app.claims.publishing.devices import Device, devices_of
from app.claims.publishing.entries import withheld_message
from app.claims.publishing.matching import Matching, Selected, selected_in
from app.claims.publishing.model import Attachment, Inputs, NetworkData, Planned, Reason, Unpublished, may_publish
from app.claims.stored import Claim, ClaimPod
from app.kube.store import Key
from app.text import cut

_Why = tuple[Reason, str]
_PROBLEMS: frozenset[Reason] = frozenset({"SharedClaim", "PodGroup", "BadNetworkStatus"})
"""Of whole claims: a user should look at these where a device of the claim is a network device."""
_NAMED = 4
_MAPPED = 96
"""The prefix of ::ffff:0:0/96, in which IPv6 writes IPv4 addresses."""
_SEPARATED = re.compile(r"[0-9a-f]{2}([:-])[0-9a-f]{2}(?:\1[0-9a-f]{2})*|[0-9a-f]{4}(?:\.[0-9a-f]{4})+", re.ASCII)
_DIGITS = (12, 16, 40)
"""Of the addresses of Ethernet, of EUI-64 and of InfiniBand: 6, 8 and 20 bytes."""

_Address = IPv4Address | IPv6Address


def plan_pod(inputs: Inputs) -> Planned:
    """The network data of each device of the Pod's claims, whatever is written already; never raises.

    Every device of the claims of the Pod has network data or a reason why it has none. Claims that are not the Pod's
    are left out.
    """
    pod = inputs.pod
    names = frozenset(pod.claim_names)
    mine = (claim for claim in inputs.claims if claim.key[0] == pod.key[0] and claim.key[1] in names)
    claims = tuple(sorted(mine, key=lambda claim: claim.key))
    status, error = _status(pod.network_status)
    devices = devices_of(inputs, claims)
    whole = _pod_refused(pod)
    refused: dict[Key, _Why] = {}
    for claim in claims:
        why = whole or _claim_refused(claim, pod) or _status_refused(pod, error)
        if why is not None:
            refused[claim.key] = why
    data: dict[Key, dict[DeviceKey, NetworkData]] = {}
    unpublished = [_claim_unpublished(claim, refused[claim.key], devices) for claim in claims if claim.key in refused]
    for device, answer in _answers(inputs, claims, devices, status):
        if device.claim in refused:
            continue
        if isinstance(answer, NetworkData):
            data.setdefault(device.claim, {})[device.key] = answer
        else:
            unpublished.append(answer)
    return Planned(data, tuple(unpublished))


def _status(text: str | None) -> tuple[tuple[Attached, ...], ValueError | None]:
    try:
        return attached_to(text or "[]"), None
    except ValueError as error:
        return (), error


def _answers(
    inputs: Inputs, claims: tuple[Claim, ...], devices: tuple[Device, ...], status: tuple[Attached, ...]
) -> Iterator[tuple[Device, NetworkData | Unpublished]]:
    """Devices that are not published are matched too: their interfaces are not those of other devices."""
    selected = selected_in(inputs, status)
    allocated = {claim.key[1] for claim in claims if claim.allocated}
    missing = [name for name in inputs.pod.claim_names if name not in allocated]
    matching = Matching(inputs.pod, devices, selected, certain=not missing)
    for device in devices:
        selection = matching.found.get(device)
        if device.admin:
            message = "allocated with admin access: its interface is that of another claim"
            yield device, _unpublished(device, "AdminAccess", message)
        elif selection is None:
            yield device, _unmatched(device, matching.left_for(device), selected, missing)
        else:
            shared = [
                other for other in selected if other.key == selection.key and not other.order and not other.default
            ]
            certain = selection.entries or not shared
            yield device, _network_data(inputs, device, selection) if certain else _not_distinguished(device, shared)


def _network_data(inputs: Inputs, device: Device, selected: Selected) -> NetworkData | Unpublished:
    entry = selected.entry(device.interface)
    if entry is None:
        return _unpublished(device, "NoInterface", f"the network status has no entry for {selected.key}")
    attachment, unconfined = selected.attachment, selected.key in inputs.unconfined
    addresses = addressed(
        entry.ips,
        requested=selected.ips,
        attachment=attachment,
        driver=device.ips,
        may_publish=partial(may_publish, attachment=attachment, unconfined=unconfined, excluded=inputs.excluded),
    )
    data = NetworkData(
        interface=entry.interface if is_well_formed(INTERFACE_NAME, entry.interface) else "",
        hardware_address=hardware_address(entry.mac),
        ips=addresses.ips,
        unknown_prefixes=addresses.unknown,
        dropped=addresses.dropped,
        network=selected.key,
        withheld=addresses.withheld,
        confined=unconfined or (attachment is not None and attachment.has_subnets),
    )
    if data.body():
        return data
    if data.withheld:
        return _unpublished(device, "NoInterface", withheld_message(data), problem=True)
    message = f"the entry of {selected.key} has no interface, no addresses and no hardware address"
    return _unpublished(device, "NoInterface", message)


def _pod_refused(pod: ClaimPod) -> _Why | None:
    """Why no device of the Pod has an interface of it."""
    if pod.over:
        return "PodOver", f"Pod {_name(pod)} has ended"
    if pod.host_network:
        return "HostNetwork", f"Pod {_name(pod)} uses the network of its node"
    return None


def _claim_refused(claim: Claim, pod: ClaimPod) -> _Why | None:
    """Why the devices of the claim are not those of this Pod alone."""
    if not claim.allocated:
        return "NotAllocated", "no devices are allocated to the claim"
    other = next((consumer for consumer in claim.consumers if consumer.resource != "pods"), None)
    if other is not None:
        return "PodGroup", f"the claim is reserved for {other.resource}/{other.name}; want it reserved for one Pod"
    if pod.uid not in {consumer.uid for consumer in claim.consumers}:
        return "NotReserved", f"the claim is not reserved for Pod {_name(pod)} with UID {pod.uid}"
    if len(claim.consumers) > 1:
        count = len(claim.consumers)
        return "SharedClaim", f"the claim is reserved for {count} Pods; want a claim for each Pod, by a template"
    return None


def _status_refused(pod: ClaimPod, error: ValueError | None) -> _Why | None:
    """Why it is not known what is attached to the Pod; `error` is what is wrong with its network status."""
    if not pod.network_status:
        return "NoNetworkStatus", f"Pod {_name(pod)} has no annotation {NETWORK_STATUS} yet"
    if error is not None:
        want = "want the JSON list that Multus writes"
        return "BadNetworkStatus", f"annotation {NETWORK_STATUS} of Pod {_name(pod)}: {cut(str(error), 256)}; {want}"
    return None


def _claim_unpublished(claim: Claim, why: _Why, devices: Sequence[Device]) -> Unpublished:
    reason, message = why
    network = any(device.network for device in devices if device.claim == claim.key)
    return Unpublished(claim.key, None, reason, message, reason in _PROBLEMS and network)


def _unpublished(device: Device, reason: Reason, message: str, *, problem: bool = False) -> Unpublished:
    return Unpublished(device.claim, device.key, reason, message, problem)


def _unmatched(
    device: Device, left: Sequence[Selected], selected: Sequence[Selected], missing: Sequence[str]
) -> Unpublished:
    """`left` are the selections that may be those of the device, `missing` the claims of the Pod that are not known."""
    if not device.known:
        where = f"no complete generation of pool {device.key.pool} of driver {device.key.driver}"
        message = f"{where} has device {device.key.device}: its attributes are not known"
        return _unpublished(device, "NoSlice", message, problem=device.network)
    if not device.network:
        message = f"neither an attribute {RESOURCE_NAME} nor its configuration says that it is a network device"
        return _unpublished(device, "NotNetwork", message)
    if not left:
        selected_resource = bool(device.resource) and any(
            selection.resource == device.resource for selection in selected
        )
        resource = f" of resource {device.resource}" if device.resource else ""
        message = f"no entry of {NETWORK_STATUS} is left for a device{resource}"
        return _unpublished(device, "NoInterface", message, problem=selected_resource)
    if missing:
        message = f"the devices of {', '.join(missing[:_NAMED])} are not known, and may be those of the same interfaces"
        return _unpublished(device, "Ambiguous", message)
    names = ", ".join(
        f"{selection.key} ({(selection.entries[0].interface or 'no interface')})" for selection in left[:_NAMED]
    )
    more = f" and {len(left) - _NAMED} more" if len(left) > _NAMED else ""
    message = (
        f"it may be behind {names}{more}, and nothing says which; want an attribute {DEVICE_ID} in its "
        f"ResourceSlice, device-info in the network status, or the name of its interface in the claim's configuration"
    )
    return _unpublished(device, "Ambiguous", message, problem=True)


def _not_distinguished(device: Device, entries: Sequence[Selected]) -> Unpublished:
    """`entries` are those of an attachment that is selected more than once."""
    names = ", ".join(selection.entries[0].interface or "no interface" for selection in entries[:_NAMED])
    message = f"the entries of {entries[0].key} ({names}) may be of either selection; want an interface name in each"
    return _unpublished(device, "Ambiguous", message, problem=True)


def _name(pod: ClaimPod) -> str:
    return "/".join(pod.key)


class Addresses(NamedTuple):
    """As `NetworkData` has them."""

    ips: tuple[str, ...]
    unknown: tuple[str, ...]
    dropped: int
    withheld: tuple[str, ...]


def hardware_address(text: str) -> str:
    """In lower case with colons; "" for a text that is not a hardware address of 6, 8 or 20 bytes."""
    text = text.strip().lower()
    digits = re.sub("[:.-]", "", text)
    if len(text) > HARDWARE_ADDRESS_BYTES or len(digits) not in _DIGITS or not _SEPARATED.fullmatch(text):
        return ""
    return ":".join(digits[index : index + 2] for index in range(0, len(digits), 2))


def addressed(
    texts: Iterable[str],
    *,
    requested: Iterable[str],
    attachment: Attachment | None,
    driver: Iterable[str],
    may_publish: Callable[[_Address], bool],
) -> Addresses:
    """The addresses in `texts`, in their order, each once.

    The prefix is the one that the Pod `requested` for this very address, else that of the attachment's most specific
    subnet or static address, else the one that the `driver` says. Addresses that no interface has are left out:
    unspecified, multicast, loopback and broadcast ones. Those that may not be published are `withheld`.
    """
    lengths: dict[_Address, int | None] = {}
    prefixes = (_prefixes(requested), _prefixes(driver))
    for text in texts:
        parsed = _parsed(text)
        if parsed is not None and parsed[0] not in lengths:
            lengths[parsed[0]] = parsed[1]
    published = {address: own for address, own in lengths.items() if may_publish(address)}
    # Of those that are kept alone: a network status may have thousands, and each is looked up in all subnets.
    kept = [
        (address, own or prefixes[0].get(address) or _managed(address, attachment) or prefixes[1].get(address))
        for address, own in islice(published.items(), MOST_IPS)
    ]
    return Addresses(
        tuple(f"{address}/{prefix or address.max_prefixlen}" for address, prefix in kept),
        tuple(f"{address}/{address.max_prefixlen}" for address, prefix in kept if not prefix),
        len(published) - len(kept),
        tuple(str(address) for address in lengths if address not in published),
    )


def _prefixes(texts: Iterable[str]) -> dict[_Address, int]:
    parsed = (_parsed(text) for text in texts)
    return {pair[0]: pair[1] for pair in parsed if pair is not None and pair[1]}


def _managed(address: _Address, attachment: Attachment | None) -> int | None:
    """The longest prefix that the attachment has for the address."""
    return max(_fitting(address, attachment), default=None) if attachment is not None else None


def _fitting(address: _Address, attachment: Attachment) -> Iterator[int]:
    for subnet in attachment.subnets:
        if address in subnet:  # never, where the versions differ
            yield subnet.prefixlen
    for static in attachment.statics:
        if static.ip == address:
            yield static.network.prefixlen


def _parsed(text: str) -> tuple[_Address, int | None] | None:
    """The address and the prefix, None where the text has none, or 0, which says nothing."""
    address, slash, prefix = text.strip().partition("/")
    try:
        # A zone is of the node where the interface is.
        parsed = ip_address(address.partition("%")[0])
    except ValueError:
        return None
    length = int(prefix) if slash and prefix.isascii() and prefix.isdigit() and len(prefix) < 4 else 0
    if length > parsed.max_prefixlen:
        length = 0
    if isinstance(parsed, IPv6Address) and parsed.ipv4_mapped is not None:
        parsed, length = parsed.ipv4_mapped, max(length - _MAPPED, 0)
    return (parsed, length or None) if is_of_interface(parsed) else None
