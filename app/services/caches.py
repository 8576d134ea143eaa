"""What the controller reads and keeps of Services, nodes and Pods, and what a plan for a Service is made of."""

from __future__ import annotations

import ipaddress
from collections.abc import Container, Iterable, Sequence
from functools import partial

from app.claims.publishing.model import stored_attachment
from app.claims.slices import Pools, stored_slice
from app.claims.stored import Claim, stored_claim
from app.kube import resources
from app.kube.kit import Kit
from app.kube.store import Key, head_of
from app.networks.model import RESOURCE_NAME
from app.services.addresses import Claimed, Network, Range, claimed
from app.services.model import (
    ASKING,
    HEADLESS,
    MANAGED_BY,
    OURS,
    SERVICE_NAME,
    AddressType,
    Pod,
    Service,
    ServicePort,
    Wish,
    read_wish,
    stored_pod,
)
from app.services.planning import Inputs
from app.services.slices import EndpointSlice, stored_endpoint_slice
from app.wire import JSON

_RESERVED = frozenset({SERVICE_NAME, MANAGED_BY, HEADLESS})
_BOTH: tuple[AddressType, ...] = ("IPv4", "IPv6")


class ServiceCaches:
    """Of Services those with the annotation, of Pods those with network status or claims, of EndpointSlices ours.

    `keys` are the annotations that name the resource of an attachment; `home` is the namespace of default networks.
    `unconfined` are the attachments, NAMESPACE/NAME, whose addresses are published without known subnets, and
    `excluded` what is not published of any.
    """

    def __init__(
        self,
        kit: Kit,
        *,
        keys: Sequence[str] = (RESOURCE_NAME,),
        home: str = "kube-system",
        unconfined: Container[str] = (),
        excluded: tuple[Range, ...] = (),
    ) -> None:
        self._unconfined, self._excluded = unconfined, excluded
        self.services = kit.cache(
            resources.SERVICES,
            stored_service,
            indices={"namespace": lambda service: (service.key[0],)},
            called="NetworkService",
        )
        self.pods = kit.cache(
            resources.PODS,
            partial(stored_pod, home=home),
            indices={
                "namespace": lambda pod: (pod.key[0],),
                "node": lambda pod: (pod.node,),
                "claim": lambda pod: ((pod.key[0], name) for name in pod.claims),
            },
            called="NetworkPod",
        )
        self.zones = kit.cache(resources.NODES, stored_zone)
        self.claims = kit.cache(resources.RESOURCE_CLAIMS, stored_claim, indices={"pool": _pools_of})
        self.devices = kit.cache(
            resources.RESOURCE_SLICES,
            stored_slice,
            indices={"pool": lambda devices: ((devices.driver, devices.pool),)},
        )
        self.attachments = kit.cache(
            resources.NETWORK_ATTACHMENTS,
            partial(stored_attachment, keys=keys),
            indices={"resource": lambda attachment: (attachment.resource,) if attachment.resource else ()},
        )
        self.slices = kit.cache(
            resources.ENDPOINT_SLICES,
            stored_endpoint_slice,
            indices={"service": lambda endpoints: (endpoints.of,)},
            labels=f"{MANAGED_BY}={OURS}",
        )
        self.written = kit.own(self.slices, group=lambda endpoints: endpoints.of)

    def keys(self) -> set[Key]:
        """All Services that ask for a network, or have slices of ours."""
        return {*self.services.keys(), *(endpoint_slice.of for endpoint_slice in self.slices.values())}

    def slices_of(self, service: Key) -> tuple[EndpointSlice, ...]:
        """Those there are as far as is known, also of an earlier Service of this name."""
        named = (*self.slices.by_index("service", service), *self.written.of(service))
        slices = {endpoint_slice.key: self.written.get(endpoint_slice.key) for endpoint_slice in named}
        return tuple(endpoint_slice for _, endpoint_slice in sorted(slices.items()) if endpoint_slice is not None)

    def attached(self, network: str) -> bool:
        """Whether the attachment exists."""
        return _key(network) in self.attachments

    def resource_of(self, network: str) -> str:
        """That of the attachment, "" where it has none or does not exist."""
        attachment = self.attachments.get(*_key(network))
        return attachment.resource if attachment else ""

    def inputs(self, service: Service, wish: Wish, *, taken: Iterable[str] = ()) -> Inputs:
        """`taken` are names that slices of others have."""
        pods = tuple(pod for pod in self.pods.by_index("namespace", service.key[0]) if wish.pods.matches(pod.labels))
        zones = ((pod.node, self.zones.get("", pod.node)) for pod in pods)
        return Inputs(
            service,
            self._network(wish),
            pods,
            self.slices_of(service.key),
            {node: zone for node, zone in zones if zone is not None},
            self._claimed(pod for pod in pods if wish.network not in (pod.attached or ())),
            frozenset(taken),
        )

    def _network(self, wish: Wish) -> Network:
        network = wish.network
        resource = self.resource_of(network)
        sharing = self.attachments.by_index("resource", resource) if resource else ()
        return Network(
            network,
            resource,
            frozenset(attachment.key for attachment in sharing),
            self.attachments.get(*_key(network)),
            unconfined=network in self._unconfined,
            excluded=self._excluded,
            device=wish.device,
        )

    def _claimed(self, pods: Iterable[Pod]) -> Claimed:
        """The claims of Pods of which Multus does not say that they are on the network."""
        keys = {(pod.key[0], name) for pod in pods for name in pod.claims}
        claims = {key: claim for key in sorted(keys) if (claim := self.claims.get(*key)) is not None}
        names = {pool for claim in claims.values() for pool in _pools_of(claim)}
        slices = (resource_slice for name in names for resource_slice in self.devices.by_index("pool", name))
        return claimed(claims, Pools(slices))


def _key(network: str) -> Key:
    namespace, _, name = network.partition("/")
    return namespace, name


def _pools_of(claim: Claim) -> set[tuple[str, str]]:
    return {(result.device.driver, result.device.pool) for result in claim.results}


def stored_service(obj: JSON) -> Service | None:
    """None for a Service that asks for no network."""
    metadata, spec = obj["metadata"], obj.get("spec") or {}
    annotations = metadata.get("annotations") or {}
    if ASKING.isdisjoint(annotations):
        return None
    key, uid, deleting = head_of(obj)
    read = read_wish(key[0], annotations, spec)
    address = spec.get("clusterIP") or ""
    headless = address in ("", "None")
    return Service(
        key,
        uid,
        deleting,
        headless=headless,
        publish_not_ready=bool(spec.get("publishNotReadyAddresses")),
        families=_families(spec.get("ipFamilies") or [], address, headless=headless),
        ports=tuple(_port(port) for port in spec.get("ports") or ()),
        labels=_labels(metadata.get("labels") or {}, key[1], headless=headless),
        wish=read if isinstance(read, Wish) else None,
        problem=None if isinstance(read, Wish) else read,
    )


def _families(families: list[str], address: str, *, headless: bool) -> tuple[AddressType, ...]:
    """An API server gives a headless Service without a selector both families, unless its author names them."""
    if families:
        return tuple(family for family in _BOTH if family in families)
    if headless:
        return _BOTH
    return ("IPv6",) if ipaddress.ip_address(address).version == 6 else ("IPv4",)


def _port(port: JSON) -> ServicePort:
    target = port.get("targetPort") or port["port"]
    return ServicePort(port.get("name") or "", port.get("protocol") or "TCP", target, port.get("appProtocol") or "")


def _labels(labels: JSON, name: str, *, headless: bool) -> tuple[tuple[str, str], ...]:
    """The labels of its slices, as Kubernetes sets them: those of the Service, and what says whose they are."""
    kept = {key: value for key, value in labels.items() if key not in _RESERVED}
    kept |= {SERVICE_NAME: name, MANAGED_BY: OURS} | ({HEADLESS: ""} if headless else {})
    return tuple(sorted(kept.items()))


def stored_zone(node: JSON) -> str:
    """The zone of a node, "" where it is not known."""
    return str((node["metadata"].get("labels") or {}).get("topology.kubernetes.io/zone") or "")
