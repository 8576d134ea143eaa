"""Addresses as CNI's IPAM plugins give them: host-local, static and whereabouts, each in its plain forms."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from ipaddress import (
    IPv4Address,
    IPv4Interface,
    IPv6Address,
    IPv6Interface,
    IPv6Network,
    ip_address,
    ip_interface,
    ip_network,
)
from itertools import chain

from app.devtools.sandbox.standins.sandboxes import NotAttached
from app.wire import JSON, decode_json, mapping

Address = IPv4Address | IPv6Address


@dataclass(frozen=True, slots=True)
class Range:
    """From `first` to `last`, but for `excluded`, of a network with this prefix."""

    first: Address
    last: Address
    excluded: tuple[tuple[Address, Address], ...] = ()
    prefix: int = 0

    def __contains__(self, address: Address) -> bool:
        if address.version != self.first.version or not int(self.first) <= int(address) <= int(self.last):
            return False
        return not any(first.version == address.version and first <= address <= last for first, last in self.excluded)  # type: ignore[operator]  # of one version

    def behind(self, address: Address | None) -> Iterator[Address]:
        """All addresses once, beginning behind this one."""
        first, size = int(self.first), int(self.last) - int(self.first) + 1
        start = 0 if address is None else int(address) - first + 1
        kind = type(self.first)
        return (one for offset in range(size) if (one := kind(first + (start + offset) % size)) in self)


@dataclass(frozen=True, slots=True)
class Ipam:
    """`sets` gives one address out of each of its members, `statics` all of them."""

    sets: tuple[tuple[Range, ...], ...] = ()
    statics: tuple[IPv4Interface | IPv6Interface, ...] = ()

    def prefix(self, address: str) -> int:
        """That of an address out of one of these."""
        at = ip_address(address)
        ranges = (given.prefix for members in self.sets for given in members if at in given)
        return next(chain((own.network.prefixlen for own in self.statics if own.ip == at), ranges), at.max_prefixlen)


def ipam_of(config: str) -> Ipam:
    """What an attachment's `spec.config` says of addresses; nothing where it says nothing. Raises ValueError."""
    network = mapping(decode_json(config)) if config else {}
    plugins = network.get("plugins") or [network]
    ipam = next((mapping(one["ipam"]) for one in plugins if one.get("ipam")), {})
    match ipam.get("type"):
        case "host-local":
            sets = ipam.get("ranges") or ([[ipam]] if ipam.get("subnet") else [])
            return Ipam(tuple(tuple(_host_local(one) for one in members) for members in sets))
        case "static":
            return Ipam(statics=tuple(ip_interface(one["address"]) for one in ipam.get("addresses") or ()))
        case "whereabouts":
            ranges = ipam.get("ipRanges") or ([ipam] if ipam.get("range") else [])
            return Ipam(tuple((_whereabouts(one),) for one in ranges))
    return Ipam()


def _host_local(one: JSON) -> Range:
    """The gateway, by default the first address, is not given."""
    network = ip_network(one["subnet"], strict=False)
    first, last = _usable(network.with_prefixlen)
    gateway = ip_address(one["gateway"]) if one.get("gateway") else first
    start, end = one.get("rangeStart"), one.get("rangeEnd")
    begin, finish = ip_address(start) if start else first, ip_address(end) if end else last
    return Range(begin, finish, ((gateway, gateway),), network.prefixlen)


def _whereabouts(one: JSON) -> Range:
    """`range` may be ADDRESS-ADDRESS/PREFIX as well."""
    start, dash, rest = str(one["range"]).partition("-")
    first, last = _usable(rest if dash else start)
    if dash:
        first, last = ip_address(start), ip_interface(rest).ip
    first = ip_address(one["range_start"]) if one.get("range_start") else first
    last = ip_address(one["range_end"]) if one.get("range_end") else last
    excluded = (ip_network(each, strict=False) for each in one.get("exclude") or ())
    prefix = ip_interface(rest if dash else start).network.prefixlen
    return Range(first, last, tuple((each[0], each[-1]) for each in excluded), prefix)


def _usable(text: str) -> tuple[Address, Address]:
    network = ip_network(text, strict=False)
    if network.num_addresses <= 2:
        return network[0], network[-1]
    return network[1], network[-1] if isinstance(network, IPv6Network) else network[-2]


class Addresses:
    """What is in use, by network."""

    def __init__(self) -> None:
        self._used: dict[str, set[Address]] = {}
        self._last: dict[tuple[str, int], Address] = {}

    def take(self, network: str, address: str) -> None:
        self._used.setdefault(network, set()).add(ip_address(address))

    def free(self, network: str, address: str) -> None:
        self._used.get(network, set()).discard(ip_address(address))

    def give(self, network: str, ipam: Ipam, wanted: Sequence[str] = ()) -> list[str]:
        """New addresses: those that are wanted, and one of each set that has none of these.

        As host-local does, goes on behind the last one that it gave. Raises NotAttached where none is free.
        """
        used = self._used.setdefault(network, set())
        given: list[Address] = [ip_interface(one).ip for one in wanted]
        for address in given:
            if address in used:
                raise NotAttached(f"{address} of network {network} is in use")
        if not given:
            given += (own.ip for own in ipam.statics)
        for index, ranges in enumerate(ipam.sets):
            if not any(address in one for one in ranges for address in given):
                given.append(self._next(network, index, ranges))
        used.update(given)
        return [str(address) for address in given]

    def _next(self, network: str, index: int, ranges: Sequence[Range]) -> Address:
        last = self._last.get((network, index))
        used = self._used[network]
        at = next((at for at, one in enumerate(ranges) if last is not None and last in one), 0)
        for one in (*ranges[at:], *ranges[:at]):
            for address in one.behind(last if last is not None and last in one else None):
                if address not in used:
                    self._last[network, index] = address
                    return address
        raise NotAttached(f"no address of network {network} is free")
