"""The networks of one Pod together, and what is refused of them only when they are attached one after the other. Pure.

Multus gives each an interface and hands it to a network plugin, so a Pod with such selections holds its devices and
stays in ContainerCreating.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from app.networks.model import DEFAULT_NETWORK, NETWORKS
from app.networks.selection import Selection, deny, parse_default, read
from app.text import cut, quoted

_HOME = "eth0"
"""The interface of a Pod's default network, as container runtimes ask for it."""
_ETHERNET_BYTES = 6


class Chosen(NamedTuple):
    """What the annotations of a Pod select, and a line for each part of them that Multus passes over."""

    default: Selection | None
    selections: tuple[Selection, ...]
    ignored: tuple[str, ...]


def chosen_by(annotations: Mapping[str, str], namespace: str) -> Chosen:
    """The networks of a Pod that is to be created in `namespace`, "" where that is not known.

    The default network has no namespace where its annotation says none. Raises Denied for what Multus does not read,
    and for what cannot be attached.
    """
    text = annotations.get(DEFAULT_NETWORK)
    selections, ignored = read(annotations.get(NETWORKS, ""), annotation=NETWORKS, default_namespace=namespace)
    default = None
    if text is not None:
        default = parse_default(text, annotation=DEFAULT_NETWORK, default_namespace="")
        if default is None:
            deny(DEFAULT_NETWORK, "is empty: Multus refuses such a Pod; want a network, or no annotation")
        ignored = (*read(text, annotation=DEFAULT_NETWORK, default_namespace="").ignored, *ignored)
    check_together(selections, default)
    return Chosen(default, selections, ignored)


def check_together(selections: Sequence[Selection], default: Selection | None = None) -> None:
    """Raises Denied for what cannot be attached of the networks of a Pod and of its default one.

    That are hardware addresses, names of interfaces that are taken, and several default routes of one IP version
    (multus-cni pkg/types CheckGatewayConfig). An element without a name for its interface has the one that Multus gives
    it for its place (pkg/multus getIfname, where Multus' own configuration has no defaultNetworks).
    """
    if default is not None:
        check_hardware((default,), annotation=DEFAULT_NETWORK)
    check_hardware(selections, annotation=NETWORKS)
    _check_names(selections, default.interface if default is not None else "")
    if selections:  # without them Multus does not count
        _check_routes(selections if default is None else (default, *selections))


def check_hardware(selections: Sequence[Selection], *, annotation: str) -> None:
    """Raises Denied for an Ethernet address that Linux gives to no interface: zeros, or that of a group of stations."""
    for index, selection in enumerate(selections, start=1):
        address = bytes.fromhex(re.sub("[:.-]", "", selection.mac))
        if len(address) == _ETHERNET_BYTES and (address[0] & 1 or not any(address)):
            kind = "is that of a group of stations" if any(address) else "has zeros alone"
            deny(
                annotation,
                f"{_element(index, selection)}: mac {quoted(selection.mac)} {kind}: no interface can have it; want one "
                "whose first byte is even, such as 02:00:00:00:00:01",
            )


def _check_names(selections: Sequence[Selection], first: str) -> None:
    taken = {"lo": "the loopback interface", first or _HOME: "the Pod's default network"}
    for index, selection in enumerate(selections, start=1):
        interface, element = selection.interface or f"net{index}", _element(index, selection)
        if interface in taken:
            deny(
                NETWORKS,
                f"{element}: interface {interface}{_by_place(selection)} is the name of {taken[interface]} already; "
                "want a name of its own for each, such as net7",
            )
        taken[interface] = f"{element}{_by_place(selection)}"


def _check_routes(selections: Sequence[Selection]) -> None:
    routes = [address for selection in selections for address in selection.default_route]
    for version in (4, 6):
        gateways = [address for address in routes if _version(address) == version]
        if len(gateways) > 1:
            deny(
                NETWORKS,
                f"default-route has {len(gateways)} addresses of IPv{version} in all ({cut(', '.join(gateways))}); "
                "want one at most",
            )


def _by_place(selection: Selection) -> str:
    return "" if selection.interface else " (by its place, as it names none)"


def _version(text: str) -> int:
    """4 for an IPv4 address in the form of IPv6, too."""
    address = ipaddress.ip_address(text)
    return 4 if isinstance(address, ipaddress.IPv4Address) or address.ipv4_mapped else 6


def _element(index: int, selection: Selection) -> str:
    return f"element {index} {quoted(selection.name)}"
