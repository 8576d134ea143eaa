"""Regular expressions, durations, and addresses, as Go's libraries and those of Kubernetes' CEL understand them. Pure.

The IP and CIDR library: https://kubernetes.io/docs/reference/using-api/cel/#kubernetes-ip-address-library and
`kubernetes-cidr-library`. An address is a value of `ipaddress`: CEL's `net.IP` an address, `net.CIDR` an interface
(address and prefix length).
"""

from __future__ import annotations

import re
from collections.abc import Callable
from decimal import Decimal
from functools import lru_cache
from ipaddress import IPv4Address, IPv4Interface, IPv6Address, IPv6Interface, ip_address, ip_interface
from typing import Any

import re2

from app.errors import BerthError

_RE2 = re2.Options()
_RE2.log_errors = False
_GO_WORDS = {
    "missing )": "missing closing )",
    "missing ]": "missing closing ]",
    "trailing \\": "trailing backslash at end of expression",
    "no argument for repetition operator": "missing argument to repetition operator",
    "invalid repetition size": "invalid repeat count",
    "bad repetition operator": "invalid nested repetition operator",
    "invalid perl operator": "invalid or unsupported Perl syntax",
    "invalid named capture group": "invalid named capture",
}
"""What Go's library calls the faults that RE2 finds; the others have the same name."""
IP = IPv4Address | IPv6Address
CIDR = IPv4Interface | IPv6Interface
Row = tuple[str, Callable[..., Any], str]
"""A function: its name, what computes it, and its signatures as `app.cel.calls` reads them."""
_PREFIX = re.compile(r"0|[1-9][0-9]{0,2}", re.ASCII)
_LINK_LOCAL_MULTICAST = (ip_interface("224.0.0.0/24").network, ip_interface("ff02::/16").network)
_BROADCAST = IPv4Address("255.255.255.255")
_DURATION = re.compile(r"[-+]?(?:(?:\d+\.?\d*|\.\d+)(?:ns|us|µs|μs|ms|s|m|h))+|[-+]?0")
_PART = re.compile(r"(\d*\.?\d*)(ns|us|µs|μs|ms|s|m|h)")
_UNITS = {"ns": 1, "us": 10**3, "µs": 10**3, "μs": 10**3, "ms": 10**6, "s": 10**9, "m": 60 * 10**9, "h": 3600 * 10**9}
_OF_IP = "net.IP: bool"


class BadPattern(BerthError):
    """The pattern is not a regular expression of Go; the message is Go's."""


@lru_cache(maxsize=1024)
def compiled_pattern(pattern: str) -> Any:
    """The RE2 expression, as the API server reads it; raises `BadPattern`."""
    try:
        return re2.compile(pattern, _RE2)
    except re2.error as error:
        fault, _, part = error.args[0].decode(errors="replace").partition(": ")
        text = _GO_WORDS.get(fault, fault)
        if part in ("(?<!", "(?<="):  # Go reads a named group up to ">"
            text, rest = "invalid named capture", pattern[pattern.index(part) :]
            part = rest[: rest.find(">") + 1] or rest
        raise BadPattern(f"error parsing regexp: {text}: `{part}`") from None


def parse_duration(text: str) -> int:
    """The nanoseconds of a duration of Go (`1h30m`); raises `ValueError`."""
    if not _DURATION.fullmatch(text):
        raise ValueError(f'invalid duration "{text}"')
    total = sum(int(Decimal(number) * _UNITS[unit]) for number, unit in _PART.findall(text))
    return -total if text.startswith("-") else total


class BadAddressError(BerthError, ValueError):
    """The text is no address, or none with a prefix length."""


def parse_ip(text: str) -> IP:
    """Raises BadAddressError for no address, one with a zone, and one of IPv4 that is mapped to IPv6."""
    try:
        address = ip_address(text)
    except ValueError as error:
        raise BadAddressError(f'IP Address "{text}" parse error during conversion from string: {error}') from error
    if isinstance(address, IPv6Address):
        if address.scope_id is not None:
            raise BadAddressError(f'IP address "{text}" with zone value is not allowed')
        if address.ipv4_mapped is not None:
            raise BadAddressError(f'IPv4-mapped IPv6 address "{text}" is not allowed')
    return address


def parse_cidr(text: str) -> CIDR:
    """Raises BadAddressError as `parse_ip`, and for a prefix length that is missing, too long, or begins with zeros."""
    written, slash, length = text.partition("/")
    address = parse_ip(written) if slash and _PREFIX.fullmatch(length) else None
    if address is None or int(length) > address.max_prefixlen:
        raise BadAddressError(f'network address parse error during conversion from string: "{text}"')
    return ip_interface((address.packed, int(length)))


def is_ip(text: str) -> bool:
    return _reads(text, cidr=False)


def is_cidr(text: str) -> bool:
    return _reads(text, cidr=True)


def _reads(text: str, *, cidr: bool) -> bool:
    try:
        (parse_cidr if cidr else parse_ip)(text)
    except BadAddressError:
        return False
    return True


def contains_ip(network: CIDR, address: IP | str) -> bool:
    """Raises BadAddressError for a text that is no address."""
    return (parse_ip(address) if isinstance(address, str) else address) in network.network


def contains_cidr(network: CIDR, other: CIDR | str) -> bool:
    """Raises BadAddressError for a text that is no address with a prefix length."""
    inner = parse_cidr(other) if isinstance(other, str) else other
    return inner.ip in network.network and inner.network.prefixlen >= network.network.prefixlen


def masked(network: CIDR) -> CIDR:
    return ip_interface((network.network.network_address.packed, network.network.prefixlen))


def is_link_local_multicast(address: IP) -> bool:
    return any(address in network for network in _LINK_LOCAL_MULTICAST)


def is_global_unicast(address: IP) -> bool:
    """As Go has it: private addresses count."""
    special = address.is_unspecified or address.is_loopback or address.is_multicast or address.is_link_local
    return not special and address != _BROADCAST


METHODS: tuple[Row, ...] = (
    ("family", lambda address: address.version, "net.IP: int"),
    ("isUnspecified", lambda address: address.is_unspecified, _OF_IP),
    ("isLoopback", lambda address: address.is_loopback, _OF_IP),
    ("isLinkLocalMulticast", is_link_local_multicast, _OF_IP),
    ("isLinkLocalUnicast", lambda address: address.is_link_local, _OF_IP),
    ("isGlobalUnicast", is_global_unicast, _OF_IP),
    ("ip", lambda network: network.ip, "net.CIDR: net.IP"),
    ("masked", masked, "net.CIDR: net.CIDR"),
    ("prefixLength", lambda network: network.network.prefixlen, "net.CIDR: int"),
    ("containsIP", contains_ip, "net.CIDR net.IP: bool | net.CIDR string: bool"),
    ("containsCIDR", contains_cidr, "net.CIDR net.CIDR: bool | net.CIDR string: bool"),
)
FUNCTIONS: tuple[Row, ...] = (
    ("ip", parse_ip, "string: net.IP"),
    ("isIP", is_ip, "string: bool"),
    ("cidr", parse_cidr, "string: net.CIDR"),
    ("isCIDR", is_cidr, "string: bool"),
)
