"""What the controller keeps of Services and of nodes. Pure projections of checked objects of an API server."""

from __future__ import annotations

import ipaddress

from app.claims.services.model import (
    ASKING,
    HEADLESS,
    MANAGED_BY,
    OURS,
    SERVICE_NAME,
    AddressType,
    Service,
    ServicePort,
    Wish,
    read_wish,
)
from app.kube.store import key_of
from app.wire import JSON

_RESERVED = frozenset({SERVICE_NAME, MANAGED_BY, HEADLESS})
_BOTH: tuple[AddressType, ...] = ("IPv4", "IPv6")


def stored_service(obj: JSON) -> Service | None:
    """None for a Service that asks for no network."""
    metadata, spec = obj["metadata"], obj.get("spec") or {}
    annotations = metadata.get("annotations") or {}
    if ASKING.isdisjoint(annotations):
        return None
    key = key_of(obj)
    read = read_wish(key[0], annotations, spec)
    address = spec.get("clusterIP") or ""
    headless = address in ("", "None")
    return Service(
        key=key,
        uid=metadata.get("uid", ""),
        deleting="deletionTimestamp" in metadata,
        headless=headless,
        publish_not_ready=bool(spec.get("publishNotReadyAddresses")),
        families=_families(spec.get("ipFamilies") or [], address, headless=headless),
        ports=tuple(_port(one) for one in spec.get("ports") or ()),
        labels=_labels(metadata.get("labels") or {}, key[1], headless=headless),
        wish=read if isinstance(read, Wish) else None,
        problem=None if isinstance(read, Wish) else read,
    )


def _families(said: list[str], address: str, *, headless: bool) -> tuple[AddressType, ...]:
    """An API server gives a headless Service without a selector both families, unless its author names them."""
    if said:
        return tuple(one for one in _BOTH if one in said)
    if headless:
        return _BOTH
    return ("IPv6",) if ipaddress.ip_address(address).version == 6 else ("IPv4",)


def _port(port: JSON) -> ServicePort:
    target = port.get("targetPort") or port["port"]
    return ServicePort(port.get("name") or "", port.get("protocol") or "TCP", target, port.get("appProtocol") or "")


def _labels(labels: JSON, name: str, *, headless: bool) -> tuple[tuple[str, str], ...]:
    """The labels of its slices, as Kubernetes sets them: those of the Service, and what says whose they are."""
    found = {key: value for key, value in labels.items() if key not in _RESERVED}
    found |= {SERVICE_NAME: name, MANAGED_BY: OURS} | ({HEADLESS: ""} if headless else {})
    return tuple(sorted(found.items()))


def stored_zone(node: JSON) -> str:
    """The zone of a node, "" where it is not known."""
    return str((node["metadata"].get("labels") or {}).get("topology.kubernetes.io/zone") or "")
