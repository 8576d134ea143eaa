"""What an API server made of an object: the fields that differ, and which of them its admission changed. Pure.

The elements of a list go by what names them, for a webhook may put one before them.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from app.wire import JSON

_IDENTITIES = ("name", "mountPath", "devicePath", "containerPort", "ip", "uid", "topologyKey", "key")
"""Fields that name an element of a list, where all elements have one and no two have the same."""


class Absent:
    """The value of a field that is not there."""

    def __repr__(self) -> str:
        return "absent"


ABSENT = Absent()


@dataclass(frozen=True, slots=True)
class Element:
    """One of a list. `identity` is what names it, else the whole of it in JSON."""

    identity: str
    value: Any = field(compare=False)


Path = tuple[str | Element, ...]


@dataclass(frozen=True, slots=True)
class Change:
    """A field or an element with its values, of which one may be `ABSENT`."""

    path: Path
    before: Any
    after: Any

    @property
    def field(self) -> str:
        """The path as people write it: `spec.containers[web].resources.limits[example.com/foo]`."""
        return text_of(self.path)


def text_of(path: Path) -> str:
    """The path as people write it. An element without a name is `[+]`."""
    text = ""
    for step in path:
        if isinstance(step, Element):
            text += f"[{'+' if step.identity[:1] in '{[' else step.identity}]"
        else:
            text += f".{step}" if step.isalnum() else f"[{step}]"
    return text.removeprefix(".")


def differences(before: Any, after: Any, path: Path = ()) -> Iterator[Change]:
    """The fields that differ, in the order of `after`. An element that is in one list alone is a change as a whole."""
    if isinstance(after, dict) and after and (before is ABSENT or isinstance(before, dict)):
        old: JSON = before if isinstance(before, dict) else {}
        for name in [*after, *(name for name in old if name not in after)]:
            yield from differences(old.get(name, ABSENT), after.get(name, ABSENT), (*path, name))
    elif _has_elements(before, after):
        old_elements, new_elements = _elements(before, after)
        for element in [*new_elements, *(element for element in old_elements if element not in new_elements)]:
            values = old_elements.get(element, ABSENT), new_elements.get(element, ABSENT)
            if ABSENT in values:
                yield Change((*path, element), *values)
            else:
                yield from differences(*values, (*path, element))
    elif before is ABSENT or (after is ABSENT and before) or before != after is not ABSENT:
        yield Change(path, before, after)  # the API server keeps no empty field


def value_at(obj: Any, path: Path) -> Any:
    """The value at the path, `ABSENT` where there is none."""
    value = obj
    for step in path:
        if isinstance(step, str):
            value = value.get(step, ABSENT) if isinstance(value, dict) else ABSENT
        else:
            value = _element_like(value, step) if isinstance(value, list) else ABSENT
    return value


def includes(whole: Any, part: Any) -> bool:
    """Whether a value has all that another one has, and perhaps more fields: what defaults add."""
    if isinstance(part, dict):
        return isinstance(whole, dict) and all(includes(whole.get(name, ABSENT), part[name]) for name in part)
    if isinstance(part, list):
        return isinstance(whole, list) and len(whole) == len(part) and all(map(includes, whole, part))
    return bool(whole == part)


def decoded(managed: Sequence[JSON], path: Path) -> bool | None:
    """Whether the API server had the field before admission began; None where `managed` does not tell.

    The managers of a new object own what was sent and what the API server filled in when it decoded that: they are
    noted before admission, and what admission adds has no owner. Lists that have one owner as a whole are not told
    apart by their elements.
    """
    nodes = [entry.get("fieldsV1") or {} for entry in managed]
    for step in path:
        below = [node for node in (_owned(node, step) for node in nodes) if node is not None]
        if not below:
            # A leaf is an empty object: one value as a whole, or one that was empty.
            return False if any(nodes) else None
        nodes = below
    return True


def _owned(node: JSON, step: str | Element) -> JSON | None:
    """The set of fields below a step; None where nothing of it is owned."""
    if isinstance(step, str):
        return node.get(f"f:{step}")
    for name, below in node.items():
        if name.startswith("k:") and includes(step.value, json.loads(name[2:])):
            return below  # type: ignore[no-any-return]
        if name.startswith("v:") and json.loads(name[2:]) == step.value:
            return below  # type: ignore[no-any-return]
    return None


def _has_elements(before: Any, after: Any) -> bool:
    """Whether both are lists of objects; one of them may be absent, but not both empty."""
    lists = [value for value in (before, after) if value is not ABSENT]
    listed = [value for value in lists if isinstance(value, list) and all(isinstance(item, dict) for item in value)]
    return len(listed) == len(lists) and any(listed)


def _elements(before: Any, after: Any) -> tuple[dict[Element, JSON], dict[Element, JSON]]:
    lists: list[list[JSON]] = [[] if value is ABSENT else value for value in (before, after)]
    key = next((key for key in _IDENTITIES if all(_names_all(items, key) for items in lists)), "")
    old, new = ({_element(item, key): item for item in items} for items in lists)
    return old, new


def _names_all(items: list[JSON], key: str) -> bool:
    values = [str(item[key]) for item in items if key in item]
    return len(set(values)) == len(items)


def _element(item: JSON, key: str) -> Element:
    return Element(str(item[key]) if key else json.dumps(item, sort_keys=True), item)


def _element_like(items: list[Any], element: Element) -> Any:
    for item in items:
        if not isinstance(item, dict):
            continue
        if element.identity in (json.dumps(item, sort_keys=True), *(str(item.get(key)) for key in _IDENTITIES)):
            return item
    return ABSENT
