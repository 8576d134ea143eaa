"""A Pod's annotations about networks as Multus reads them, without Berth's own reading of them. Pure.

Sources: pkg/k8sclient, pkg/types and pkg/multus of multus-cni 4.3; the packages encoding/json and net of Go 1.26; what
the CNI library (pkg/utils) and Linux (net/core/dev.c) refuse later.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from ipaddress import IPv6Address, ip_address
from typing import Any, NoReturn

from app.devtools.claims.ipam import Address
from app.devtools.sandbox.standins.sandboxes import NotAttached
from app.kube.names import check_dns_label, check_dns_subdomain
from app.networks.model import DEFAULT_NETWORK, NETWORKS
from app.wire import JSON

HOME = "kube-system"
"""Where default networks are that name no namespace."""
FIRST = "eth0"
"""The interface of a Pod's default network."""
_SPACE = "".join(filter(str.isspace, map(chr, range(0x10000)))).replace("\x1c\x1d\x1e\x1f", "")
"""White space in Go, to which the separators of ASCII do not belong."""
_LABEL = re.compile("[a-z0-9](?:[-a-z0-9]*[a-z0-9])?")
_TEXTS = ("name", "namespace", "mac", "infiniband-guid", "interface", "interfaceRequest", "deviceID")
_PORT = {"hostPort": int, "containerPort": int, "protocol": str, "hostIP": str}
_MEMBERS: Mapping[str, Any] = {
    **dict.fromkeys(_TEXTS, str),
    "ips": [str],
    "default-route": [str],
    "portMappings": [_PORT],
    "bandwidth": dict.fromkeys(("ingressRate", "ingressBurst", "egressRate", "egressBurst"), int),
    "cni-args": {},
}
"""Of an element, and their types: a list has the type of its items, a mapping those of its members."""
_OBJECT: type[tuple[Any, ...]] = tuple
"""Objects are read as pairs: Go looks at each of several members of one name."""


@dataclass(frozen=True, slots=True)
class Element:
    """A network that a Pod selects. `interface` is its name in the Pod, `gateways` are those of its default routes."""

    namespace: str
    name: str
    interface: str = ""
    ips: tuple[str, ...] = ()
    mac: str = ""
    device_id: str = ""
    gateways: tuple[Address, ...] = ()

    @property
    def key(self) -> tuple[str, str]:
        return self.namespace, self.name


def selected(pod: JSON) -> tuple[Element | None, list[Element]]:
    """The default network, None for that of the cluster, and the others in their order.

    Raises NotAttached for what Multus does not read, and for what it, CNI or Linux then refuses for its text alone.
    """
    metadata = pod["metadata"]
    annotations: Mapping[str, str] = metadata.get("annotations") or {}
    default = None
    if DEFAULT_NETWORK in annotations:
        chosen = _elements(annotations[DEFAULT_NETWORK], HOME) or []
        if len(chosen) != 1:
            _refuse(f"{DEFAULT_NETWORK} names {len(chosen)} networks")
        default = replace(chosen[0], interface=chosen[0].interface or FIRST)
    text = annotations.get(NETWORKS, "")
    elements = _elements(text, metadata["namespace"]) if text else None
    others = [
        replace(element, interface=element.interface or f"net{number}")
        for number, element in enumerate(elements or (), start=1)
    ]
    every = [*filter(None, [default]), *others]
    for element in every:
        _check(element)
    names = ["lo", *([] if default else [FIRST]), *(element.interface for element in every)]
    if len(set(names)) < len(names):
        _refuse("two interfaces have one name")
    gateways = [gateway for element in every for gateway in element.gateways]
    if elements is not None and len({_is_ipv4(gateway) for gateway in gateways}) < len(gateways):
        _refuse("there are several default routes of one kind")
    return default, others


def _elements(text: str, namespace: str) -> list[Element] | None:
    """None is the JSON null."""
    if not text:
        _refuse("an annotation about networks is empty")
    if not {"[", "{", '"'} & set(text):
        return [_by_text(item.strip(_SPACE), namespace) for item in text.split(",")]
    try:
        decoded = json.loads(text, object_pairs_hook=_OBJECT, parse_int=_number, parse_constant=_refuse)
    except (ValueError, RecursionError) as error:
        raise NotAttached(f"no JSON: {error}") from None
    if not (decoded is None or isinstance(decoded, list)):
        _refuse("the JSON is no list")
    return None if decoded is None else [_by_json(item, namespace) for item in decoded]


def _number(text: str) -> float:
    """A whole number of 64 bits, or one that goes into no member."""
    return int(text) if len(text) <= 20 and -(2**63) <= int(text) < 2**63 else float("inf")


def _by_text(text: str, namespace: str) -> Element:
    """`[namespace/]name[@interface]`."""
    *before, rest = text.split("/")
    name, *after = (part.strip(_SPACE) for part in rest.split("@"))
    home = before[0].strip(_SPACE) if before else ""
    if len(before) > 1 or len(after) > 1 or not all(_LABEL.fullmatch(part) for part in (home, name) if part):
        _refuse(f"{text!r} is no network")
    return Element(home or namespace, name, "".join(after))


def _by_json(item: object, namespace: str) -> Element:
    if item is None:
        _refuse("an element is null")
    members = _decoded(item, _MEMBERS)
    name, home, mac, guid, interface, older, device = (members.get(member) or "" for member in _TEXTS)
    if not all(_is_hardware_address(text) for text in (mac, guid) if text):
        _refuse("no hardware address")
    ips = tuple(text or "" for text in members.get("ips") or ())
    for text in ips:
        address, slash, prefix = text.partition("/")
        bits = 128 if isinstance(_address(address), IPv6Address) else 32
        if slash and not (
            prefix.isascii() and prefix.isdecimal() and len(prefix.lstrip("0")) < 4 and int(prefix) <= bits
        ):
            _refuse(f"{text!r} has no prefix")
    gateways = tuple(_address(text or "") for text in members.get("default-route") or ())
    return Element(home or namespace, name, interface or older, ips, mac, device, gateways)


def _decoded(value: Any, kind: Any) -> Any:
    """A value in a member of this type. Names are the same in either case, and the last of several counts."""
    if value is None:
        return None
    wanted = list if isinstance(kind, list) else _OBJECT if isinstance(kind, Mapping) else kind
    if not isinstance(value, wanted) or isinstance(value, bool):
        _refuse(f"{value!r} is of another type")
    if isinstance(kind, list):
        return [_decoded(item, kind[0]) for item in value]
    if not isinstance(kind, Mapping):
        return value
    names = {_folded(name): name for name in kind}
    members: JSON = {}
    for key, content in value:
        if name := names.get(_folded(key)):
            decoded = _decoded(content, kind[name])
            if decoded is not None or kind[name] is not str:  # null leaves a text as it was
                members[name] = decoded
    return members


def _folded(name: str) -> str:
    """A character of which several come stands for itself, as in Go."""
    return "".join(folded if len(folded := character.casefold()) == 1 else character for character in name)


def _address(text: str) -> Address:
    try:
        return ip_address(text if "%" not in text else "")
    except ValueError:
        raise NotAttached(f"{text!r} is no address") from None


def _is_ipv4(address: Address) -> bool:
    return address.version == 4 or address.ipv4_mapped is not None


def _is_hardware_address(text: str) -> bool:
    digits = re.sub("[:.-]", "", text)
    pairs, fours = (re.findall(f"[0-9A-Fa-f]{{{size}}}", digits) for size in (2, 4))
    whole = len(pairs) in (6, 8, 20) and "".join(pairs) == digits
    return whole and text in (digits, ":".join(pairs), "-".join(pairs), ".".join(fours))


def _check(element: Element) -> None:
    """Raises NotAttached for what is read and refused later."""
    try:
        check_dns_label(element.namespace)
        check_dns_subdomain(element.name)
    except ValueError as error:
        raise NotAttached(f"there is no attachment {'/'.join(element.key)}: {error}") from None
    name = element.interface
    size, odd = len(name.encode(errors="replace")), set(name) & {"/", ":", "%", "\0", *_SPACE}
    if size > 15 or odd or b"\xa0" in name.encode(errors="replace") or name in (".", "..", "all", "default"):
        _refuse(f"no interface has the name {name!r}")
    mac = bytes.fromhex(re.sub("[:.-]", "", element.mac))
    if len(mac) == 6 and (mac[0] & 1 or not any(mac)):
        _refuse(f"no interface has the address {element.mac}")


def _refuse(problem: str) -> NoReturn:
    raise NotAttached(problem)
