"""Structural OpenAPI v3 schemas of CRDs applied to objects: pruning, defaulting, strict field checking.

Validation is in `schemavalues`, the check of a schema itself in `schemacheck`. Pure functions that never change their
arguments. apiVersion, kind and metadata of an object (and of an embedded resource) are the API's own and always stay.
"""

from __future__ import annotations

from copy import deepcopy
from typing import Any

from app.wire import JSON

_TYPE_META = frozenset({"apiVersion", "kind", "metadata"})
_PRESERVE = "x-kubernetes-preserve-unknown-fields"
_EMBEDDED = "x-kubernetes-embedded-resource"


def prune(obj: JSON, schema: JSON) -> JSON:
    """`obj` without the fields that the schema does not name, where it does not preserve unknown fields."""
    pruned: JSON = _prune(obj, schema, "", [], resource=True)
    return pruned


def unknown_fields(obj: JSON, schema: JSON) -> list[str]:
    """The paths that `prune` would drop, sorted; what `fieldValidation: Strict` refuses."""
    unknown: list[str] = []
    _prune(obj, schema, "", unknown, resource=True)
    return sorted(unknown)


def _prune(value: Any, schema: JSON, path: str, unknown: list[str], *, resource: bool = False) -> Any:
    if isinstance(value, dict):
        return _prune_object(value, schema, path, unknown, resource=resource or bool(schema.get(_EMBEDDED)))
    items = schema.get("items")
    if isinstance(value, list) and isinstance(items, dict):
        return [_prune(element, items, f"{path}[{index}]", unknown) for index, element in enumerate(value)]
    return value


def _prune_object(value: JSON, schema: JSON, path: str, unknown: list[str], *, resource: bool) -> JSON:
    properties: JSON = schema.get("properties") or {}
    extra = schema.get("additionalProperties")
    pruned: JSON = {}
    for name, member in value.items():
        where = f"{path}.{name}" if path else name
        if resource and name in _TYPE_META:
            pruned[name] = member
        elif name in properties:
            pruned[name] = _prune(member, properties[name], where, unknown)
        elif isinstance(extra, dict):
            pruned[name] = _prune(member, extra, where, unknown)
        elif extra or schema.get(_PRESERVE):
            pruned[name] = member
        else:
            unknown.append(where)
    return pruned


def apply_defaults(obj: JSON, schema: JSON) -> JSON:
    """`obj` with the schema's defaults where a field is absent, or null and not nullable (such a null is dropped)."""
    defaulted: JSON = _default(obj, schema)
    return defaulted


def _default(value: Any, schema: JSON) -> Any:
    if not schema:
        return value
    if isinstance(value, list):
        items = schema.get("items") or {}
        return [_default(_or_default(element, items), items) for element in value]
    if not isinstance(value, dict):
        return value
    properties: JSON = schema.get("properties") or {}
    extra = schema.get("additionalProperties")
    defaulted: JSON = {}
    for name, member in value.items():
        inner = properties.get(name, extra if isinstance(extra, dict) else {})
        # A null that may not be one counts as absent, where the schema says anything of the field.
        if member is not None or inner.get("nullable") or not inner:
            defaulted[name] = _default(member, inner)
    for name, inner in properties.items():
        if name not in defaulted and "default" in inner:
            defaulted[name] = _default(deepcopy(inner["default"]), inner)
    return defaulted


def _or_default(value: Any, schema: JSON) -> Any:
    if value is None and "default" in schema and not schema.get("nullable"):
        return deepcopy(schema["default"])
    return value
