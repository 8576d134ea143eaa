"""Parses the network annotations as Multus does, into selections whose names are safe to use. Pure.

JSON where the value contains one of `[ { "`, else a comma list of `[namespace/]name[@interface]`. Stricter than
Multus where Multus would fail later: null, empty and nameless elements are denied here, where the author sees it.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable
from functools import lru_cache
from typing import Any, NoReturn

import msgspec

from app.errors import Denied
from app.kube.names import check_dns_label, check_dns_subdomain
from app.text import quoted
from app.wire import JSON, decode_json

MAX_VALUE = 256 * 1024  # bytes, as the API server limits all annotations of an object together
MAX_SELECTIONS = 256  # far above what a Pod sandbox can hold; bounds the lookups that one Pod can cause
_CACHED_VALUE = 1024  # characters; with the size of the cache this bounds its memory
_INTERFACE_BYTES = 15  # IFNAMSIZ without the closing zero
_TEXT_FIELDS = ("name", "namespace", "interface", "interfaceRequest", "mac", "infiniband-guid", "deviceID")
_FIELDS = {field.casefold(): field for field in (*_TEXT_FIELDS, "ips")}
_MAC = re.compile(r"[0-9A-Fa-f]{2}(?:([:-])[0-9A-Fa-f]{2}(?:\1[0-9A-Fa-f]{2})*)|[0-9A-Fa-f]{4}(?:\.[0-9A-Fa-f]{4})+")
_MAC_BYTES = (6, 8, 20)
_WHITESPACE = frozenset(" \t\n\v\f\r/")


class Selection(msgspec.Struct, frozen=True):
    """One network that a Pod selects; its names are valid.

    `namespace` is "" where neither the element nor the caller's default names one. `ips` are the requested addresses,
    with or without a prefix, and `device_id` is the requested device, as the author wrote them.
    """

    namespace: str
    name: str
    interface: str = ""
    ips: tuple[str, ...] = ()
    device_id: str = ""


def parse(value: str, *, annotation: str, default_namespace: str) -> tuple[Selection, ...]:
    """The selections in `value`, in order, duplicates kept; () for an empty value.

    Raises Denied, which names the annotation, the element and what would be right.
    """
    if len(value) <= _CACHED_VALUE:
        return _parse_cached(value, annotation, default_namespace)
    return _parse(value, annotation, default_namespace)


def parse_default(value: str, *, annotation: str, default_namespace: str) -> Selection | None:
    """The one selection of a default network; None for an empty value. Raises Denied for none and for several."""
    selections = parse(value, annotation=annotation, default_namespace=default_namespace)
    if not value:
        return None
    if len(selections) != 1:
        _deny(annotation, f"has {len(selections)} elements; want exactly one default network")
    return selections[0]


def is_json(value: str) -> bool:
    """Whether Multus reads the value as JSON."""
    return "[" in value or "{" in value or '"' in value


def _parse(value: str, annotation: str, default_namespace: str) -> tuple[Selection, ...]:
    if not value:
        return ()
    if len(value) > MAX_VALUE or len(value.encode(errors="replace")) > MAX_VALUE:
        _deny(annotation, f"is larger than {MAX_VALUE} bytes")
    elements: list[Any] = _decode_list(value, annotation) if is_json(value) else value.split(",")
    if len(elements) > MAX_SELECTIONS:
        _deny(annotation, f"has {len(elements)} elements; want at most {MAX_SELECTIONS}")
    read: Callable[[Any, str, str, str], Selection] = _from_json if is_json(value) else _from_text
    return tuple(
        read(element, f"element {index}", annotation, default_namespace)
        for index, element in enumerate(elements, start=1)
    )


_parse_cached = lru_cache(maxsize=512)(_parse)


def _decode_list(value: str, annotation: str) -> list[JSON]:
    try:
        decoded = decode_json(value)
    except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
        _deny(annotation, f'{quoted(value)} is not valid JSON ({error}); want [{{"name": "…"}}, …] or a comma list')
    if not isinstance(decoded, list):
        _deny(annotation, f'{quoted(value)} is JSON, but no list; want [{{"name": "…"}}, …]')
    for index, element in enumerate(decoded, start=1):
        if not isinstance(element, dict):
            _deny(annotation, f'element {index} is {_brief(element)}; want an object such as {{"name": "…"}}')
    return decoded


def _from_text(text: str, where: str, annotation: str, default_namespace: str) -> Selection:
    want = "want [namespace/]name[@interface]"
    text = text.strip()
    where = f"{where} {quoted(text)}"
    if not text:
        _deny(annotation, f"{where} is empty; {want}")
    namespace, slash, rest = text.rpartition("/")
    name, at, interface = rest.partition("@")
    namespace, name, interface = namespace.strip(), name.strip(), interface.strip()
    if "/" in namespace:
        _deny(annotation, f"{where} has more than one '/'; {want}")
    if "@" in interface:
        _deny(annotation, f"{where} has more than one '@'; {want}")
    if slash and not namespace:
        _deny(annotation, f"{where} has an empty namespace before '/'; {want}")
    if at and not interface:
        _deny(annotation, f"{where} has an empty interface after '@'; {want}")
    if "." in name:
        _deny(annotation, f'{where}: a name with dots is understood in the JSON form only; want [{{"name": "…"}}]')
    return _checked(namespace, name, interface, where, annotation, default_namespace)


def _from_json(element: JSON, where: str, annotation: str, default_namespace: str) -> Selection:
    # Go, in which Multus is written, matches keys without regard to case.
    fields = {_FIELDS.get(key.casefold()): value for key, value in element.items()}
    where = f"{where} {_brief(element)}"
    for field in _TEXT_FIELDS:
        value = fields.get(field)
        if value is not None and not isinstance(value, str):
            _deny(annotation, f"{where}: {field} is {_brief(value)}; want a string")
    for field in ("mac", "infiniband-guid"):
        if fields.get(field) and not _is_mac(fields[field]):
            _deny(
                annotation,
                f"{where}: {field} {quoted(fields[field])} is not a hardware address; want 02:00:00:00:00:01",
            )
    ips = fields.get("ips")
    if ips is not None and not isinstance(ips, list):
        _deny(annotation, f"{where}: ips is {_brief(ips)}; want a list of addresses")
    for address in ips or ():
        if not _is_address(address):
            _deny(annotation, f"{where}: {_brief(address)} in ips is neither an IP address nor a CIDR block")
    interface = fields.get("interface") or fields.get("interfaceRequest") or ""
    namespace, name = fields.get("namespace") or "", fields.get("name") or ""
    found = _checked(namespace, name, interface, where, annotation, default_namespace)
    device_id = fields.get("deviceID") or ""
    if not ips and not device_id:
        return found
    return Selection(found.namespace, found.name, interface, tuple(ips or ()), device_id)


def _checked(
    namespace: str, name: str, interface: str, where: str, annotation: str, default_namespace: str
) -> Selection:
    """Every name passes here before anything looks it up."""
    if not name:
        _deny(annotation, f"{where} has no name; want the name of a NetworkAttachmentDefinition")
    effective = namespace or default_namespace
    try:
        check_dns_subdomain(name)
        if effective:
            check_dns_label(effective)
    except ValueError as error:
        _deny(annotation, f"{where}: {error}")
    if len(interface.encode(errors="replace")) > _INTERFACE_BYTES or not _WHITESPACE.isdisjoint(interface):
        _deny(
            annotation,
            f"{where}: interface {quoted(interface)} is not a valid interface name; want at most 15 characters without "
            "'/' and white space",
        )
    return Selection(effective, name, interface)


def _is_address(address: object) -> bool:
    if not isinstance(address, str):
        return False
    try:
        ipaddress.ip_interface(address)
    except ValueError:
        return False
    return True


def _is_mac(text: str) -> bool:
    digits = sum(character not in ":-." for character in text)
    return _MAC.fullmatch(text) is not None and digits // 2 in _MAC_BYTES


def _brief(value: object) -> str:
    if value is None:
        return "null"
    if isinstance(value, str):
        return quoted(value)
    if isinstance(value, dict):
        name = value.get("name")
        return f"{{name: {quoted(name)}}}" if isinstance(name, str) else "{…}" if value else "{}"
    return "a list" if isinstance(value, list) else "a number or a truth value"


def _deny(annotation: str, problem: str) -> NoReturn:
    raise Denied(f"annotation {annotation}: {problem}", reason="BadNetworkAnnotation", code=400)
