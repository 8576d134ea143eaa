"""`x-kubernetes-embedded-resource`: whole objects inside of custom resources, read and judged as the API server does.

Pure. Their metadata is decoded like any object's (unknown fields are named and dropped, nulls vanish); their names need
not be a Kubernetes resource's, they only must be fit for a path.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from app.devtools.sandbox.schemas.formats import type_name
from app.kinds.fielderrors import FieldError, child
from app.kinds.name_syntax import check_metadata, dns1035_faults, label_faults
from app.kinds.shapes import ShapeError, decode_metadata
from app.wire import JSON, encode_json

EMBEDDED = "x-kubernetes-embedded-resource"


_Visit = Callable[[JSON, str], JSON]


def has_embedded(schema: Any) -> bool:
    """Whether there is an embedded resource anywhere in the schema."""
    return isinstance(schema, dict) and (
        bool(schema.get(EMBEDDED))
        or any(has_embedded(inner) for inner in (schema.get("properties") or {}).values())
        or has_embedded(schema.get("items"))
        or has_embedded(schema.get("additionalProperties"))
    )


def coerce_embedded(obj: JSON, schema: JSON, prefix: str) -> tuple[JSON, list[str]]:
    """The object with the metadata of embedded resources decoded, and the paths of unknown fields in there.

    Raises ShapeError, with `prefix` before its message, where a field has a wrong type.
    """
    unknown: list[str] = []

    def decode(value: JSON, path: str) -> JSON:
        for name in ("apiVersion", "kind"):
            if name in value and not isinstance(value[name], str):
                raise _wrong(prefix, child(path, name), value[name], "must be a string")
        if "metadata" not in value:
            return value
        try:
            metadata, extra = decode_metadata("", "", value["metadata"])
        except ShapeError as error:
            text = str(error).partition(": json: ")[2].replace("ObjectMeta.metadata.", "ObjectMeta.")
            if not isinstance(value["metadata"], dict):
                text = f"cannot unmarshal {type_name(value['metadata'])} into Go value of type v1.ObjectMeta"
            raise _wrong(prefix, child(path, "metadata"), value["metadata"], f"json: {text}") from error
        unknown.extend(child(path, name) for name in extra)
        return {**value, "metadata": metadata}

    return _walk(obj, schema, "", decode), unknown


def _wrong(prefix: str, path: str, value: Any, fault: str) -> ShapeError:
    text = f"{prefix}{path}: Invalid value: {encode_json(value).decode()}: {fault}"
    return ShapeError(text, field=path, fault=fault)


def check_embedded(obj: JSON, schema: JSON) -> list[FieldError]:
    """The faults of all embedded resources: version, kind and metadata."""
    errors: list[FieldError] = []

    def judge(value: JSON, path: str) -> JSON:
        errors.extend(_faults(value, path))
        return value

    _walk(obj, schema, "", judge)
    return errors


def _faults(value: JSON, path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    version, kind = value.get("apiVersion"), value.get("kind")
    if version is None:
        errors.append(FieldError(child(path, "apiVersion"), "Required"))
    elif not version:
        errors.append(FieldError(child(path, "apiVersion"), "Invalid", "must not be empty", version))
    elif version.count("/") > 1:
        text = f"unexpected GroupVersion string: {version}"
        errors.append(FieldError(child(path, "apiVersion"), "Invalid", text, version))
    if kind is None:
        errors.append(FieldError(child(path, "kind"), "Required"))
    elif not kind:
        errors.append(FieldError(child(path, "kind"), "Invalid", "must not be empty", kind))
    else:
        errors += [
            FieldError(child(path, "kind"), "Invalid", f"may have mixed case, but should otherwise match: {text}", kind)
            for text in dns1035_faults(kind.lower())
        ]
    metadata = value.get("metadata") or {}
    named = {**metadata, "name": metadata.get("name") or "unnamed"}  # a template needs no name
    found = check_metadata(named, namespaced=True, name_rule="path", free_finalizers=True)
    namespace = metadata.get("namespace") or ""
    if namespace:
        found[:0] = [FieldError("metadata.namespace", "Invalid", text, namespace) for text in label_faults(namespace)]
    return errors + [FieldError(child(path, one.field), one.type, one.detail, one.bad_value) for one in found]


def _walk(value: Any, schema: Any, path: str, visit: _Visit) -> Any:
    """The value with every embedded resource in it replaced by what `visit` makes of it."""
    if not isinstance(schema, dict):
        return value
    items = schema.get("items")
    if isinstance(value, list) and isinstance(items, dict):
        return [_walk(element, items, f"{path}[{index}]", visit) for index, element in enumerate(value)]
    if not isinstance(value, dict):
        return value
    properties, extra = schema.get("properties") or {}, schema.get("additionalProperties")
    walked = {
        name: _walk(member, properties.get(name, extra), child(path, name), visit) for name, member in value.items()
    }
    return visit(walked, path) if schema.get(EMBEDDED) else walked
