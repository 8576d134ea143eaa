"""A Pod into endpoints, as the EndpointSlice controller of Kubernetes does it (k8s.io/endpointslice, utils.go).

Pure.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from app.claims.services.addresses import Address
from app.claims.services.model import Service, ServicePort
from app.claims.services.pods import Pod
from app.wire import JSON


class Port(NamedTuple):
    """A port of a slice."""

    name: str
    number: int
    protocol: str
    app_protocol: str

    def body(self) -> JSON:
        said = {"appProtocol": self.app_protocol} if self.app_protocol else {}
        return {"name": self.name, "port": self.number, "protocol": self.protocol, **said}


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
    found = ((one, _number(pod, one)) for one in service.ports)
    return tuple(sorted(Port(one.name, number, one.protocol, one.app_protocol) for one, number in found if number))


def _number(pod: Pod, port: ServicePort) -> int | None:
    if isinstance(port.target, int):
        return port.target
    wanted = (port.target, port.protocol)
    return next((one.number for one in pod.ports if (one.name, one.protocol) == wanted), None)


def read_port(port: JSON) -> Port:
    """A port of a stored slice. One without a number stands for all ports there, and is none of ours."""
    number, protocol = port.get("port") or 0, port.get("protocol") or "TCP"
    return Port(port.get("name") or "", number, protocol, port.get("appProtocol") or "")


def read_endpoint(endpoint: JSON) -> Endpoint | None:
    """An endpoint of a stored slice; None for one that is not as we write it."""
    target, conditions = endpoint.get("targetRef") or {}, endpoint.get("conditions") or {}
    found = Endpoint(
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
    return found if found.body() == endpoint else None
