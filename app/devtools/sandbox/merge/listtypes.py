"""Which lists and maps of a kind merge, and by which keys: the facts that both kinds of merging patch stand on.

Reads the tables of the built-in kinds and the schemas of CRDs. Two worlds meet here and differ in places:
server-side apply (`keys`, the API's list types) and strategic merge patch (`patch_key`). What the tables do not name
is a granular map or an atomic list, as in the API. No merging happens here.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import NamedTuple

from app.kinds.shapes import tables
from app.wire import JSON

Path = tuple[str, ...]
WILDCARD = "*"
"""Stands for any key of a map, where a map's values have rules of their own."""


class Rule(NamedTuple):
    """How the value at one path merges.

    `keys`: None for an atomic value, () for a set, else the fields that identify an element (server-side apply).
    `patch_key`: None where a strategic merge patch replaces, "" for a list of scalars, else the merge key.
    `defaults`: what an absent key field stands for.
    `whole_items`: elements are atomic themselves, as references by name are.
    """

    keys: tuple[str, ...] | None
    patch_key: str | None = None
    defaults: tuple[tuple[str, object], ...] = ()
    whole_items: bool = False


class Branch:
    """A tree over the paths, so that a merge walks rules and objects side by side without building paths."""

    __slots__ = ("children", "rule")

    def __init__(self) -> None:
        self.rule: Rule | None = None
        self.children: dict[str, Branch] = {}

    def child(self, name: str) -> Branch:
        return self.children.get(name) or self.children.get(WILDCARD) or NOTHING

    def grow(self, path: Path) -> Branch:
        branch = self
        for name in path:
            branch = branch.children.setdefault(name, Branch())
        return branch


NOTHING = Branch()


class MergeKeys(Mapping[Path, tuple[str, ...]]):
    """Schema path to the key fields of the list there: `("spec", "containers")` to `("name",)`; () marks a set.

    List elements add nothing to a path. Atomic values are not in the mapping; `tree` knows them too.
    """

    def __init__(self, rules: Mapping[Path, Rule]) -> None:
        self.tree = Branch()
        self._keys = {path: rule.keys for path, rule in rules.items() if rule.keys is not None}
        for path, rule in rules.items():
            self.tree.grow(path).rule = rule

    def __getitem__(self, path: Path) -> tuple[str, ...]:
        return self._keys[path]

    def __iter__(self) -> Iterator[Path]:
        return iter(self._keys)

    def __len__(self) -> int:
        return len(self._keys)


_DEFAULTS: dict[str, object] = {"protocol": "TCP"}
"""What an absent key field of a built-in kind stands for."""


@lru_cache(maxsize=256)
def merge_keys(kind: str) -> MergeKeys:
    """The merge rules of a built-in kind; metadata's alone for a kind that is not in the tables."""
    return MergeKeys(dict(_rules_below(kind, ())) or _metadata_rules())


def _metadata_rules() -> dict[Path, Rule]:
    return dict(_rules_below("ObjectMeta", ("metadata",)))


def _rules_below(name: str, path: Path) -> Iterator[tuple[Path, Rule]]:
    """The rules of the type with this name at `path`, and of the types in it."""
    merge = tables().merge.get(name, {})
    for field, shape in tables().types.get(name, {}).items():
        here = (*path, field)
        if field in merge:
            keys, patch_key, whole = merge[field]
            defaults = tuple((key, _DEFAULTS[key]) for key in keys or () if key in _DEFAULTS)
            yield here, Rule(keys, patch_key, defaults, whole)
        if isinstance(shape, dict):
            shape, here = shape["*"], (*here, WILDCARD)  # noqa: PLW2901  the values are what has a type
        yield from _rules_below(shape[0] if isinstance(shape, list) else shape, here)


def merge_keys_from_schema(schema: JSON) -> MergeKeys:
    """The merge rules that a CRD's openAPIV3Schema declares (x-kubernetes-list-type, -list-map-keys, -map-type)."""
    rules = _metadata_rules()
    _read_schema(schema, (), rules)
    return MergeKeys(rules)


def _read_schema(schema: JSON, path: Path, rules: dict[Path, Rule]) -> None:
    list_type = schema.get("x-kubernetes-list-type")
    items = schema.get("items") or {}
    if list_type == "set":
        rules[path] = Rule(())
    elif list_type == "map":
        keys = tuple(schema.get("x-kubernetes-list-map-keys") or ())
        fields = items.get("properties") or {}
        rules[path] = Rule(keys, None, tuple((k, fields[k]["default"]) for k in keys if "default" in fields.get(k, {})))
    elif schema.get("x-kubernetes-map-type") == "atomic":
        rules[path] = Rule(None)
    _read_children(schema, path, rules)
    if items:
        _read_children(items, path, rules)


def _read_children(schema: JSON, path: Path, rules: dict[Path, Rule]) -> None:
    for name, child in (schema.get("properties") or {}).items():
        if path or name != "metadata":
            _read_schema(child, (*path, name), rules)
    values = schema.get("additionalProperties")
    if isinstance(values, dict):
        _read_schema(values, (*path, WILDCARD), rules)
