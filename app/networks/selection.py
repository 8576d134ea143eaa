"""Parses the network annotations as Multus does, into selections whose names are safe to use. Pure.

JSON where the value contains one of `[ { "`, else a comma list of `[namespace/]name[@interface]`. Members of JSON are
decoded as encoding/json of Go decodes them into NetworkSelectionElement (multus-cni pkg/types, pkg/k8sclient), and
addresses as its package net, and interfaces have names that CNI and Linux take. Stricter than Multus where Multus would
fail later: null, empty and nameless elements are denied here, where the author sees it.
"""

from __future__ import annotations

import ipaddress
import json
import re
from collections.abc import Sequence
from functools import lru_cache
from typing import Any, NamedTuple, NoReturn

import msgspec

from app.errors import Denied
from app.kube.names import check_dns_label, check_dns_subdomain
from app.text import closest, cut, quoted

MAX_VALUE = 256 * 1024  # bytes, as the API server limits all annotations of an object together
MAX_SELECTIONS = 256  # far above what a Pod sandbox can hold; bounds the lookups that one Pod can cause
_CACHED_VALUE = 1024  # characters; with the size of the cache this bounds its memory
_INTERFACE_BYTES = 15  # IFNAMSIZ without the closing zero
_SPACE = "\t\n\v\f\r \x85\xa0\u1680" + "".join(map(chr, range(0x2000, 0x200B))) + "\u2028\u2029\u202f\u205f\u3000"
"""White space as Go has it, which is not that of Python."""
_NO_INTERFACE = (".", "..", "all", "default")
"""Names that Linux refuses: directories, and those that sysctl has beside the interfaces (net/core/dev.c)."""
_MAC = re.compile(r"[0-9A-Fa-f]{2}(?:([:-])[0-9A-Fa-f]{2}(?:\1[0-9A-Fa-f]{2})*)|[0-9A-Fa-f]{4}(?:\.[0-9A-Fa-f]{4})+")
_MAC_BYTES = (6, 8, 20)
_DIGITS = re.compile("[0-9A-Fa-f]*", re.ASCII)
_PREFIX = re.compile(r"0*([0-9]{1,3})", re.ASCII)
_MOST_INTEGER = 1 << 63


class Selection(msgspec.Struct, frozen=True):
    """One network that a Pod selects; its names are valid.

    `namespace` is "" where neither the element nor the caller's default names one. `ips` are the requested addresses,
    with or without a prefix, `device_id` is the requested device, `mac` the requested hardware address, and
    `default_route` the gateways, as the author wrote them.
    """

    namespace: str
    name: str
    interface: str = ""
    ips: tuple[str, ...] = ()
    device_id: str = ""
    mac: str = ""
    default_route: tuple[str, ...] = ()


class Selections(NamedTuple):
    """What a value selects, in order, duplicates kept, and a line for each part that Multus passes over."""

    selections: tuple[Selection, ...]
    ignored: tuple[str, ...] = ()


_TEXT, _WHOLE = "a string", "a whole number of 64 bits"


class _ListOf(NamedTuple):
    item: Any
    called: str


_PORT = {"hostPort": _WHOLE, "containerPort": _WHOLE, "protocol": _TEXT, "hostIP": _TEXT}
_ARGUMENTS: dict[str, Any] = {}
"""An object with members of any name and type."""
_ELEMENT = {
    **dict.fromkeys(("name", "namespace", "interface", "interfaceRequest"), _TEXT),
    **dict.fromkeys(("mac", "infiniband-guid", "deviceID"), _TEXT),
    "ips": _ListOf(_TEXT, "addresses"),
    "default-route": _ListOf(_TEXT, "addresses"),
    "portMappings": _ListOf(_PORT, "objects with hostPort and containerPort"),
    "bandwidth": dict.fromkeys(("ingressRate", "ingressBurst", "egressRate", "egressBurst"), _WHOLE),
    "cni-args": _ARGUMENTS,
}
"""The members of an element and their types, as Multus has them (pkg/types/types.go)."""
_READ_BY_OTHERS = ("ipam-claim-reference",)
"""Of the de-facto standard, read by network plugins and not by Multus."""
_MEANT = {"macrequest": "mac", "iprequest": "ips", "ifname": "interface", "gateway": "default-route"}
_FOLD = str.maketrans("\u017f\u212a", "sk")
_MOST_IGNORED = 50


class _Object(tuple[tuple[str, Any], ...]):
    """A JSON object with its members in order, those that are there twice too."""

    __slots__ = ()


class _Number(str):
    """A number of JSON as it is written."""

    __slots__ = ()


def read(value: str, *, annotation: str, default_namespace: str) -> Selections:
    """The selections in `value`, none for an empty one, and what of it has no effect.

    Raises Denied, which names the annotation, the element and what would be right.
    """
    if len(value) <= _CACHED_VALUE:
        return _read_cached(value, annotation, default_namespace)
    return _read(value, annotation, default_namespace)


def parse(value: str, *, annotation: str, default_namespace: str) -> tuple[Selection, ...]:
    """As `read`, the selections alone."""
    return read(value, annotation=annotation, default_namespace=default_namespace).selections


def parse_default(value: str, *, annotation: str, default_namespace: str) -> Selection | None:
    """The one selection of a default network; None for an empty value. Raises Denied for none and for several."""
    selections = parse(value, annotation=annotation, default_namespace=default_namespace)
    if not value:
        return None
    if len(selections) != 1:
        deny(annotation, f"has {len(selections)} elements; want exactly one default network")
    return selections[0]


def is_json(value: str) -> bool:
    """Whether Multus reads the value as JSON."""
    return "[" in value or "{" in value or '"' in value


def _read(value: str, annotation: str, default_namespace: str) -> Selections:
    if not value:
        return Selections(())
    if len(value) > MAX_VALUE or len(value.encode(errors="replace")) > MAX_VALUE:
        deny(annotation, f"is larger than {MAX_VALUE} bytes")
    as_json = is_json(value)
    texts = [] if as_json else [text.strip(_SPACE) for text in value.split(",")]
    elements: Sequence[Any] = _decode_list(value, annotation) if as_json else texts
    if len(elements) > MAX_SELECTIONS:
        deny(annotation, f"has {len(elements)} elements; want at most {MAX_SELECTIONS}")
    selected = _from_json if as_json else _from_text
    selections, ignored = [], list[str]()
    for index, element in enumerate(elements, start=1):
        where, notes = f"element {index} {_brief(element)}", list[str]()
        try:
            selections.append(selected(element, default_namespace, notes))
        except ValueError as error:
            deny(annotation, f"{where}: {error}")
        ignored += (f"annotation {annotation}: {where}: {note}" for note in notes)
    return Selections(tuple(selections), tuple(ignored[:_MOST_IGNORED]))


_read_cached = lru_cache(maxsize=512)(_read)


_as_strict_as_go = msgspec.json.Decoder(msgspec.Raw).decode
"""Numbers of any size are valid: Go does not look at those of members that it does not know."""


def _decode_list(value: str, annotation: str) -> list[_Object]:
    """The elements with all members, and with numbers as they are written. First read by what is as strict as Go."""
    try:
        _as_strict_as_go(value)
        elements: Any = json.loads(value, object_pairs_hook=_Object, parse_int=_Number, parse_float=_Number)
    except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
        deny(annotation, f'{quoted(value)} is not valid JSON ({error}); want [{{"name": "…"}}, …] or a comma list')
    if not isinstance(elements, list):
        deny(annotation, f'{quoted(value)} is JSON, but no list; want [{{"name": "…"}}, …]')
    for index, element in enumerate(elements, start=1):
        if not isinstance(element, _Object):
            deny(annotation, f'element {index} is {_brief(element)}; want an object such as {{"name": "…"}}')
    return list(elements)


def _from_text(text: str, default_namespace: str, notes: list[str]) -> Selection:
    want = "want [namespace/]name[@interface]"
    if not text:
        raise ValueError(f"it is empty; {want}")
    namespace, slash, rest = text.rpartition("/")
    name, at, interface = rest.partition("@")
    namespace, name, interface = namespace.strip(_SPACE), name.strip(_SPACE), interface.strip(_SPACE)
    if "/" in namespace:
        raise ValueError(f"it has more than one '/'; {want}")
    if "@" in interface:
        raise ValueError(f"it has more than one '@'; {want}")
    if slash and not namespace:
        notes.append(f"the namespace before '/' is empty, and that of the Pod is taken; {want}")
    if at and not interface:
        notes.append(f"the interface after '@' is empty, and Multus names it; {want}")
    if "." in name:
        raise ValueError('a name with dots is understood in the JSON form only; want [{"name": "…"}]')
    return _named(name, namespace or default_namespace, interface)


def _from_json(element: _Object, default_namespace: str, notes: list[str]) -> Selection:
    fields = _members(element, _ELEMENT, "", notes)
    for field in ("mac", "infiniband-guid"):
        if fields.get(field) and not _is_mac(fields[field]):
            raise ValueError(f"{field} {quoted(fields[field])} is not a hardware address; want 02:00:00:00:00:01")
        if fields.get(field) and _DIGITS.fullmatch(fields[field]):
            notes.append(f"a Multus built with Go before 1.26 refuses {field} without colons; want 02:00:00:00:00:01")
    for address in fields.get("ips") or ():
        if not _is_address(address):
            raise ValueError(f"{_brief(address)} in ips is neither an IP address nor a CIDR block; want 10.0.0.2/24")
    for address in fields.get("default-route") or ():
        if not _is_ip(address):
            raise ValueError(f"{_brief(address)} in default-route is no IP address; want 10.0.0.1, without a prefix")
    name, namespace = fields.get("name") or "", fields.get("namespace") or default_namespace
    interface = fields.get("interface") or fields.get("interfaceRequest") or ""
    named = _named(name, namespace, interface)
    if len(fields) == 1:
        return named
    ips, route = fields.get("ips") or (), fields.get("default-route") or ()
    device, mac = fields.get("deviceID") or "", fields.get("mac") or ""
    return Selection(namespace, name, interface, tuple(ips), device, mac, tuple(route))


def _members(obj: _Object, fields: dict[str, Any], path: str, notes: list[str]) -> dict[str, Any]:
    """The members by their names in `fields`, the last of several. Go matches names without regard to case."""
    names = {name.lower(): name for name in fields}
    members: dict[str, Any] = {}
    for key, value in obj:
        name = names.get(key.translate(_FOLD).lower())
        if name is None:
            if key not in _READ_BY_OTHERS and len(notes) < _MOST_IGNORED:
                meant = _MEANT.get(key.lower()) or closest(key, fields)
                notes.append(f"Multus does not read {path}{cut(key)}" + (f"; did you mean {meant}?" if meant else ""))
            continue
        here = f"{path}{name}"
        decoded = _decoded(value, fields[name], here, notes)
        if name in members:
            notes.append(f"{here} is there more than once: the last one counts")
        if decoded is None and name != "cni-args":  # which every Go program writes as null
            notes.append(f"{here} is null, as if it were not there")
        members[name] = members.get(name) if decoded is None and isinstance(fields[name], str) else decoded
    return members


def _decoded(value: Any, shape: Any, path: str, notes: list[str]) -> Any:
    """A value as Go decodes it into a field of this type; null goes into each. Raises ValueError."""
    if value is None or (shape is _ARGUMENTS and isinstance(value, _Object)):
        return value
    if isinstance(shape, _ListOf):
        if not isinstance(value, list):
            raise ValueError(f"{path} is {_brief(value)}; want a list of {shape.called}")  # noqa: TRY004  one kind of error
        if shape.item == _TEXT:
            wrong = next((item for item in value if not (item is None or _is_text(item))), None)
            if wrong is not None:
                raise ValueError(f"{_brief(wrong)} in {path}; want a list of {shape.called}, each a string")
            return value
        return [_decoded(item, shape.item, f"{path}[{index}]", notes) for index, item in enumerate(value)]
    if isinstance(shape, dict):
        if not isinstance(value, _Object):
            raise ValueError(f"{path} is {_brief(value)}; want an object")  # noqa: TRY004
        return _members(value, shape, f"{path}.", notes)
    if not (_is_text(value) if shape == _TEXT else _is_whole(value)):
        raise ValueError(f"{path} is {_brief(value)}; want {shape}")
    return value


def _named(name: str, namespace: str, interface: str) -> Selection:
    """Every name passes here before anything looks it up."""
    if not name:
        raise ValueError("it has no name; want the name of a NetworkAttachmentDefinition")
    try:
        check_dns_subdomain(name)
    except ValueError as error:
        if "/" in name:
            raise ValueError(f"{quoted(name)} is not a valid name: use namespace for what stands before '/'") from None
        if "@" in name:
            raise ValueError(f"{quoted(name)} is not a valid name: use interface for what stands after '@'") from None
        raise error from None
    if namespace:
        check_dns_label(namespace)
    if interface and (fault := _interface_fault(interface)):
        raise ValueError(f"interface {quoted(interface)} is not a valid interface name: {fault}")
    return Selection(namespace, name, interface)


def _interface_fault(interface: str) -> str:
    """What CNI (pkg/utils ValidateInterfaceName) and Linux (net/core/dev.c) refuse; "" for nothing."""
    text = interface.encode(errors="replace")
    # Linux takes the byte of the no-break space in Latin-1 for white space, within other characters too.
    if len(text) > _INTERFACE_BYTES or b"\xa0" in text or not set("/:%\0" + _SPACE).isdisjoint(interface):
        return "want at most 15 characters without '/', ':', '%' and white space"
    return "Linux keeps this name to itself; want another, such as net1" if interface in _NO_INTERFACE else ""


def _is_text(value: object) -> bool:
    return isinstance(value, str) and not isinstance(value, _Number)


def _is_whole(value: object) -> bool:
    return (
        isinstance(value, _Number)
        and len(value) <= 20
        and value.lstrip("-").isdigit()
        and (-_MOST_INTEGER <= int(value) < _MOST_INTEGER)
    )


def _is_address(address: str | None) -> bool:
    """As net.ParseCIDR where there is a '/', else as net.ParseIP."""
    text, slash, prefix = (address or "").partition("/")
    if not _is_ip(text):
        return False
    length = _PREFIX.fullmatch(prefix)
    return not slash or (length is not None and int(length[1]) <= (128 if ":" in text else 32))


def _is_ip(text: str | None) -> bool:
    """As net.ParseIP: an address without a zone."""
    try:
        return "%" not in (text or "") and bool(ipaddress.ip_address(text or ""))
    except ValueError:
        return False


def _is_mac(text: str) -> bool:
    digits = sum(character not in ":-." for character in text)
    written = _MAC.fullmatch(text) or (digits % 2 == 0 and _DIGITS.fullmatch(text))
    return bool(written) and digits // 2 in _MAC_BYTES


def _brief(value: object) -> str:
    if value is None:
        return "null"
    if isinstance(value, _Number):
        return f"the number {cut(value)}"
    if isinstance(value, str):
        return quoted(value)
    if isinstance(value, _Object):
        name = dict(value).get("name")
        return f"{{name: {quoted(name)}}}" if isinstance(name, str) else "{…}" if value else "{}"
    return "a list" if isinstance(value, list) else str(value).lower()


def deny(annotation: str, problem: str) -> NoReturn:
    """Raises Denied for a value of the annotation."""
    raise Denied(f"annotation {annotation}: {problem}", reason="BadNetworkAnnotation", code=400)
