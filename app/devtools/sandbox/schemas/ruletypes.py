"""What a CEL rule sees of a value: the types that a structural schema declares, and the values themselves. Pure.

Fields that a schema does not name, but preserves, are invisible to rules; so is an embedded resource's metadata beyond
its names.
"""

from __future__ import annotations

from typing import Any

from app.cel.calls import duration
from app.cel.syntax import escaped
from app.cel.types import BOOL, DOUBLE, DURATION, DYN, INT, STRING, Type, list_of, map_of, opaque
from app.wire import JSON

_SCALARS = {"boolean": BOOL, "integer": INT, "number": DOUBLE, "string": STRING}
_OPAQUE_FORMATS = frozenset({"date", "date-time", "datetime", "byte"})
_NAMES = Type("object", (), {"name": STRING, "generateName": STRING})
_META: dict[str, Type] = {"apiVersion": STRING, "kind": STRING, "metadata": _NAMES}


def declared_type(schema: JSON, *, root: bool = False) -> Type:
    """The type of the schema's values in CEL; `root` says that it is a whole object's."""
    if schema.get("x-kubernetes-int-or-string"):
        return DYN
    kind = schema.get("type")
    if kind == "array":
        return list_of(declared_type(schema.get("items") or {}))
    if kind == "object":
        return _object(schema, resource=root or bool(schema.get("x-kubernetes-embedded-resource")))
    if kind == "string" and schema.get("format") == "duration":
        return DURATION
    if kind == "string" and schema.get("format") in _OPAQUE_FORMATS:
        return opaque(f"values of the format {schema['format']}")
    return _SCALARS.get(str(kind)) or opaque("values without a declared type")


def _object(schema: JSON, *, resource: bool) -> Type:
    extra = schema.get("additionalProperties")
    if isinstance(extra, dict):
        return map_of(STRING, declared_type(extra))
    fields: dict[str, Type] = {}
    for name, inner in (schema.get("properties") or {}).items():
        written = escaped(name)
        if written is not None and not (resource and name in _META):
            fields[written] = declared_type(inner)
    return Type("object", (), {**fields, **_META} if resource else fields)


def seen_value(value: Any, schema: JSON, *, root: bool = False) -> Any:
    """The value as rules compute with it: numbers are doubles where the schema says so, whatever JSON wrote."""
    kind = schema.get("type")
    if kind == "number" and isinstance(value, int):
        return float(value)
    if kind == "integer" and isinstance(value, float):
        return int(value)
    if kind == "string" and schema.get("format") == "duration":
        return duration(value)
    if isinstance(value, list):
        items = schema.get("items") or {}
        return [seen_value(element, items) for element in value]
    if not isinstance(value, dict):
        return value
    properties: JSON = schema.get("properties") or {}
    extra = schema.get("additionalProperties")
    resource = root or bool(schema.get("x-kubernetes-embedded-resource"))
    seen: JSON = {}
    for name, member in value.items():
        inner = properties.get(name, extra if isinstance(extra, dict) else None)
        if member is None:
            continue  # a null counts as absent
        if resource and name in _META:
            seen[name] = member
        elif inner is not None:
            seen[name] = seen_value(member, inner)
    return seen
