"""What is kept of ResourceClaims, and of Pods that have claims: projections of checked objects of an API server. Pure.

Members of `status.devices` and opaque parameters are others' to write: odd ones are taken as absent.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from app.claims.model import EXTENDED_RESOURCE_CLAIM, FIELD_MANAGER, PUBLISHED, DeviceKey, device_key
from app.claims.network_status import status_in
from app.kube.conditions import status_of
from app.kube.resources import controller_of
from app.kube.store import Head, Identity, head_of, identity_of
from app.networks.model import DEFAULT_NETWORK, NETWORKS
from app.wire import JSON, decode_json

_PARAMETERS = {"ifName": "", "interface": "name", "netAttachDefName": "", "netAttachDefNamespace": ""}
"""Of VfConfig, CNIConfig and dranet's NetworkConfig."""
_DATA = {"cniResult": "ips"}
"""Of dra-driver-sriov."""
_OUR_CONDITION = f'k:{{"type":"{PUBLISHED}"}}'


class Result(NamedTuple):
    """A device that is allocated, and for which request. One with admin access is not for the claim alone."""

    device: DeviceKey
    request: str
    admin_access: bool


class Consumer(NamedTuple):
    """Who the claim is reserved for; `resource` is "pods" for a Pod."""

    resource: str
    name: str
    uid: str


class Config(NamedTuple):
    """Opaque parameters for a driver, as far as they are read; for all requests where `requests` is empty."""

    driver: str
    requests: tuple[str, ...]
    parameters: JSON

    def concerns(self, result: Result) -> bool:
        """Whether it is for this device. One for a request is for its alternatives, REQUEST/NAME, too."""
        request = result.request
        concerned = not self.requests or request in self.requests or request.partition("/")[0] in self.requests
        return concerned and self.driver == result.device.driver


@dataclass(frozen=True, slots=True)
class Entry:
    """An entry of `status.devices`. `managers` are the field managers that own any of its network data.

    `data` are what is read of the driver's data. `tellers` own any of our condition. `owned` is what our own manager
    has: "." for the entry, the members of its network data, and the type of our condition.
    """

    network_data: JSON | None
    conditions: tuple[JSON, ...]
    data: JSON
    managers: frozenset[str] = frozenset()
    tellers: frozenset[str] = frozenset()
    owned: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Claim(Head):
    """A ResourceClaim. `pod` is the (name, UID) of the Pod that it was made for, `node` the one of its devices.

    `node` is "" where the devices are not bound to one node.
    """

    version: str
    pod: tuple[str, str] | None
    extended: bool
    allocated: bool
    node: str
    results: tuple[Result, ...]
    consumers: tuple[Consumer, ...]
    configs: tuple[Config, ...]
    entries: Mapping[DeviceKey, Entry]


def stored_claim(obj: JSON) -> Claim:
    metadata, status = obj["metadata"], status_of(obj)
    allocation: JSON = status.get("allocation") or {}
    devices: JSON = allocation.get("devices") or {}
    owner = controller_of(metadata)
    return Claim(
        *head_of(obj),
        version=metadata.get("resourceVersion", ""),
        pod=(owner["name"], owner["uid"]) if owner.get("kind") == "Pod" else None,
        extended=(metadata.get("annotations") or {}).get(EXTENDED_RESOURCE_CLAIM) == "true",
        allocated=bool(allocation),
        node=_node_of(allocation),
        results=tuple(
            Result(device_key(result), result.get("request", ""), bool(result.get("adminAccess")))
            for result in devices.get("results") or ()
        ),
        consumers=tuple(
            Consumer(consumer.get("resource", ""), consumer.get("name", ""), consumer.get("uid", ""))
            for consumer in status.get("reservedFor") or ()
        ),
        configs=tuple(_configs(devices)),
        entries=_entries(status, metadata),
    )


class PodClaim(NamedTuple):
    """An element of `spec.resourceClaims`; `claim` is "" until the claim of a template is known."""

    name: str
    claim: str


@dataclass(frozen=True, slots=True)
class ClaimPod(Identity):
    """A Pod that has, or may get, devices by claims. `network_status` is the text of Multus, None where it has none.

    `extended_requests` are the requests of its extended-resource claim with the resource that each is for.
    `plugin_resources` are the extended resources that it asks for and that device plugins give, not that claim.
    """

    node: str
    host_network: bool
    over: bool
    networks: str
    default_network: str
    network_status: str | None
    claims: tuple[PodClaim, ...]
    extended_claim: str
    extended_requests: tuple[tuple[str, str], ...] = ()
    plugin_resources: frozenset[str] = frozenset()

    @property
    def claim_names(self) -> tuple[str, ...]:
        """The names of its ResourceClaims, as far as they are known."""
        names = (*(claim.claim for claim in self.claims), self.extended_claim)
        return tuple(dict.fromkeys(name for name in names if name))


def stored_pod(obj: JSON) -> ClaimPod | None:
    """None for a Pod that has no claim."""
    pod = claim_pod(obj)
    return pod if pod.claims or pod.extended_claim else None


def claim_pod(obj: JSON) -> ClaimPod:
    """Any Pod, also one that has no claim."""
    metadata, spec, status = obj["metadata"], obj.get("spec") or {}, status_of(obj)
    made = {
        entry.get("name"): entry.get("resourceClaimName") or "" for entry in status.get("resourceClaimStatuses") or ()
    }
    claims = tuple(
        PodClaim(claim["name"], claim.get("resourceClaimName") or made.get(claim["name"], ""))
        for claim in spec.get("resourceClaims") or ()
    )
    by_resource: JSON = status.get("extendedResourceClaimStatus") or {}
    extended = by_resource.get("resourceClaimName") or ""
    annotations: Mapping[str, str] = metadata.get("annotations") or {}
    requests = tuple(
        (request.get("requestName") or "", request.get("resourceName") or "")
        for request in by_resource.get("requestMappings") or ()
    )
    return ClaimPod(
        *identity_of(obj),
        node=spec.get("nodeName") or "",
        host_network=bool(spec.get("hostNetwork")),
        over=status.get("phase") in ("Succeeded", "Failed"),
        networks=annotations.get(NETWORKS, ""),
        default_network=annotations.get(DEFAULT_NETWORK, ""),
        network_status=status_in(annotations),
        claims=claims,
        extended_claim=extended,
        extended_requests=requests,
        plugin_resources=frozenset(_extended_resources(spec)) - {resource for _, resource in requests},
    )


def _node_of(allocation: JSON) -> str:
    """As the API server finds it: the selector has one term, and that names one node."""
    terms = (allocation.get("nodeSelector") or {}).get("nodeSelectorTerms") or []
    if len(terms) != 1 or terms[0].get("matchExpressions"):
        return ""
    fields = terms[0].get("matchFields") or []
    if len(fields) != 1 or (fields[0].get("key"), fields[0].get("operator")) != ("metadata.name", "In"):
        return ""
    values = fields[0].get("values") or []
    return str(values[0]) if len(values) == 1 else ""


def _configs(devices: JSON) -> Iterator[Config]:
    for config in devices.get("config") or ():
        opaque = config.get("opaque") or {}
        parameters = opaque.get("parameters")
        if isinstance(parameters, dict):
            yield Config(opaque.get("driver", ""), tuple(config.get("requests") or ()), _read(parameters, _PARAMETERS))


def _read(opaque: JSON, names: Mapping[str, str]) -> JSON:
    """Of an opaque object the members of these `names`, texts, or objects of which one member is kept.

    The others may be large, and nest as deeply as their author likes.
    """
    parameters: JSON = {}
    for name, inner in names.items():
        value = opaque.get(name)
        if inner and isinstance(value, dict) and inner in value:
            parameters[name] = {inner: value[inner]}
        elif not inner and isinstance(value, str):
            parameters[name] = value
    return parameters


class _Owners(NamedTuple):
    """By managedFields: managers of network data; those of our condition; what of the entry is ours, "." for itself."""

    managers: set[str]
    tellers: set[str]
    ours: set[str]


_NO_OWNERS = _Owners(set(), set(), set())


def _entries(status: JSON, metadata: JSON) -> dict[DeviceKey, Entry]:
    entries = status.get("devices") or ()
    owners = _owners_in(metadata) if entries else {}
    by_key = {}
    for entry in entries:
        key, data = device_key(entry), entry.get("data")
        owned = owners.get(key, _NO_OWNERS)
        by_key[key] = Entry(
            entry.get("networkData"),
            tuple(entry.get("conditions") or ()),
            _read(data, _DATA) if isinstance(data, dict) else {},
            frozenset(owned.managers),
            frozenset(owned.tellers),
            frozenset(owned.ours),
        )
    return by_key


def _owners_in(metadata: JSON) -> dict[DeviceKey, _Owners]:
    """Who owns network data, and our condition, by device."""
    by_key: dict[DeviceKey, _Owners] = {}
    for entry in metadata.get("managedFields") or ():
        fields: Any = entry.get("fieldsV1") or {}
        for name in ("f:status", "f:devices"):
            fields = fields.get(name) or {}
        manager = entry.get("manager", "")
        for key, below in fields.items():
            if key.startswith("k:"):
                device = device_key(decode_json(key[2:]))
                owners = by_key.setdefault(device, _Owners(set(), set(), set()))
                _add(owners, manager, below)
    return by_key


def _add(owners: _Owners, manager: str, fields: JSON) -> None:
    data = fields.get("f:networkData")
    published = _OUR_CONDITION in (fields.get("f:conditions") or ())
    if data is not None:
        owners.managers.add(manager)
    if published:
        owners.tellers.add(manager)
    if manager == FIELD_MANAGER:
        owners.ours.update(
            (".", *(name.removeprefix("f:") for name in data or ()), *((PUBLISHED,) if published else ()))
        )


def _extended_resources(spec: JSON) -> Iterator[str]:
    """Their limits are their requests, so either may stand alone."""
    for container in (*(spec.get("initContainers") or ()), *(spec.get("containers") or ())):
        resources = container.get("resources") or {}
        for amounts in (resources.get("requests"), resources.get("limits")):
            yield from (name for name in amounts or () if "/" in name)
