"""Cells of ResourceClaims and EndpointSlices, as the real API server prints them. Pure functions of one object."""

from __future__ import annotations

from app.wire import JSON

_MOST = 3
_UNSET = "<unset>"


def claim_state(claim: JSON, _: float) -> str:
    """Where a claim is: pending, allocated, reserved for consumers, or on its way out."""
    deleted, status = bool(claim["metadata"].get("deletionTimestamp")), claim.get("status") or {}
    states = ["deleted"] if deleted else []
    if status.get("allocation") is not None:
        states += ["allocated", *(["reserved"] if status.get("reservedFor") else [])]
    elif not deleted:
        states.append("pending")
    return ",".join(states)


def slice_ports(endpoint_slice: JSON, _: float) -> str:
    """The first ports by number, or by name where they have none."""
    return _first([str(port.get("port", port.get("name", "*"))) for port in endpoint_slice.get("ports") or []])


def slice_addresses(endpoint_slice: JSON, _: float) -> str:
    """The first addresses of all endpoints."""
    endpoints = endpoint_slice.get("endpoints") or []
    return _first([address for endpoint in endpoints for address in endpoint.get("addresses") or []])


def endpoint_addresses(endpoints: JSON, _: float) -> str:
    """The first addresses of Endpoints, each with each port of its subset."""
    subsets = endpoints.get("subsets") or []
    if not subsets:
        return "<none>"
    texts = [
        address["ip"] if port is None else f"{_host(address['ip'])}:{port['port']}"
        for subset in subsets
        for port in subset.get("ports") or [None]
        for address in subset.get("addresses") or []
    ]
    return _first(texts, empty="")


def _host(address: str) -> str:
    return f"[{address}]" if ":" in address else address


def _first(texts: list[str], *, empty: str = _UNSET) -> str:
    more = f" + {len(texts) - _MOST} more..." if len(texts) > _MOST else ""
    return ",".join(texts[:_MOST]) + more or empty
