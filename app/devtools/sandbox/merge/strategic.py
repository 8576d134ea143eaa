"""Patches that carry part of an object: strategic merge patch for built-in kinds, JSON merge patch (RFC 7386) for all.

Pure functions; neither argument is changed. The merge rules come from `listtypes`, whose `merge_keys` functions are
served from here too. Order of list elements follows the API server's, which puts new elements first.
"""

from __future__ import annotations

from typing import Any

from app.devtools.sandbox.merge.listtypes import Branch, MergeKeys, merge_keys, merge_keys_from_schema
from app.errors import BerthError
from app.wire import JSON

__all__ = ["BadPatch", "MergeKeys", "json_merge", "merge_keys", "merge_keys_from_schema", "strategic_merge"]

_DIRECTIVE = "$patch"
_RETAIN = "$retainKeys"
_DELETE_PRIMITIVES = "$deleteFromPrimitiveList/"
_ORDER = "$setElementOrder/"


class BadPatch(BerthError):
    """The patch cannot be applied as it is written; the API server answers 500 with this message."""


def json_merge(original: Any, patch: Any) -> Any:
    """RFC 7386: null removes, objects merge, everything else replaces."""
    if not isinstance(patch, dict):
        return patch
    merged = dict(original) if isinstance(original, dict) else {}
    for name, value in patch.items():
        if value is None:
            merged.pop(name, None)
        else:
            merged[name] = json_merge(merged.get(name), value)
    return merged


def strategic_merge(original: JSON, patch: JSON, kind: str) -> JSON:
    """`original` of the built-in `kind` after the patch; raises `BadPatch` for a patch that makes no sense."""
    return _merge_map(original, patch, merge_keys(kind).tree)


def _merge_map(original: JSON, patch: JSON, branch: Branch) -> JSON:
    match patch.get(_DIRECTIVE):
        case "replace":
            return {name: value for name, value in patch.items() if name != _DIRECTIVE}
        case "delete":
            return {}
        case None:
            return _merge_fields(original, patch, branch)
        case directive:
            raise BadPatch(f"unknown patch type: {directive} in map: {_printed(patch)}")


def _merge_fields(original: JSON, patch: JSON, branch: Branch) -> JSON:
    merged = dict(original)
    if _RETAIN in patch:
        retained = set(patch[_RETAIN])
        merged = {name: value for name, value in merged.items() if name in retained}
    for name, value in patch.items():
        if name in (_DIRECTIVE, _RETAIN):
            continue
        if name.startswith(_DELETE_PRIMITIVES):
            field = name.removeprefix(_DELETE_PRIMITIVES)
            if isinstance(merged.get(field), list):
                merged[field] = [element for element in merged[field] if element not in value]
        elif name.startswith(_ORDER):
            field = name.removeprefix(_ORDER)
            if field not in patch and isinstance(merged.get(field), list):
                merged[field] = _order(merged[field], [], value, merged[field], _patch_key(branch.child(field)))
        elif value is None:
            merged.pop(name, None)
        elif name not in original:
            merged |= _without_directives({name: value})
        else:
            order = patch.get(_ORDER + name)
            merged[name] = _merge_value(merged.get(name), value, branch.child(name), order)
    return merged


def _is_directed(value: Any) -> bool:
    return isinstance(value, dict) and _DIRECTIVE in value


def _without_directives(value: Any) -> Any:
    """The value of a field that the original does not have: nulls and what has a directive are left out."""
    if isinstance(value, list):
        return [_without_directives(element) for element in value if not _is_directed(element)]
    if not isinstance(value, dict):
        return value
    return {
        name: _without_directives(member)
        for name, member in value.items()
        if member is not None
        and not _is_directed(member)
        and not name.startswith((_RETAIN, _DELETE_PRIMITIVES, _ORDER))
    }


def _patch_key(branch: Branch) -> str | None:
    return branch.rule.patch_key if branch.rule is not None else None


def _merge_value(original: Any, patch: Any, branch: Branch, order: list[Any] | None) -> Any:
    if isinstance(patch, dict):
        return _merge_map(original if isinstance(original, dict) else {}, patch, branch)
    if not isinstance(patch, list):
        return patch
    key = _patch_key(branch)
    if key is None:
        return patch
    live = original if isinstance(original, list) else []
    if key == "":
        both = live + [element for element in patch if element not in live]
        return _order(both, patch, order, live, key)
    return _merge_keyed(live, patch, branch, key, order)


def _merge_keyed(live: list[Any], patch: list[Any], branch: Branch, key: str, order: list[Any] | None) -> list[Any]:
    """A list of maps whose elements are known by the field `key`.

    An element with a directive is not merged. With `replace` in one, the elements without a directive are the new list.
    """
    deleted: list[Any] = []
    elements: list[JSON] = []
    for element in patch:
        if not isinstance(element, dict):
            raise BadPatch(f"expected a map in the list, got {element!r}")
        directive = element.get(_DIRECTIVE)
        if directive == "replace":
            continue
        if directive not in (None, "delete"):
            unknown = f"unknown patch type: {directive} in map: {_printed(element)}"
            raise BadPatch("merging lists cannot yet be specified in the patch" if directive == "merge" else unknown)
        if key not in element:
            raise BadPatch(f"map: {_printed(element)} does not contain declared merge key: {key}")
        if directive == "delete":
            deleted.append(element[key])
        else:
            elements.append(element)
    if any(element.get(_DIRECTIVE) == "replace" for element in patch):
        return elements
    merged = [element for element in live if _identity(element, key) not in deleted]
    for element in elements:
        at = next((i for i, old in enumerate(merged) if _identity(old, key) == element[key]), None)
        if at is None:
            merged.append({name: value for name, value in element.items() if name != _RETAIN})
        else:
            merged[at] = _merge_map(merged[at], element, branch)
    return _order(merged, elements, order, live, key)


def _printed(element: JSON) -> str:
    """A map as Go prints it."""
    return f"map[{' '.join(f'{name}:{element[name]}' for name in sorted(element))}]"


def _identity(element: Any, key: str) -> Any:
    return element.get(key) if key and isinstance(element, dict) else element


def _order(merged: list[Any], patch: list[Any], order: list[Any] | None, live: list[Any], key: str | None) -> list[Any]:
    """Patched elements in the patch's order, the server's own in theirs, interleaved as the live list had them."""
    key = key or ""
    wanted = [_identity(element, key) for element in (patch if order is None else order)]
    server = [_identity(element, key) for element in live]
    mine = [element for element in merged if _identity(element, key) in wanted]
    mine.sort(key=lambda element: wanted.index(_identity(element, key)))
    others = [element for element in merged if _identity(element, key) not in wanted]
    result: list[Any] = []
    for element in mine:
        place = _index(server, _identity(element, key))
        while others and 0 <= _index(server, _identity(others[0], key)) < place:
            result.append(others.pop(0))
        result.append(element)
    return result + others


def _index(elements: list[Any], element: Any) -> int:
    return elements.index(element) if element in elements else -1
