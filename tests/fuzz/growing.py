"""Objects of which one member, or several, is as large as it may be: lists, maps, texts and levels."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from typing import Any, NamedTuple

JSON = dict[str, Any]
Steps = tuple[str | int, ...]
_OWN_NAMES = frozenset(
    [
        "name",
        "key",
        "path",
        "mountPath",
        "devicePath",
        "device",
        "driver",
        "pool",
        "ip",
        "topologyKey",
        "conditionType",
        "resourceClaimTemplateName",
        "resourceClaimName",
        "sha256",
        "type",
        "manager",
        "uid",
        "request",
        "fieldPath",
        "containerPort",
        "workloadKey",
        "secretName",
    ]
)
"""Members that tell the items of a list apart."""
_MAPS = frozenset(
    [
        "labels",
        "annotations",
        "nodeSelector",
        "limits",
        "requests",
        "matchLabels",
        "data",
        "binaryData",
        "stringData",
        "parameters",
        "overhead",
        "rmdNodeSelector",
        "selector",
    ]
)
_LEVELS = 400
"""Fewer than a decoder refuses."""


class Growth(NamedTuple):
    """Which member grows, and how."""

    path: Steps
    how: str

    def __str__(self) -> str:
        where = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in self.path)
        return f"{where.removeprefix('.')} {self.how}"


ORDINARY = ("items", "text", "keys")
"""Ways in which users' objects grow: other items, a longer text, more keys."""


def growths(obj: JSON) -> Iterator[Growth]:
    """All of an object."""
    for path, value in _members(obj, ()):
        name = path[-1] if path else ""
        if isinstance(value, list):
            yield from (Growth(path, how) for how in ("items", "same items", "wrong items", "wrong types"))
        elif isinstance(value, dict) and name in _MAPS:
            yield from (Growth(path, how) for how in ("keys", "wrong keys"))
            yield from (Growth((*path, key), how) for key in value for how in ("keys before", "keys behind"))
        elif isinstance(value, dict):
            yield from (Growth(path, how) for how in ("levels", "unknown members"))
        elif isinstance(value, str):
            yield from (Growth(path, how) for how in ("text", "digits", "repeated", "parts", "brackets"))


def grown(obj: JSON, growth: Growth, size: int) -> JSON:
    """The object with some `size` bytes more; it shares with `obj` all that is the same in both."""
    found = copy.copy(obj)
    holder: Any = found
    for step in growth.path[:-1]:
        holder[step] = copy.copy(holder[step])
        holder = holder[step]
    last = growth.path[-1] if growth.path else ""
    value = found
    if growth.path:
        value = holder[last] = copy.copy(holder[last])
    match growth.how:
        case "items" | "same items" | "wrong items" | "wrong types":
            holder[last] = _items(value, growth.how, size)
        case "keys" | "wrong keys":
            key, text = next(iter(value.items()))
            text = "!" if growth.how == "wrong keys" else text
            key = f"{key}!" if growth.how == "wrong keys" else key
            value.update((f"{key}{index}", text) for index in range(_count([key, text], size)))
        case "keys before" | "keys behind":
            before = growth.how == "keys before"
            holder.update(
                (f"x{index}-{last}" if before else f"{last}{index}", value)
                for index in range(_count([last, value], size))
            )
        case "levels":
            levels = json.loads('{"a":' * _LEVELS + "1" + "}" * _LEVELS)
            value["deep"] = [levels] * max(1, size // (_LEVELS * 6))
        case "unknown members":
            value.update((f"unknown{index}", "x") for index in range(size // 16))
        case _:
            holder[last] = _text(value, growth.how, size)
    return found


def _members(value: Any, path: Steps) -> Iterator[tuple[Steps, Any]]:
    yield path, value
    inside = value.items() if isinstance(value, dict) else enumerate(value[:1]) if isinstance(value, list) else ()
    for key, member in inside:
        yield from _members(member, (*path, key))


def _items(items: list[Any], how: str, size: int) -> list[Any]:
    count = _count(items[0], size)
    match how:
        case "same items":
            return [*items, *[items[0]] * count]
        case "wrong types":
            return [*items, *([None, 1, [], {}, "x"] * (size // 12))]
    return [*items, *(_item(items[0], index, wrong=how == "wrong items") for index in range(count))]


def _text(text: str, how: str, size: int) -> str:
    return {
        "text": lambda: text + "x" * size,
        "digits": lambda: "9" * size,
        "repeated": lambda: text * (size // max(1, len(text)) + 1),
        "parts": lambda: ",".join(f"{text}{index}" for index in range(_count(text, size))),
        "brackets": lambda: "[" * size,
    }[how]()


def _item(item: Any, index: int, *, wrong: bool) -> Any:
    """A copy that has a name of its own; a `wrong` one has texts everywhere that nothing can be."""
    if isinstance(item, str):
        return f"{item}{index}!" if wrong else f"{item}{index}"
    if isinstance(item, list):
        return [_item(one, index, wrong=wrong) for one in item]
    if not isinstance(item, dict):
        return item
    made = {}
    for key, value in item.items():
        if isinstance(value, str):
            made[key] = f"{value}!{index}" if wrong else f"{value}{index}" if key in _OWN_NAMES else value
        else:
            made[key] = _item(value, index, wrong=wrong) if wrong or not isinstance(value, list) else value
    return made


def _count(item: Any, size: int) -> int:
    return max(1, size // (len(json.dumps(item, separators=(",", ":"))) + 6))
