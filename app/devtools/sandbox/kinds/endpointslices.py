"""Validation of EndpointSlices, in the API server's words. Pure.

The rules are those of discovery.k8s.io/v1. The limit of ports is the API server's; kube's own controller stays below.
"""

from __future__ import annotations

import ipaddress

from app.devtools.sandbox.kinds.devicenames import bounded, immutable
from app.kinds.fielderrors import Field, FieldError
from app.kinds.name_syntax import check_labels, label_faults, label_value_faults, qualified_faults, subdomain_faults
from app.wire import JSON

_TYPES = ("FQDN", "IPv4", "IPv6")
_MOST_ENDPOINTS = 1000
_MOST_ADDRESSES = 100
_MOST_PORTS = 20000
_MOST_HINTS = 8
_MOST_TOPOLOGY = 16
_ADDRESS_TEXT = "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)"

_Address = ipaddress.IPv4Address | ipaddress.IPv6Address


def drop_topology(endpoint_slice: JSON) -> None:
    """Remove a field of earlier versions that v1 does not keep."""
    for endpoint in endpoint_slice.get("endpoints") or []:
        endpoint.pop("deprecatedTopology", None)


def endpoint_warnings(endpoint_slice: JSON) -> list[str]:
    """What the writer of an EndpointSlice should know."""
    return ["spec.addressType: FQDN endpoints are deprecated"] if endpoint_slice.get("addressType") == "FQDN" else []


def check_endpoint_slice(endpoint_slice: JSON, old: JSON | None) -> list[FieldError]:
    """All faults of an EndpointSlice, its metadata aside. Endpoints that an update leaves alone are not checked."""
    whole = Field(endpoint_slice)
    with whole.declared():
        if whole.required("addressType"):
            whole.one_of("addressType", _TYPES)
    if old is not None and old.get("addressType") != endpoint_slice.get("addressType"):
        immutable(whole, "addressType")
    _check_ports(whole)
    if old is None or old.get("endpoints") != endpoint_slice.get("endpoints"):
        _check_endpoints(whole)
    return whole.errors


def _check_ports(whole: Field) -> None:
    if not bounded(whole, "ports", _MOST_PORTS, declared=False):
        return
    seen: set[str] = set()
    for port in whole.each("ports"):
        port.syntax("name", label_faults, optional=True)
        port.unique("name", port.text("name"), seen)
        port.one_of("protocol", ("SCTP", "TCP", "UDP"))
        if "appProtocol" in port.value:
            port.syntax("appProtocol", qualified_faults)


def _check_endpoints(whole: Field) -> None:
    if not bounded(whole, "endpoints", _MOST_ENDPOINTS, declared=False):
        return
    for endpoint in whole.each("endpoints"):
        with endpoint.declared():
            if endpoint.required("addresses"):
                bounded(endpoint, "addresses", _MOST_ADDRESSES)
        _check_addresses(endpoint, whole.text("addressType"))
        if "nodeName" in endpoint.value:
            endpoint.syntax("nodeName", subdomain_faults)
        bounded(endpoint, "deprecatedTopology", _MOST_TOPOLOGY, declared=False)
        endpoint.errors += check_labels(endpoint.value.get("deprecatedTopology"), endpoint.at("deprecatedTopology"))
        if "hostname" in endpoint.value:
            endpoint.syntax("hostname", label_faults)
        for hints in endpoint.present("hints"):
            _check_hints(hints)


def _check_hints(hints: Field) -> None:
    for name, faults in (("forZones", label_value_faults), ("forNodes", subdomain_faults)):
        if not bounded(hints, name, _MOST_HINTS, declared=False):
            return
        seen: set[str] = set()
        for hint in hints.each(name):
            hint.unique("name", hint.text("name"), seen)
            hint.syntax("name", faults)


def _check_addresses(endpoint: Field, kind: str) -> None:
    if kind == "FQDN":
        endpoint.texts("addresses", _domain_faults)
    elif kind in ("IPv4", "IPv6"):
        for here, text in endpoint.entries("addresses"):
            _check_address(endpoint, here, text, kind)


def _check_address(endpoint: Field, here: str, text: str, kind: str) -> None:
    address = _parsed(text)
    if address is None:
        fault = "must not have leading 0s" if _parsed(text, zeros=True) else _ADDRESS_TEXT
        endpoint.fault(here, "Invalid", fault, text)
        return
    for fault in _form_faults(text, address) if kind == "IPv6" else ():
        endpoint.fault(here, "Invalid", fault, text)
        return
    version = 4 if address.version == 4 or getattr(address, "ipv4_mapped", None) else 6
    if version != (4 if kind == "IPv4" else 6):
        endpoint.fault("addresses", "Invalid", f"must be an {kind} address", text)
    for fault in _range_faults(address):
        endpoint.fault(here, "Invalid", fault, text)


def _parsed(text: str, *, zeros: bool = False) -> _Address | None:
    """The address in a text, None for what is none; `zeros` allows leading ones in the parts of IPv4 addresses."""
    if zeros:
        text = ".".join(part.lstrip("0") or "0" for part in text.split("."))
    try:
        return None if "%" in text else ipaddress.ip_address(text)
    except ValueError:
        return None


def _form_faults(text: str, address: _Address) -> list[str]:
    if getattr(address, "ipv4_mapped", None):
        return ["must not be an IPv4-mapped IPv6 address"]
    return [] if str(address) == text else [f'must be in canonical form ("{address}")']


def _range_faults(address: _Address) -> list[str]:
    """Addresses that no endpoint may have: they mean the node itself, or nothing."""
    found = []
    if address.is_unspecified:
        found.append(f"may not be unspecified ({address})")
    if address.is_loopback:
        found.append("may not be in the loopback range (127.0.0.0/8, ::1/128)")
    if address.is_link_local:
        found.append("may not be in the link-local range (169.254.0.0/16, fe80::/10)")
    if address in ipaddress.ip_network("224.0.0.0/24") or address in ipaddress.ip_network("ff02::/16"):
        found.append("may not be in the link-local multicast range (224.0.0.0/24, ff02::/10)")
    return found


def _domain_faults(text: str) -> list[str]:
    name = text.removesuffix(".")
    if not name:
        return ["must not be empty"]
    if faults := subdomain_faults(name):
        return faults
    return [] if "." in name else ["should be a domain with at least two segments separated by dots"]
