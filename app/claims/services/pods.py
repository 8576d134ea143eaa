"""What the controller keeps of Pods that may have another network. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from app.claims.network_status import attached_to
from app.claims.stored.pods import ClaimPod, claim_pod
from app.errors import Denied
from app.kube.conditions import status_of
from app.kube.store import Key
from app.networks.model import DEFAULT_NETWORK, NETWORKS
from app.networks.selection import parse, parse_default
from app.wire import JSON


class ContainerPort(NamedTuple):
    name: str
    protocol: str
    number: int


@dataclass(frozen=True, slots=True)
class Pod:
    """`attached` are its addresses by network, as Multus says; None where that says nothing or cannot be read (`odd`).

    `selected` are the networks that its annotations ask for, None where they cannot be read; `claims` its
    ResourceClaims, as far as they are known. `ports` are the named ones.
    """

    key: Key
    uid: str
    node: str
    labels: Mapping[str, str]
    ready: bool
    deleting: bool
    over: bool
    host_network: bool
    hostname: str
    subdomain: str
    ports: tuple[ContainerPort, ...]
    attached: Mapping[str, tuple[str, ...]] | None
    odd: bool
    selected: frozenset[str] | None
    claims: tuple[str, ...]


def stored_pod(obj: JSON, home: str = "kube-system") -> Pod | None:
    """None for a Pod without network status and without claims.

    `home` is the namespace of a default network that names none.
    """
    read = claim_pod(obj)
    if read.network_status is None and not read.claims and not read.extended_claim:
        return None
    metadata, spec, status = obj["metadata"], obj.get("spec") or {}, status_of(obj)
    attached, odd = _attached(read.network_status)
    return Pod(
        key=read.key,
        uid=read.uid,
        node=read.node,
        labels=metadata.get("labels") or {},
        ready=any(one.get("type") == "Ready" and one.get("status") == "True" for one in status.get("conditions") or ()),
        deleting="deletionTimestamp" in metadata,
        over=read.over,
        host_network=read.host_network,
        hostname=spec.get("hostname") or "",
        subdomain=spec.get("subdomain") or "",
        ports=tuple(_ports(spec)),
        attached=attached,
        odd=odd,
        selected=_selected(read, home) if read.claim_names else frozenset(),
        claims=read.claim_names,
    )


def _ports(spec: JSON) -> Iterator[ContainerPort]:
    """Those of containers, then those of sidecars: init containers that go on."""
    sidecars = [one for one in spec.get("initContainers") or () if one.get("restartPolicy") == "Always"]
    for container in (*(spec.get("containers") or ()), *sidecars):
        for port in container.get("ports") or ():
            if port.get("name"):
                yield ContainerPort(port["name"], port.get("protocol") or "TCP", port["containerPort"])


def _attached(text: str | None) -> tuple[dict[str, tuple[str, ...]] | None, bool]:
    """The addresses by network, and whether the text cannot be read."""
    if text is None:
        return None, False
    try:
        entries = attached_to(text)
    except ValueError:
        return None, True
    found: dict[str, tuple[str, ...]] = {}
    for one in entries:
        found[one.name] = (*found.get(one.name, ()), *one.ips)
    return found, False


def _selected(pod: ClaimPod, home: str) -> frozenset[str] | None:
    try:
        found = parse(pod.networks, annotation=NETWORKS, default_namespace=pod.key[0])
        default = parse_default(pod.default_network, annotation=DEFAULT_NETWORK, default_namespace=home)
    except Denied:
        return None
    return frozenset(f"{one.namespace}/{one.name}" for one in (*found, *((default,) if default else ())))
