"""EndpointSlices that the controller keeps, as they are and as they should be, and a Pod into endpoints. Pure.

Endpoints are made as the EndpointSlice controller of Kubernetes makes them (k8s.io/endpointslice, utils.go).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from app.kube.resources import ENDPOINT_SLICES, SERVICES, controller_of
from app.kube.store import Head, Key, head_of
from app.services.addresses import Address
from app.services.model import MANAGED_BY, OURS, Pod, Service, ServicePort
from app.wire import JSON

Labels = tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class EndpointSlice(Head):
    """One of ours. `service` is the name of its owner, `owner` its UID.

    Endpoints that are not as we write them are None.
    """

    version: int
    service: str
    owner: str
    family: str
    labels: Labels
    ports: tuple[Port, ...]
    endpoints: tuple[Endpoint | None, ...]

    @property
    def of(self) -> Key:
        """The Service."""
        return self.key[0], self.service


def stored_endpoint_slice(obj: JSON) -> EndpointSlice | None:
    """None for a slice that lacks our label, or an owner that is a Service: it is not ours."""
    metadata = obj["metadata"]
    labels, owner = metadata.get("labels") or {}, controller_of(metadata)
    kind = (owner.get("apiVersion"), owner.get("kind"))
    if labels.get(MANAGED_BY) != OURS or kind != (SERVICES.api_version, SERVICES.kind):
        return None
    return EndpointSlice(
        *head_of(obj),
        version=int(metadata["resourceVersion"]),
        service=owner["name"],
        owner=owner["uid"],
        family=obj["addressType"],
        labels=tuple(sorted(labels.items())),
        ports=tuple(sorted(read_port(port) for port in obj.get("ports") or ())),
        endpoints=tuple(read_endpoint(endpoint) for endpoint in obj.get("endpoints") or ()),
    )


class Wanted(NamedTuple):
    """What a slice should have."""

    family: str
    ports: tuple[Port, ...]
    endpoints: tuple[Endpoint, ...]
    labels: Labels

    def body(self, name: str, service: Service) -> JSON:
        """The object to create."""
        metadata = {
            "name": name,
            "namespace": service.key[0],
            "labels": dict(self.labels),
            "ownerReferences": [service.owner],
        }
        lists = {
            "ports": [port.body() for port in self.ports],
            "endpoints": [endpoint.body() for endpoint in self.endpoints],
        }
        return ENDPOINT_SLICES.body(metadata, addressType=self.family, **lists)

    def patch(self, stored: EndpointSlice) -> JSON:
        """The merge patch that makes it of a slice of its family; empty where it is so already."""
        patch: JSON = {}
        if stored.labels != self.labels:
            gone = dict.fromkeys(dict(stored.labels).keys() - dict(self.labels).keys())
            patch["metadata"] = {"labels": {**gone, **dict(self.labels)}}
        if stored.ports != self.ports:
            patch["ports"] = [port.body() for port in self.ports]
        if stored.endpoints != self.endpoints:
            patch["endpoints"] = [endpoint.body() for endpoint in self.endpoints]
        return patch


class Port(NamedTuple):
    """A port of a slice."""

    name: str
    number: int
    protocol: str
    app_protocol: str

    def body(self) -> JSON:
        protocol = {"appProtocol": self.app_protocol} if self.app_protocol else {}
        return {"name": self.name, "port": self.number, "protocol": self.protocol, **protocol}


class Endpoint(NamedTuple):
    """One address of a Pod: consumers of slices use the first address of an endpoint alone (API of EndpointSlice)."""

    address: str
    namespace: str
    pod: str
    uid: str
    ready: bool
    serving: bool
    terminating: bool
    node: str = ""
    zone: str = ""
    hostname: str = ""

    @property
    def identity(self) -> tuple[str, str]:
        """What stays while its conditions change."""
        return self.uid, self.address

    def body(self) -> JSON:
        more = {"nodeName": self.node, "zone": self.zone, "hostname": self.hostname}
        return {
            "addresses": [self.address],
            "conditions": {"ready": self.ready, "serving": self.serving, "terminating": self.terminating},
            "targetRef": {"kind": "Pod", "namespace": self.namespace, "name": self.pod, "uid": self.uid},
            **{name: value for name, value in more.items() if value},
        }


def endpoints_of(pod: Pod, service: Service, addresses: tuple[Address, ...], zone: str) -> Iterator[Endpoint]:
    """An endpoint for each address. A Pod that terminates is never ready, unless all addresses are published."""
    ready = service.publish_not_ready or (pod.ready and not pod.deleting)
    hostname = pod.hostname if pod.subdomain == service.key[1] else ""
    (namespace, name), state = pod.key, (ready, pod.ready, pod.deleting)
    for address in addresses:
        yield Endpoint(str(address), namespace, name, pod.uid, *state, pod.node, zone, hostname)


def ports_of(pod: Pod, service: Service) -> tuple[Port, ...]:
    """The ports as this Pod has them, sorted. One that is named by no container is left out."""
    numbers = ((port, _number(pod, port)) for port in service.ports)
    return tuple(
        sorted(Port(port.name, number, port.protocol, port.app_protocol) for port, number in numbers if number)
    )


def _number(pod: Pod, port: ServicePort) -> int | None:
    if isinstance(port.target, int):
        return port.target
    target = (port.target, port.protocol)
    return next(
        (
            container_port.number
            for container_port in pod.ports
            if (container_port.name, container_port.protocol) == target
        ),
        None,
    )


def read_port(port: JSON) -> Port:
    """A port of a stored slice. One without a number stands for all ports there, and is none of ours."""
    number, protocol = port.get("port") or 0, port.get("protocol") or "TCP"
    return Port(port.get("name") or "", number, protocol, port.get("appProtocol") or "")


def read_endpoint(endpoint: JSON) -> Endpoint | None:
    """An endpoint of a stored slice; None for one that is not as we write it."""
    target, conditions = endpoint.get("targetRef") or {}, endpoint.get("conditions") or {}
    read = Endpoint(
        address=next(iter(endpoint.get("addresses") or ()), ""),
        namespace=target.get("namespace", ""),
        pod=target.get("name", ""),
        uid=target.get("uid", ""),
        ready=bool(conditions.get("ready")),
        serving=bool(conditions.get("serving")),
        terminating=bool(conditions.get("terminating")),
        node=endpoint.get("nodeName") or "",
        zone=endpoint.get("zone") or "",
        hostname=endpoint.get("hostname") or "",
    )
    return read if read.body() == endpoint else None
