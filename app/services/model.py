"""What a Service says of its endpoints on another network and what is wrong with it, and what is kept of Pods. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Literal, NamedTuple

from app.claims.format import INTERFACE_NAME, is_well_formed
from app.claims.network_status import attached_to
from app.claims.stored import ClaimPod, claim_pod
from app.errors import Denied
from app.kube.conditions import status_of
from app.kube.names import check_dns_label, check_dns_subdomain
from app.kube.resources import SERVICES, controller_reference
from app.kube.selectors import LabelSelector, label_selector_from_text
from app.kube.store import Head
from app.networks.model import DEFAULT_NETWORK, NETWORKS
from app.networks.selection import parse, parse_default
from app.text import quoted
from app.wire import JSON

NETWORK = "berth.dev/network"
"""Annotation on a Service, by its author: the attachment, as [namespace/]name, on which Pods have its endpoints.

The controller network-services keeps EndpointSlices for such a Service, which has no selector of its own.
"""
INTERFACE = "berth.dev/interface"
"""Annotation on a Service, by its author: the interface, as drivers name it in ResourceClaims, that has its endpoints.

In place of berth.dev/network, for drivers that move devices into Pods without Multus.
"""
REQUEST = "berth.dev/request"
"""Annotation on a Service, by its author: the request of ResourceClaims whose devices have its endpoints.

In place of berth.dev/network; beside berth.dev/interface, devices have to fit both.
"""
SELECTOR = "berth.dev/selector"
"""Annotation on a Service, by its author: a label selector, as for kubectl -l, of the Pods that are its endpoints."""
SERVICE_NAME = "kubernetes.io/service-name"
MANAGED_BY = "endpointslice.kubernetes.io/managed-by"
HEADLESS = "service.kubernetes.io/headless"
"""Labels on EndpointSlices; the controller for them does not copy these from a Service."""
OURS = "berth"
"""The value of the second on EndpointSlices that this controller keeps."""
MOST_ENDPOINTS = 100
"""Endpoints in a slice, as the default of kube-controller-manager (--max-endpoints-per-slice)."""
ASKING = frozenset({NETWORK, INTERFACE, REQUEST})
"""A Service with one of these annotations asks for endpoints on another network."""
AddressType = Literal["IPv4", "IPv6"]


class ServicePort(NamedTuple):
    """A port of a Service; `target` is a number, or the name of a port of containers."""

    name: str
    protocol: str
    target: int | str
    app_protocol: str


class Problem(NamedTuple):
    """What is wrong with a Service, for an Event. With `refused` it gets no EndpointSlices; else what it has stays."""

    reason: str
    message: str
    refused: bool


class NamedDevice(NamedTuple):
    """Devices by the interface in their network data, and by the request for them; "" is any."""

    interface: str
    request: str

    def __str__(self) -> str:
        words = [
            f"interface {self.interface}" if self.interface else "",
            f"request {self.request}" * bool(self.request),
        ]
        return " of ".join(filter(None, words))


class Wish(NamedTuple):
    """Endpoints of these Pods on this network; `network` is NAMESPACE/NAME of the attachment.

    With a `device` there is no attachment: `network` is "".
    """

    network: str
    pods: LabelSelector
    device: NamedDevice | None = None


@dataclass(frozen=True, slots=True)
class Service(Head):
    """A Service with the annotation for a network. `wish` is None where there is a `problem`.

    `publish_not_ready`: all of its endpoints count as ready. `labels` are those that its slices have too.
    """

    headless: bool
    publish_not_ready: bool
    families: tuple[AddressType, ...]
    ports: tuple[ServicePort, ...]
    labels: tuple[tuple[str, str], ...]
    wish: Wish | None
    problem: Problem | None

    @property
    def owner(self) -> JSON:
        """The owner reference of its slices."""
        return controller_reference(SERVICES, self.key[1], self.uid)


def read_wish(namespace: str, annotations: JSON, spec: JSON) -> Wish | Problem:
    """What the Service asks for by its annotations."""
    if spec.get("selector"):
        other = "EndpointSlices are written by Kubernetes for this selector"
        text = f"spec.selector: {other}: remove it, or the annotation {NETWORK}; annotation {SELECTOR} selects the Pods"
        return Problem("SelectorNotAllowed", text, refused=True)
    if spec.get("type") == "ExternalName":
        text = "spec.type: a Service of type ExternalName has no endpoints: use ClusterIP"
        return Problem("TypeNotAllowed", text, refused=True)
    place = _place(namespace, annotations)
    if isinstance(place, Problem):
        return place
    selector = annotations.get(SELECTOR, "")
    if not selector.strip():
        wrong = "is empty" if SELECTOR in annotations else "is missing"
        return _unreadable(SELECTOR, "BadSelector", f"{wrong}; want a label selector such as app=x")
    try:
        return Wish(place[0], label_selector_from_text(selector), place[1])
    except ValueError as error:
        return _unreadable(SELECTOR, "BadSelector", str(error))


def not_found(network: str) -> Problem:
    """Of a Service whose attachment does not exist."""
    text = f"there is no NetworkAttachmentDefinition {network}; want [namespace/]name of one"
    return Problem("AttachmentNotFound", f"metadata.annotations[{NETWORK}]: {text}", refused=False)


NO_PODS = "NoPods"
"""The reason of the problem that may be meant: its Pods are not there yet, or are scaled to none."""


def no_pods(wish: Wish) -> Problem:
    """Of one that selects no Pod that Multus or a driver has attached to anything."""
    text = f"no Pod with a network status or a ResourceClaim has {wish.pods} (annotation {SELECTOR})"
    return Problem(NO_PODS, f"{text}: the Service has no endpoints", refused=False)


def subnets_unknown(network: str, pods: str = "") -> Problem:
    """Of one whose attachment does not say which addresses it gives; `pods` names the first Pods concerned."""
    text = f"no subnets are known of network {network}, so no address of Pods is published{': ' * bool(pods)}{pods}"
    fix = "give the attachment an IPAM of host-local, whereabouts or static with subnets"
    option = "or an administrator names it in --unconfined-networks of the controller"
    return Problem("SubnetsUnknown", f"{text}; {fix}, {option} (claims.unconfinedNetworks of the chart)", refused=False)


def not_attached(wish: Wish, pods: str) -> Problem:
    """Of one that selects Pods without an interface there."""
    if wish.device is not None:
        text = f"no device of Pods that the Service selects is {wish.device}: {pods}"
        text += "; want the interfaceName or the request of a device in the status of their ResourceClaims"
    else:
        text = f"Pods that the Service selects are not on network {wish.network}: {pods}"
        text += f"; select {wish.network} in their annotation k8s.v1.cni.cncf.io/networks"
        text += f", or name the device that a driver has moved into them by {INTERFACE} or {REQUEST}"
    return Problem("PodsNotAttached", text, refused=False)


def not_of_driver(wish: Wish, pods: str) -> Problem:
    """Of one that names a device whose network data we have written."""
    text = f"the network data of {wish.device} is a copy of the network status of Pods: {pods}"
    fix = f"name the attachment by annotation {NETWORK}, which says which addresses are of the network"
    return Problem("NetworkDataNotOfDriver", f"{text}; {fix}", refused=False)


def outside(wish: Wish, pods: str) -> Problem:
    """Of one whose Pods have addresses that may not be published."""
    if wish.device is not None:
        text = f"all addresses of {wish.device} are in the ranges that an administrator excludes: {pods}"
        text += "; correct the IPAM of the driver, or --excluded-ranges of the controller"
    else:
        text = f"the network status of Pods has addresses outside the subnets of network {wish.network}: {pods}"
        text += "; correct the IPAM of the attachment, or who writes the status"
    return Problem("AddressesOutsideNetwork", text, refused=False)


class ContainerPort(NamedTuple):
    name: str
    protocol: str
    number: int


@dataclass(frozen=True, slots=True)
class Pod(Head):
    """`attached` are its addresses by network, as Multus says; None where that says nothing or cannot be read (`odd`).

    `selected` are the networks that its annotations ask for, None where they cannot be read; `claims` its
    ResourceClaims, as far as they are known. `ports` are the named ones.
    """

    node: str
    labels: Mapping[str, str]
    ready: bool
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
        deleting="deletionTimestamp" in metadata,
        node=read.node,
        labels=metadata.get("labels") or {},
        ready=any(
            condition.get("type") == "Ready" and condition.get("status") == "True"
            for condition in status.get("conditions") or ()
        ),
        over=read.over,
        host_network=read.host_network,
        hostname=spec.get("hostname") or "",
        subdomain=spec.get("subdomain") or "",
        ports=tuple(_ports(spec)),
        attached=attached,
        odd=odd,
        selected=selected_networks(read, home) if read.claim_names else frozenset(),
        claims=read.claim_names,
    )


def _place(namespace: str, annotations: JSON) -> tuple[str, NamedDevice | None] | Problem:
    """The attachment, or the device in its place."""
    if NETWORK not in annotations:
        return _device(annotations)
    if other := next((name for name in (INTERFACE, REQUEST) if name in annotations), ""):
        return _unreadable(other, "BadDevice", f"stands beside {NETWORK}; want one of them")
    try:
        return _network(annotations[NETWORK].strip(), namespace), None
    except ValueError as error:
        return _unreadable(NETWORK, "BadNetwork", f"{error}; want [namespace/]name of a NetworkAttachmentDefinition")


def _device(annotations: JSON) -> tuple[str, NamedDevice] | Problem:
    interface, request = (annotations.get(name, "").strip() for name in (INTERFACE, REQUEST))
    if INTERFACE in annotations and not (interface and is_well_formed(INTERFACE_NAME, interface)):
        wrong = f"{quoted(interface)} names no interface"
        return _unreadable(INTERFACE, "BadDevice", f"{wrong}; want a name such as eth1, of at most 15 bytes")
    try:
        for name in request.split("/", 1) if REQUEST in annotations else ():
            check_dns_label(name)
    except ValueError as error:
        return _unreadable(REQUEST, "BadDevice", f"{error}; want the name of a request in ResourceClaims")
    return "", NamedDevice(interface, request)


def _network(text: str, namespace: str) -> str:
    before, slash, name = text.rpartition("/")
    home = check_dns_label(before) if slash else namespace
    return f"{home}/{check_dns_subdomain(name)}"


def _unreadable(annotation: str, reason: str, wrong: str) -> Problem:
    text = f"metadata.annotations[{annotation}]: {wrong}. The EndpointSlices that the Service has stay as they are"
    return Problem(reason, text, refused=False)


def _ports(spec: JSON) -> Iterator[ContainerPort]:
    """Those of containers, then those of sidecars: init containers that go on."""
    sidecars = [
        container for container in spec.get("initContainers") or () if container.get("restartPolicy") == "Always"
    ]
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
    addresses: dict[str, tuple[str, ...]] = {}
    for entry in entries:
        addresses[entry.name] = (*addresses.get(entry.name, ()), *entry.ips)
    return addresses, False


def selected_networks(pod: ClaimPod, home: str) -> frozenset[str] | None:
    """NAMESPACE/NAME of the networks that its annotations ask for; None where they cannot be read."""
    try:
        selections = parse(pod.networks, annotation=NETWORKS, default_namespace=pod.key[0])
        default = parse_default(pod.default_network, annotation=DEFAULT_NETWORK, default_namespace=home)
    except Denied:
        return None
    return frozenset(
        f"{selection.namespace}/{selection.name}" for selection in (*selections, *((default,) if default else ()))
    )
