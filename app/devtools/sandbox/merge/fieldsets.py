"""Sets of object fields in the FieldsV1 encoding of managedFields, and the arithmetic on them.

A set is a nested dictionary: `f:name` descends into a field, `k:{…}` into a list element by its keys, `v:…` names an
element of a set, and "." says that the node itself is a member; an empty dictionary is a member without members
below. Pure functions; they share subtrees and never change their arguments.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from app.devtools.sandbox.merge.listtypes import Branch, Rule
from app.wire import decode_json, encode_json

Fields = dict[str, Any]
"""One node of a field set."""

LEAF: Fields = {}


def is_member(node: Fields) -> bool:
    return not node or "." in node


def union(left: Fields | None, right: Fields | None) -> Fields:
    """Members of either; None is the empty set."""
    if left is None or right is None:
        return (left if left is not None else right) or {}
    if not left or not right:
        return {".": {}, **left, **right} if left or right else LEAF
    merged = dict(left)
    for name, node in right.items():
        merged[name] = union(merged[name], node) if name in merged else node
    return merged


def difference(left: Fields | None, right: Fields | None) -> Fields | None:
    """Members of `left` that are not members of `right`; None where nothing is left."""
    if left is None or right is None:
        return left
    kept: Fields = {}
    for name, node in left.items():
        if name != ".":
            rest = difference(node, right.get(name))
            if rest is not None:
                kept[name] = rest
    return _finish(kept, member=is_member(left) and not is_member(right))


def intersection(left: Fields | None, right: Fields | None) -> Fields | None:
    """Members of both; None where there are none."""
    if left is None or right is None:
        return None
    kept: Fields = {}
    for name, node in left.items():
        if name != "." and name in right:
            shared = intersection(node, right[name])
            if shared is not None:
                kept[name] = shared
    return _finish(kept, member=is_member(left) and is_member(right))


def _finish(kept: Fields, *, member: bool) -> Fields | None:
    if kept:
        return {".": {}, **kept} if member else kept
    return LEAF if member else None


def members(node: Fields | None, prefix: str = "") -> Iterator[str]:
    """The members as the paths that the API server prints: `.spec.containers[name="app"].image`."""
    if node is None:
        return
    if prefix and is_member(node):
        yield prefix
    for name, child in node.items():
        if name != ".":
            yield from members(child, prefix + _printed(name))


def _printed(name: str) -> str:
    if name.startswith("f:"):
        return f".{name[2:]}"
    if name.startswith("v:"):
        return f"[={name[2:]}]"
    keys = ",".join(f"{key}={encode_json(value).decode()}" for key, value in decode_json(name[2:]).items())
    return f"[{keys}]"


def element_key(element: Any, rule: Rule) -> str:
    """The FieldsV1 name of a list element: `v:"x"` in a set, `k:{"name":"x"}` where keys identify it."""
    if not rule.keys:
        return "v:" + encode_json(element).decode()
    defaults = dict(rule.defaults)
    keys = {key: element.get(key, defaults.get(key)) for key in sorted(rule.keys)} if isinstance(element, dict) else {}
    return "k:" + encode_json({key: value for key, value in keys.items() if value is not None}).decode()


def field_set(value: Any, branch: Branch, *, containers: bool) -> Fields:
    """Every field that `value` sets. List elements are always members.

    `containers` makes the maps and lists on the way members as well: so it is for what an ordinary write added, while
    server-side apply owns leaves and elements alone.
    """
    rule = branch.rule
    fields: Fields = {".": {}} if containers else {}
    if isinstance(value, dict) and value and not _is_atomic(rule):
        for name, child in value.items():
            if containers or not _is_hollow(child, branch.child(name)):
                fields[f"f:{name}"] = field_set(child, branch.child(name), containers=containers)
        return fields
    if isinstance(value, list) and value and rule is not None and rule.keys is not None:
        for element in value:
            node = LEAF if rule.whole_items else field_set(element, branch, containers=containers)
            fields[element_key(element, rule)] = {".": {}, **node} if node else LEAF
        return fields
    return LEAF


def _is_hollow(value: Any, branch: Branch) -> bool:
    """Whether a field that is applied sets nothing: an empty list that merges, or an object of such lists alone."""
    if isinstance(value, list):
        return not value and branch.rule is not None and branch.rule.keys is not None
    if not isinstance(value, dict) or not value or _is_atomic(branch.rule):
        return False
    return all(_is_hollow(child, branch.child(name)) for name, child in value.items())


def _is_atomic(rule: Rule | None) -> bool:
    return rule is not None and rule.keys is None


def compare(old: Any, new: Any, branch: Branch) -> tuple[Fields | None, Fields | None]:
    """What differs: (added or changed, removed), each None where there is nothing."""
    if old == new and isinstance(old, bool) == isinstance(new, bool):
        return None, None
    rule = branch.rule
    old, new = _opened(old, new, rule), _opened(new, old, rule)
    if isinstance(old, dict) and isinstance(new, dict) and not _is_atomic(rule):
        before = {f"f:{name}": (child, branch.child(name)) for name, child in old.items()}
        after = {f"f:{name}": (child, branch.child(name)) for name, child in new.items()}
        return _compare_members(before, after, whole=False)
    if isinstance(old, list) and isinstance(new, list) and rule is not None and rule.keys is not None:
        before = {element_key(element, rule): (element, branch) for element in old}
        after = {element_key(element, rule): (element, branch) for element in new}
        return _compare_members(before, after, whole=rule.whole_items)
    return LEAF if isinstance(old, type(new)) else field_set(new, branch, containers=True), None


def _opened(value: Any, other: Any, rule: Rule | None) -> Any:
    """The value; for null an empty list or map where the other one is such, and merges."""
    merges = rule is not None and rule.keys is not None if isinstance(other, list) else not _is_atomic(rule)
    return type(other)() if value is None and isinstance(other, dict | list) and merges else value


_Members = dict[str, tuple[Any, Branch]]


def _compare_members(before: _Members, after: _Members, *, whole: bool) -> tuple[Fields | None, Fields | None]:
    changed: Fields = {}
    removed: Fields = {}
    for name, (value, branch) in after.items():
        if name not in before:
            changed[name] = LEAF if whole else field_set(value, branch, containers=True)
        elif whole:
            if value != before[name][0]:
                changed[name] = LEAF
        else:
            inner_changed, inner_removed = compare(before[name][0], value, branch)
            if inner_changed is not None:
                changed[name] = inner_changed
            if inner_removed is not None:
                removed[name] = inner_removed
    for name, (value, branch) in before.items():
        if name not in after:
            removed[name] = LEAF if whole else field_set(value, branch, containers=True)
    return changed or None, removed or None


def duplicates(value: Any, branch: Branch, path: str = "") -> Iterator[tuple[str, str]]:
    """Elements whose keys an earlier one has: the path of the list and the keys, as the API server prints them."""
    rule = branch.rule
    if isinstance(value, dict) and not _is_atomic(rule):
        for name, child in value.items():
            yield from duplicates(child, branch.child(name), f"{path}.{name}")
    elif isinstance(value, list) and rule is not None and rule.keys:
        seen: set[str] = set()
        for element in value:
            key = _printed(element_key(element, rule))
            if key in seen:
                yield path, key
            seen.add(key)
            if isinstance(element, dict) and not rule.whole_items:
                for name, child in element.items():
                    yield from duplicates(child, branch.child(name), f"{path}{key}.{name}")


def keyed_path(path: str, value: Any, branch: Branch) -> str:
    """`spec.list[0].name`, a path in `value`, with the keys of elements in place of indices where they have keys."""
    shown = ""
    for name, index in re.findall(r"([^.\[\]]+)|\[(\d+)\]", path):
        if name:
            shown += f".{name}"
            value, branch = (value.get(name) if isinstance(value, dict) else None), branch.child(name)
        elif isinstance(value, list) and int(index) < len(value):
            value = value[int(index)]
            shown += _printed(element_key(value, branch.rule)) if branch.rule and branch.rule.keys else f"[{index}]"
    return shown


def index_elements(elements: list[Any], rule: Rule) -> dict[str, Any]:
    """List elements by their FieldsV1 name; of two with the same keys the first one counts."""
    indexed: dict[str, Any] = {}
    for element in elements:
        indexed.setdefault(element_key(element, rule), element)
    return indexed
