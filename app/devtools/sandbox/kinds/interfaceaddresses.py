"""Addresses of interfaces (an IP address and the length of its subnet's prefix), in the API server's words. Pure."""

from __future__ import annotations

import ipaddress

_FORM_TEXT = "must be a valid address in CIDR form, (e.g. 10.9.8.7/24 or 2001:db8::1/64)"


def interface_address_faults(text: str) -> list[str]:
    """What is wrong with an interface's address.

    The canonical form has no leading zeros and small letters. IPv4 addresses in IPv6 form are written as IPv4, and so
    is their prefix.
    """
    canonical = _canonical(text)
    if canonical is None:
        return [_FORM_TEXT]
    return [] if canonical == text else [f'must be in canonical form ("{canonical}")']


def _canonical(text: str) -> str | None:
    """The canonical form, None for a text that is no interface address."""
    address, slash, length = text.partition("/")
    if not slash or not (length.isascii() and length.isdigit()) or "%" in address:
        return None
    try:
        parsed = ipaddress.ip_address(_without_zeros(address))
    except ValueError:
        return None
    prefix = int(length)
    if prefix > parsed.max_prefixlen or len(length) > 3:
        return None
    if isinstance(parsed, ipaddress.IPv6Address) and parsed.ipv4_mapped is not None:
        return f"{parsed.ipv4_mapped}/{prefix - 96}"
    return f"{parsed}/{prefix}"


def _without_zeros(address: str) -> str:
    """The address with its decimal parts as numbers: what the server reads leniently, and wants in canonical form."""
    if ":" in address:
        return address
    parts = address.split(".")
    return ".".join(str(int(part)) if part.isascii() and part.isdigit() and len(part) < 19 else part for part in parts)
