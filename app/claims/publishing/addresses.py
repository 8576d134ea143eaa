"""Addresses of the network status into the form of networkData, with the prefix that is known of each. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from ipaddress import IPv4Address, IPv6Address, ip_address
from itertools import islice
from typing import NamedTuple

from app.claims.format import is_of_interface
from app.claims.model import HARDWARE_ADDRESS_BYTES, MOST_IPS
from app.claims.publishing.model import Attachment

_MAPPED = 96
"""The prefix of ::ffff:0:0/96, in which IPv6 writes IPv4 addresses."""
_SEPARATED = re.compile(r"[0-9a-f]{2}([:-])[0-9a-f]{2}(?:\1[0-9a-f]{2})*|[0-9a-f]{4}(?:\.[0-9a-f]{4})+", re.ASCII)
_DIGITS = (12, 16, 40)
"""Of the addresses of Ethernet, of EUI-64 and of InfiniBand: 6, 8 and 20 bytes."""

_Address = IPv4Address | IPv6Address


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
    found: dict[_Address, int | None] = {}
    said = (_prefixes(requested), _prefixes(driver))
    for text in texts:
        parsed = _parsed(text)
        if parsed is not None and parsed[0] not in found:
            found[parsed[0]] = parsed[1]
    published = {address: own for address, own in found.items() if may_publish(address)}
    # Of those that are kept alone: a network status may have thousands, and each is looked up in all subnets.
    kept = [
        (address, own or said[0].get(address) or _managed(address, attachment) or said[1].get(address))
        for address, own in islice(published.items(), MOST_IPS)
    ]
    return Addresses(
        tuple(f"{address}/{prefix or address.max_prefixlen}" for address, prefix in kept),
        tuple(f"{address}/{address.max_prefixlen}" for address, prefix in kept if not prefix),
        len(published) - len(kept),
        tuple(str(address) for address in found if address not in published),
    )


def _prefixes(texts: Iterable[str]) -> dict[_Address, int]:
    parsed = (_parsed(text) for text in texts)
    return {one[0]: one[1] for one in parsed if one is not None and one[1]}


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
