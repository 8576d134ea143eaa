"""Whether a CRD's schema is structural: the rules an apiextensions.k8s.io/v1 CRD must meet before it is served.

Pure; looks at the schema alone. Paths are relative to openAPIV3Schema, the caller puts its own in front.
"""

from __future__ import annotations

from typing import Any

from app.cel.libraries import BadPattern, compiled_pattern
from app.devtools.sandbox.schemas.schemavalues import validate
from app.kinds.fielderrors import FieldError, child
from app.wire import JSON

_INT_OR_STRING = "x-kubernetes-int-or-string"
_PRESERVE = "x-kubernetes-preserve-unknown-fields"
_EMBEDDED = "x-kubernetes-embedded-resource"
_TYPES = ("array", "boolean", "integer", "number", "object", "string")
_FORBIDDEN = (
    "$ref",
    "definitions",
    "dependencies",
    "patternProperties",
    "additionalItems",
    "id",
    "deprecated",
    "discriminator",
)
# What a schema inside allOf, anyOf, oneOf or not must leave to the schema around it.
_STRUCTURE = ("type", "title", "description", "default", "additionalProperties", "nullable", _PRESERVE, _EMBEDDED)

_ABSENCES = {
    "default": "undefined",
    "additionalProperties": "undefined",
    "nullable": "false",
    _PRESERVE: "undefined",
    _EMBEDDED: "false",
}


def check_structural(schema: JSON) -> list[FieldError]:
    """All reasons why the API server would refuse or not serve the schema."""
    errors = _check(schema, "", "must not be empty at the root")
    if schema.get("type") not in (None, "", "object"):
        errors.append(FieldError("type", "Invalid", "must be object at the root", schema.get("type")))
    return errors


def _check(schema: Any, path: str, when_untyped: str) -> list[FieldError]:
    if not isinstance(schema, dict):
        return [FieldError(path, "TypeInvalid", "must be an object", schema)]
    errors = _check_type(schema, path, when_untyped)
    errors += _check_node(schema, path)
    for name, inner in (schema.get("properties") or {}).items():
        errors += _check(inner, f"{child(path, 'properties')}[{name}]", "must not be empty for specified object fields")
    extra, items = schema.get("additionalProperties"), schema.get("items")
    if isinstance(extra, dict):
        errors += _check(extra, child(path, "additionalProperties"), "must not be empty for specified object fields")
    if isinstance(items, dict):
        errors += _check(items, child(path, "items"), "must not be empty for specified array items")
    elif isinstance(items, list):
        text = "items must be a schema object and not an array"
        errors.append(FieldError(child(path, "items"), "Forbidden", text))
    for where, part in _parts(schema, path):
        errors += _check_part(part, where)
    return errors


def _check_type(schema: JSON, path: str, when_untyped: str) -> list[FieldError]:
    kind = schema.get("type")
    where = child(path, "type")
    if schema.get(_INT_OR_STRING):
        if kind:
            return [FieldError(where, "Invalid", "must be empty if x-kubernetes-int-or-string is true", kind)]
        return []
    if not kind:
        return [] if schema.get(_PRESERVE) and path else [FieldError(where, "Required", when_untyped)]
    if kind not in _TYPES:
        supported = ", ".join(f'"{name}"' for name in _TYPES)
        return [FieldError(where, "NotSupported", f"supported values: {supported}", kind)]
    if kind == "array" and not schema.get("items"):
        return [FieldError(child(path, "items"), "Required", "must be specified")]
    if schema.get(_EMBEDDED) and kind != "object":
        return [FieldError(where, "Invalid", "must be object if x-kubernetes-embedded-resource is true", kind)]
    return []


def _check_node(schema: JSON, path: str) -> list[FieldError]:
    errors = [
        FieldError(child(path, name), "Forbidden", f"{name} is not supported") for name in _FORBIDDEN if name in schema
    ]
    if schema.get("uniqueItems"):
        text = "uniqueItems cannot be set to true since the runtime complexity becomes quadratic"
        errors.append(FieldError(child(path, "uniqueItems"), "Forbidden", text))
    if "additionalProperties" in schema and schema.get("properties"):
        text = "additionalProperties and properties are mutual exclusive"
        errors.append(FieldError(child(path, "additionalProperties"), "Forbidden", text))
    if schema.get("additionalProperties") is False:
        text = "additionalProperties cannot be set to false"
        errors.append(FieldError(child(path, "additionalProperties"), "Forbidden", text))
    if schema.get(_EMBEDDED) and not schema.get("properties") and not schema.get(_PRESERVE):
        text = (
            "must not be empty if x-kubernetes-embedded-resource is true without x-kubernetes-preserve-unknown-fields"
        )
        errors.append(FieldError(child(path, "properties"), "Required", text))
    if schema.get(_PRESERVE) is False:
        text = "must be true or undefined"
        errors.append(FieldError(child(path, _PRESERVE), "Invalid", text, False))
    errors += _check_pattern(schema, path)
    errors += _check_list_type(schema, path)
    if "default" in schema:
        faults = validate({"default": schema["default"]}, {"properties": {"default": schema}})
        errors += [FieldError(child(path, fault.field), fault.type, fault.detail, fault.bad_value) for fault in faults]
    return errors


def _check_pattern(schema: JSON, path: str) -> list[FieldError]:
    pattern = schema.get("pattern")
    if not pattern:
        return []
    try:
        compiled_pattern(pattern)
    except BadPattern as error:
        text = f"must be a valid regular expression, but isn't: {error}"
        return [FieldError(child(path, "pattern"), "Invalid", text, pattern)]
    return []


def _check_list_type(schema: JSON, path: str) -> list[FieldError]:
    list_type = schema.get("x-kubernetes-list-type")
    keys = schema.get("x-kubernetes-list-map-keys") or []
    where = child(path, "x-kubernetes-list-map-keys")
    items = schema.get("items") or {}
    if list_type is not None and schema.get("type") != "array":
        text = "must be array if x-kubernetes-list-type is specified"
        return [FieldError(child(path, "type"), "Invalid", text, schema.get("type", ""))]
    if list_type not in (None, "atomic", "set", "map"):
        text = 'supported values: "atomic", "map", "set"'
        return [FieldError(child(path, "x-kubernetes-list-type"), "NotSupported", text, list_type)]
    if list_type != "map":
        return [] if not keys else [FieldError(child(path, "x-kubernetes-list-type"), "Required",
                                               "must be map if x-kubernetes-list-map-keys is non-empty")]  # fmt: skip
    if not keys:
        return [FieldError(where, "Required", "must not be empty if x-kubernetes-list-type is map")]
    fields = items.get("properties") or {} if isinstance(items, dict) else {}
    required = items.get("required") or [] if isinstance(items, dict) else []
    errors: list[FieldError] = []
    for index, key in enumerate(keys):
        if key not in fields:
            errors.append(
                FieldError(f"{where}[{index}]", "Invalid", "entries must all be names of item properties", key)
            )
        elif key not in required and "default" not in fields[key]:
            text = "this property is in x-kubernetes-list-map-keys, so it must have a default or be a required property"
            errors.append(FieldError(child(path, f"items.properties[{key}].default"), "Required", text))
    return errors


def _parts(schema: JSON, path: str) -> list[tuple[str, Any]]:
    parts = [
        (f"{child(path, word)}[{index}]", part)
        for word in ("allOf", "anyOf", "oneOf")
        for index, part in enumerate(schema.get(word) or [])
    ]
    return parts + ([(child(path, "not"), schema["not"])] if schema.get("not") else [])


def _check_part(part: Any, path: str) -> list[FieldError]:
    """A schema inside a composition may judge values, never describe structure."""
    if not isinstance(part, dict):
        return [FieldError(path, "TypeInvalid", "must be an object", part)]
    errors = [
        FieldError(child(path, name), "Forbidden", f"must be {_ABSENCES.get(name, 'empty')} to be structural")
        for name in _STRUCTURE
        if part.get(name)
    ]
    if _is_int_or_string(part):
        errors = []
    errors += _check_pattern(part, path)
    for name, inner in (part.get("properties") or {}).items():
        errors += _check_part(inner, f"{child(path, 'properties')}[{name}]")
    if isinstance(part.get("items"), dict):
        errors += _check_part(part["items"], child(path, "items"))
    for where, nested in _parts(part, path):
        errors += _check_part(nested, where)
    return errors


def _is_int_or_string(part: JSON) -> bool:
    """`anyOf: [{type: integer}, {type: string}]` is allowed beside x-kubernetes-int-or-string."""
    return set(part) == {"type"} and part["type"] in ("integer", "string")
