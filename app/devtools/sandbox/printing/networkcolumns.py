"""Cells of Services and their endpoints, as the real API server prints them. Pure functions of one object."""

from __future__ import annotations

from app.wire import JSON

_MOST = 3
_UNSET, _NONE = "<unset>", "<none>"


def service_ports(service: JSON, _: float) -> str:
    ports = []
    for port in (service.get("spec") or {}).get("ports") or []:
        node = f":{port['nodePort']}" if port.get("nodePort") else ""
        ports.append(f"{port.get('port')}{node}/{port.get('protocol', 'TCP')}")
    return ",".join(ports) or _NONE


def external_addresses(service: JSON, _: float) -> str:
    """What EXTERNAL-IP shows, by the type of the Service."""
    spec = service.get("spec", {})
    if spec.get("type") == "ExternalName":
        return str(spec.get("externalName", ""))
    if spec.get("type") == "LoadBalancer":
        ingress = ((service.get("status") or {}).get("loadBalancer") or {}).get("ingress") or []
        addresses = [i.get("ip") or i.get("hostname", "") for i in ingress] + spec.get("externalIPs", [])
        return ",".join(addresses) or "<pending>"
    return ",".join(spec.get("externalIPs", [])) or _NONE


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
        return _NONE
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
