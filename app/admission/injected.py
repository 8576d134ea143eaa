"""The annotation that says what the webhook has put into an object, and by which version: `berth.dev/injected`.

Its value follows from the operations of a review. What it says of an earlier pass stays for as long as the object has
it, and a wing can have put it there (`Parts.injects`): injecting into an injected Pod changes nothing, and of a value
that a client has made up the rest is dropped. A client who has written what Berth injects, and this, is believed: the
annotation is for people. A user who may change a Pod may change it, so no policy may rest on it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from importlib.metadata import version

import msgspec

from app.admission.patch import Operation
from app.pace import step
from app.text import abridged
from app.wire import JSON, decode_json, encode_json, mapping, pointer

INJECTED_BY = "berth.dev/injected"
"""Annotation on an object that the webhook changed, by the webhook: what was injected, and the version of Berth, as
compact JSON. With `--injected-annotation`
"""
_MOST = 64
"""Names of one kind; no Pod has nearly as many, and a whole object may hold 256 KiB of annotations."""
_DIGITS = 9
_LISTS = {
    "volumes": "volumes",
    "volumeMounts": "volumes",
    "env": "env",
    "resourceClaims": "claims",
    "claims": "claims",
}
"""What elements of lists are, by the list; they have a name."""
_MAPS = {"limits": "resources", "requests": "resources", "nodeSelector": "nodeSelector"}
NETWORKS, _VERSION, _FIELDS = "networks", "version", "fields"
_Part = tuple[str, str, str]
"""Kind, name and value; "" for what has no value."""
Parts = dict[str, dict[str, str]]
"""Values by name, by kind."""


@cache
def _own_version() -> str:
    return version("berth")


def summary(annotations: Mapping[str, object]) -> str:
    """What an object says was injected, as `Berth 0.1.0: resources example.com/foo=1; volumes podnetinfo`; or ""."""
    try:
        said = decode_json(str(annotations.get(INJECTED_BY) or "").encode())
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return ""
    parts = _read_parts(said)
    if not parts:
        return ""
    kinds = (f"{kind} {', '.join(map(_shown, names.items()))}" for kind, names in parts.items())
    return abridged(f"Berth {mapping(said).get(_VERSION)}: {'; '.join(kinds)}")


def _shown(entry: tuple[str, str]) -> str:
    name, value = entry
    return f"{name}={value}" if value else name


def written(parts: Parts) -> str:
    shown = {kind: dict(list(names.items())[:_MOST]) for kind, names in sorted(parts.items()) if names}
    values = {kind: names if any(names.values()) else list(names) for kind, names in shown.items()}
    return encode_json({_VERSION: _own_version(), **values}).decode()


def read(text: str) -> Parts:
    """What a value says; nothing of one that is not of this form."""
    try:
        return _read_parts(decode_json(text.encode()))
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return {}


def _read_parts(said: object) -> Parts:
    parts: Parts = {}
    for kind, names in mapping(said).items():
        if isinstance(names, list):
            parts[kind] = {name: "" for name in names if isinstance(name, str)}
        elif isinstance(names, dict):
            parts[kind] = {name: value for name, value in names.items() if isinstance(value, str)}
    return parts


def parts_of(operations: Iterable[Operation]) -> Parts:
    parts: Parts = {}
    for operation in operations:
        path = _segments(operation.path)
        if operation.op == "remove":
            continue  # later, it would have to be believed that something was there
        for kind, name, value in _below(path, operation.value):
            parts.setdefault(kind, {})[name] = value
    return parts


def _below(path: tuple[str, ...], value: object) -> Iterator[_Part]:
    """What is at this path of an object, and below it. Index and "-" of a list are alike."""
    holder, last = path[-2] if len(path) > 1 else "", path[-1] if path else ""
    step()
    if holder in _LISTS and isinstance(value, dict):
        yield _LISTS[holder], str(value.get("name")), ""
    elif holder in _MAPS and not isinstance(value, dict | list):
        yield _MAPS[holder], last, str(value)
    elif holder == "annotations":
        if last != INJECTED_BY:
            yield holder, last, ""
    elif holder == "matchExpressions" and isinstance(value, dict):
        values = [str(text) for text in value.get("values") or ()]
        yield "placement", str(value.get("key")), ",".join(values)
    elif isinstance(value, dict):
        for name, member in value.items():
            yield from _below((*path, name), member)
    elif isinstance(value, list):
        for element in value:
            yield from _below((*path, "-"), element)
    else:
        yield _FIELDS, pointer(*path).partition("/-")[0], ""


def still_there(said: Parts, obj: JSON) -> Parts:
    """Of what is said, what the object has: an earlier pass may have put it there."""
    there = set(_below((), obj))
    kept: Parts = {}
    for kind, entries in said.items():
        if kind == NETWORKS:
            continue  # those of today are added to what is left
        for name, value in entries.items():
            if (kind, name, value) in there or (kind == _FIELDS and _has(obj, name)):
                kept.setdefault(kind, {})[name] = value
    return kept


def _has(obj: JSON, field: str) -> bool:
    """Whether there is something under a JSON Pointer."""
    value: object = obj
    for part in _segments(field):
        if isinstance(value, list) and part.isdecimal() and len(part) < _DIGITS and int(part) < len(value):
            value = value[int(part)]
        elif isinstance(value, dict) and part in value:
            value = value[part]
        else:
            return False
    return True


def _segments(path: str) -> tuple[str, ...]:
    return tuple(part.replace("~1", "/").replace("~0", "~") for part in path.split("/")[1:])


def merged(before: Parts, after: Parts) -> Parts:
    merged = {kind: dict(names) for kind, names in before.items()}
    for kind, names in after.items():
        merged[kind] = {**merged.get(kind, {}), **names}
    return merged
