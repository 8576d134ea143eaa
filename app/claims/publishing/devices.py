"""The devices of the claims of a Pod, with what says which interface is theirs. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from app.claims.model import DeviceKey
from app.claims.publishing.model import Inputs
from app.claims.slices import Attributes, Pools
from app.claims.stored import Claim, Result
from app.kube.store import Key
from app.wire import mapping

_PCI = re.compile(r"(?:[0-9a-f]{4,8}:)?[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]", re.ASCII)


@dataclass(frozen=True, slots=True, eq=False)
class Device:
    """A device that a claim of the Pod has.

    `device_id` is its attribute of that name, `ids` all texts by which a network status may name it. `resource` is the
    one of attachments that it serves, "" where nothing says that. `known` is whether a slice has it. `for_multus` is
    whether Multus finds it by its resource. `interface` is the name that its opaque configuration asks for, `ips` the
    addresses that the driver says it has. `network` is whether it is known to be a network device.
    """

    claim: Key
    key: DeviceKey
    admin: bool
    known: bool
    for_multus: bool
    resource: str
    device_id: str
    ids: frozenset[str]
    interface: str
    ips: tuple[str, ...]
    network: bool

    @property
    def pci_ids(self) -> frozenset[str]:
        return frozenset(text for text in self.ids if _PCI.fullmatch(text))


def identity(text: str) -> str:
    """An address in lower case, a PCI address with its domain."""
    text = text.strip().lower()
    return f"0000:{text}" if _PCI.fullmatch(text) and text.count(":") == 1 else text


def devices_of(inputs: Inputs, claims: tuple[Claim, ...]) -> tuple[Device, ...]:
    """In the order of their claims and keys, each once."""
    pools = Pools(inputs.slices)
    return tuple(device for claim in claims for device in _devices(inputs, claim, pools))


def _devices(inputs: Inputs, claim: Claim, pools: Pools) -> Iterator[Device]:
    results: dict[DeviceKey, Result] = {}
    for result in sorted(claim.results, key=lambda result: (result.device, result.admin_access, result.request)):
        # A device that is also there for monitoring is the claim's own all the same.
        results.setdefault(result.device, result)
    for key, result in results.items():
        listed = pools.find(key)
        attributes, node = listed if listed is not None else (Attributes(), "")
        resource = attributes.resource_name or (_mapped(inputs, result.request) if claim.extended else "")
        interface = _interface(claim, result)
        yield Device(
            claim=claim.key,
            key=key,
            admin=result.admin_access,
            known=listed is not None,
            for_multus=_for_multus(inputs, claim, attributes, node),
            resource=resource,
            device_id=attributes.device_id,
            ids=frozenset(identity(text) for text in (attributes.device_id, attributes.pci_bus_id) if text.strip()),
            interface=interface,
            ips=tuple(_driver_ips(claim, key)),
            network=bool(resource or interface) or key.driver in inputs.drivers,
        )


def _mapped(inputs: Inputs, request: str) -> str:
    return dict(inputs.pod.extended_requests).get(request, "")


def seen_by_multus(inputs: Inputs, claim: Claim) -> bool:
    """Multus reads the claims in the status of the Pod: those of templates and of extended resources."""
    return claim.pod == (inputs.pod.key[1], inputs.pod.uid)


def _for_multus(inputs: Inputs, claim: Claim, attributes: Attributes, node: str) -> bool:
    """It lists the slices of the Pod's node alone, and leaves out devices without these attributes (its draclient)."""
    on_node = not inputs.pod.node or node == inputs.pod.node
    return seen_by_multus(inputs, claim) and on_node and bool(attributes.device_id and attributes.resource_name)


def _interface(claim: Claim, result: Result) -> str:
    """The one name in its configuration: `ifName` of VfConfig and CNIConfig, `interface.name` of dranet; else ""."""
    names: list[object] = []
    for config in claim.configs:
        if config.concerns(result):
            names += [config.parameters.get("ifName"), mapping(config.parameters.get("interface")).get("name")]
    texts = {name for name in names if isinstance(name, str) and name}
    return texts.pop() if len(texts) == 1 else ""


def _driver_ips(claim: Claim, key: DeviceKey) -> Iterator[str]:
    """As dra-driver-sriov publishes the CNI result."""
    entry = claim.entries.get(key)
    ips = mapping(entry.data.get("cniResult")).get("ips") if entry is not None else None
    for ip in ips if isinstance(ips, list) else ():
        address = mapping(ip).get("address")
        if isinstance(address, str):
            yield address
