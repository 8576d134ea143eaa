"""What the wing keeps of ResourceClaims, Pods and ResourceSlices. Pure projections of checked objects of an API server.

Members of `managedFields`, `status.devices` and annotations are others' to write: odd ones are taken as absent.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import msgspec

from app.claims.model import (
    DEVICE_ID,
    EXTENDED_RESOURCE_CLAIM,
    FIELD_MANAGER,
    PCI_BUS_ID,
    PUBLISHED,
    RESOURCE_NAME,
    DeviceKey,
)
from app.claims.network_status import status_in
from app.kube.owners import controller_of
from app.kube.store import Key, key_of
from app.networks.model import DEFAULT_NETWORK, NETWORKS
from app.wire import JSON, decode_json


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
        asked = not self.requests or request in self.requests or request.partition("/")[0] in self.requests
        return asked and self.driver == result.device.driver


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
class Claim:
    """A ResourceClaim. `pod` is the (name, UID) of the Pod that it was made for, `node` the one of its devices.

    `node` is "" where the devices are not bound to one node.
    """

    key: Key
    uid: str
    version: str
    deleting: bool
    pod: tuple[str, str] | None
    extended: bool
    allocated: bool
    node: str
    results: tuple[Result, ...]
    consumers: tuple[Consumer, ...]
    configs: tuple[Config, ...]
    entries: Mapping[DeviceKey, Entry]


def stored_claim(obj: JSON) -> Claim:
    metadata, status = obj["metadata"], obj.get("status") or {}
    allocation: JSON = status.get("allocation") or {}
    devices: JSON = allocation.get("devices") or {}
    owner = controller_of(metadata)
    return Claim(
        key=key_of(obj),
        uid=metadata.get("uid", ""),
        version=metadata.get("resourceVersion", ""),
        deleting="deletionTimestamp" in metadata,
        pod=(owner["name"], owner["uid"]) if owner.get("kind") == "Pod" else None,
        extended=(metadata.get("annotations") or {}).get(EXTENDED_RESOURCE_CLAIM) == "true",
        allocated=bool(allocation),
        node=_node_of(allocation),
        results=tuple(
            Result(device_key(one), one.get("request", ""), bool(one.get("adminAccess")))
            for one in devices.get("results") or ()
        ),
        consumers=tuple(
            Consumer(one.get("resource", ""), one.get("name", ""), one.get("uid", ""))
            for one in status.get("reservedFor") or ()
        ),
        configs=tuple(_configs(devices)),
        entries=_entries(status, metadata),
    )


def device_key(obj: JSON) -> DeviceKey:
    """The key of an allocation result, of an entry of `status.devices`, or of its key in managedFields."""
    return DeviceKey(obj.get("driver", ""), obj.get("pool", ""), obj.get("device", ""), obj.get("shareID") or "")


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
    for one in devices.get("config") or ():
        opaque = one.get("opaque") or {}
        parameters = opaque.get("parameters")
        if isinstance(parameters, dict):
            yield Config(opaque.get("driver", ""), tuple(one.get("requests") or ()), _read(parameters, _PARAMETERS))


def _read(opaque: JSON, names: Mapping[str, str]) -> JSON:
    """Of an opaque object the members of these `names`, texts, or objects of which one member is kept.

    The others may be large, and nest as deeply as their author likes.
    """
    found: JSON = {}
    for name, inner in names.items():
        value = opaque.get(name)
        if inner and isinstance(value, dict) and inner in value:
            found[name] = {inner: value[inner]}
        elif not inner and isinstance(value, str):
            found[name] = value
    return found


_PARAMETERS = {"ifName": "", "interface": "name", "netAttachDefName": "", "netAttachDefNamespace": ""}
"""Of VfConfig, CNIConfig and dranet's NetworkConfig."""
_DATA = {"cniResult": "ips"}
"""Of dra-driver-sriov."""


def _entries(status: JSON, metadata: JSON) -> dict[DeviceKey, Entry]:
    entries = status.get("devices") or ()
    owners = _owners(metadata) if entries else {}
    found = {}
    for one in entries:
        key, data = device_key(one), one.get("data")
        owned = owners.get(key, _NO_OWNERS)
        found[key] = Entry(
            one.get("networkData"),
            tuple(one.get("conditions") or ()),
            _read(data, _DATA) if isinstance(data, dict) else {},
            frozenset(owned.managers),
            frozenset(owned.tellers),
            frozenset(owned.ours),
        )
    return found


class _Owners(NamedTuple):
    managers: set[str]
    tellers: set[str]
    ours: set[str]


_NO_OWNERS = _Owners(set(), set(), set())
_OUR_CONDITION = f'k:{{"type":"{PUBLISHED}"}}'


def _owners(metadata: JSON) -> dict[DeviceKey, _Owners]:
    """Who owns network data, and our condition, by device."""
    found: dict[DeviceKey, _Owners] = {}
    for one in metadata.get("managedFields") or ():
        fields: Any = one.get("fieldsV1") or {}
        for name in ("f:status", "f:devices"):
            fields = fields.get(name) or {}
        manager = one.get("manager", "")
        for key, below in fields.items():
            if key.startswith("k:"):
                device = device_key(decode_json(key[2:]))
                owners = found.setdefault(device, _Owners(set(), set(), set()))
                _add(owners, manager, below)
    return found


def _add(owners: _Owners, manager: str, fields: JSON) -> None:
    data = fields.get("f:networkData")
    told = _OUR_CONDITION in (fields.get("f:conditions") or ())
    if data is not None:
        owners.managers.add(manager)
    if told:
        owners.tellers.add(manager)
    if manager == FIELD_MANAGER:
        owners.ours.update((".", *(name.removeprefix("f:") for name in data or ()), *((PUBLISHED,) if told else ())))


class PodClaim(NamedTuple):
    """An element of `spec.resourceClaims`; `claim` is "" until the claim of a template is known."""

    name: str
    claim: str


@dataclass(frozen=True, slots=True)
class ClaimPod:
    """A Pod that has, or may get, devices by claims. `network_status` is the text of Multus, None where it has none.

    `extended_requests` are the requests of its extended-resource claim with the resource that each is for.
    `plugin_resources` are the extended resources that it asks for and that device plugins give, not that claim.
    """

    key: Key
    uid: str
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
        found = (*(one.claim for one in self.claims), self.extended_claim)
        return tuple(dict.fromkeys(name for name in found if name))


def stored_pod(obj: JSON) -> ClaimPod | None:
    """None for a Pod that has no claim."""
    pod = claim_pod(obj)
    return pod if pod.claims or pod.extended_claim else None


def claim_pod(obj: JSON) -> ClaimPod:
    """Any Pod, also one that has no claim."""
    metadata, spec, status = obj["metadata"], obj.get("spec") or {}, obj.get("status") or {}
    made = {one.get("name"): one.get("resourceClaimName") or "" for one in status.get("resourceClaimStatuses") or ()}
    claims = tuple(
        PodClaim(one["name"], one.get("resourceClaimName") or made.get(one["name"], ""))
        for one in spec.get("resourceClaims") or ()
    )
    by_resource: JSON = status.get("extendedResourceClaimStatus") or {}
    extended = by_resource.get("resourceClaimName") or ""
    annotations: Mapping[str, str] = metadata.get("annotations") or {}
    requests = tuple(
        (one.get("requestName") or "", one.get("resourceName") or "")
        for one in by_resource.get("requestMappings") or ()
    )
    return ClaimPod(
        key=key_of(obj),
        uid=metadata.get("uid", ""),
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


def _extended_resources(spec: JSON) -> Iterator[str]:
    """Their limits are their requests, so either may stand alone."""
    for container in (*(spec.get("initContainers") or ()), *(spec.get("containers") or ())):
        resources = container.get("resources") or {}
        for amounts in (resources.get("requests"), resources.get("limits")):
            yield from (name for name in amounts or () if "/" in name)


class Attributes(msgspec.Struct, frozen=True):
    """The attributes of a device that say which it is; "" for one that it does not have as a string."""

    device_id: str = ""
    resource_name: str = ""
    pci_bus_id: str = ""


@dataclass(frozen=True, slots=True)
class Slice:
    """A ResourceSlice; its pool has `slices` of them in this generation. `node` is "" for devices of no single node."""

    name: str
    driver: str
    pool: str
    generation: int
    slices: int
    node: str
    devices: Mapping[str, Attributes]


def stored_slice(obj: JSON) -> Slice:
    spec = obj["spec"]
    pool = spec["pool"]
    return Slice(
        name=obj["metadata"]["name"],
        driver=spec["driver"],
        pool=pool["name"],
        generation=pool.get("generation", 0),
        slices=pool.get("resourceSliceCount", 0),
        node=spec.get("nodeName") or "",
        devices={one["name"]: _attributes(one.get("attributes") or {}) for one in spec.get("devices") or ()},
    )


def _attributes(attributes: JSON) -> Attributes:
    texts = ((attributes.get(name) or {}).get("string") or "" for name in (DEVICE_ID, RESOURCE_NAME, PCI_BUS_ID))
    return Attributes(*texts)
