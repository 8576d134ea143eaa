"""What network data may look like beyond what the API server checks: rules as data, and the check of one entry. Pure.

The API server limits lengths and counts, and wants `ips` in canonical CIDR form. It does not look at what the texts
mean. What is published keeps to these rules, and `app.claims.permissions` makes a ValidatingAdmissionPolicy of them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache

from app.cel.libraries import CIDR, IP, compiled_pattern, is_cidr, parse_cidr
from app.text import quoted
from app.wire import JSON

INTERFACE_NAME, HARDWARE_ADDRESS, IPS = "interfaceName", "hardwareAddress", "ips"
_HEX = "[0-9A-Fa-f]{2}"


@dataclass(frozen=True, slots=True)
class TextRule:
    """A field of `networkData` matches `pattern` (RE2) and has at most `most_bytes` bytes. An empty one is absent."""

    field: str
    pattern: str
    most_bytes: int
    want: str


@dataclass(frozen=True, slots=True)
class AddressRule:
    """No address of `ips` is in one of the `ranges`. `name` is that of a kind of addresses."""

    name: str
    ranges: tuple[str, ...]
    want: str


TEXT_RULES = (
    TextRule(
        INTERFACE_NAME,
        # Neither "." nor "..". White space is that of the kernel, as far as it is a character of UTF-8.
        r"^(\.{0,2}[^./:\s\x0b\x{A0}]|\.{3})[^/:\s\x0b\x{A0}]*$",
        15,
        "a name of a Linux interface: at most 15 bytes without '/', ':' and white space, and not '.' or '..'",
    ),
    TextRule(
        HARDWARE_ADDRESS,
        f"^{_HEX}(:{_HEX}){{5}}((:{_HEX}){{2}}|(:{_HEX}){{14}})?$",
        59,
        "6, 8 or 20 bytes in hexadecimal with colons between them",
    ),
)
"""Linux: `dev_valid_name` of net/core/dev.c. Addresses: EUI-48, EUI-64 and IP over InfiniBand, as Go's ParseMAC."""
ADDRESS_RULES = (
    AddressRule("unspecified", ("0.0.0.0/32", "::/128"), "an address of the interface, not the unspecified address"),
    AddressRule("loopback", ("127.0.0.0/8", "::1/128"), "an address of the interface, not a loopback address"),
    AddressRule("multicast", ("224.0.0.0/4", "ff00::/8"), "an address of the interface, not a multicast address"),
    AddressRule("broadcast", ("255.255.255.255/32",), "an address of the interface, not the broadcast address"),
)
LEAST_PREFIX = 1
PREFIX_WANT = "the length of the network's prefix, not /0"


def format_problems(data: JSON, path: str) -> Iterator[str]:
    """What is wrong with the `networkData` at `path`, one line each: the field, what is right, what it is.

    What the API server refuses itself (other types, texts that are no address) is passed over.
    """
    for rule in TEXT_RULES:
        text = data.get(rule.field)
        if isinstance(text, str) and text and not _fits(rule, text):
            yield problem(f"{path}.{rule.field}", rule.want, text)
    ips = data.get(IPS)
    for index, text in enumerate(ips if isinstance(ips, list) else ()):
        if isinstance(text, str) and is_cidr(text):
            address = parse_cidr(text)
            for want in _unwanted(address):
                yield problem(f"{path}.{IPS}[{index}]", want, text)


def is_well_formed(field: str, text: str) -> bool:
    """Whether a text that is not empty may stand in this field."""
    return all(_fits(rule, text) for rule in TEXT_RULES if rule.field == field)


def is_of_interface(address: IP) -> bool:
    """Whether an interface may have the address, by the rules for addresses."""
    return next(_wanted_for(address), None) is None


def problem(path: str, want: str, text: str) -> str:
    return f"{path}: want {want}, got {quoted(text)}"


def _fits(rule: TextRule, text: str) -> bool:
    if len(text.encode(errors="replace")) > rule.most_bytes:
        return False
    return compiled_pattern(rule.pattern).search(text) is not None


def _unwanted(address: CIDR) -> Iterator[str]:
    yield from _wanted_for(address.ip)
    if address.network.prefixlen < LEAST_PREFIX:
        yield PREFIX_WANT


def _wanted_for(address: IP) -> Iterator[str]:
    for rule in ADDRESS_RULES:
        if any(address in network.network for network in _parsed(rule.ranges)):
            yield rule.want


@cache
def _parsed(ranges: tuple[str, ...]) -> tuple[CIDR, ...]:
    return tuple(map(parse_cidr, ranges))
