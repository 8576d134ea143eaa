"""What is kept of a NetworkAttachmentDefinition for network data: its resource, and the subnets of its addresses. Pure.

Read is the address management (IPAM) of host-local, static and whereabouts, of a single plugin or of each in a list.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from ipaddress import IPv4Interface, IPv4Network, IPv6Interface, IPv6Network, ip_interface
from itertools import islice

import msgspec

from app.claims.publishing.model import Attachment
from app.networks.model import RESOURCE_NAME, project
from app.wire import JSON, decode_json, mapping

MOST_RANGES = 1024
"""Subnets and fixed addresses that are kept of an attachment; each address of a Pod is looked up in them."""


def stored_attachment(obj: JSON, keys: Sequence[str] = (RESOURCE_NAME,)) -> Attachment:
    """`keys` are the annotations that name its resource; the first that is present counts. Never fails on odd texts.

    An attachment with more than `MOST_RANGES` is as one that says nothing of its addresses.
    """
    found = project(obj, keys)
    managed = list(_managements(mapping(obj.get("spec")).get("config")))
    subnets = list(islice((subnet for ipam in managed for subnet in _subnets(ipam)), MOST_RANGES + 1))
    statics = list(islice((address for ipam in managed for address in _statics(ipam)), MOST_RANGES + 1))
    if len(subnets) + len(statics) > MOST_RANGES:
        # A part of them would say that the addresses in the others are outside.
        subnets, statics = [], []
    return Attachment(
        key=found.key,
        resource=next(iter(found.resources), ""),
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
        found = _interface(text.rpartition("-")[2] if isinstance(text, str) else None)
        if found is not None:
            yield found.network


def _statics(ipam: JSON) -> Iterator[IPv4Interface | IPv6Interface]:
    for entry in _objects(ipam.get("addresses")):
        found = _interface(entry.get("address"))
        if found is not None:
            yield found


def _objects(value: object) -> list[JSON]:
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def _interface(text: object) -> IPv4Interface | IPv6Interface | None:
    """An address with a prefix; none where the prefix is missing, or is 0 and so says nothing."""
    if not isinstance(text, str) or "/" not in text or "%" in text:
        return None
    try:
        found = ip_interface(text.strip())
    except ValueError:
        return None
    return found if found.network.prefixlen else None
