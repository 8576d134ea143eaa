"""OpenAPI v3 of a cluster, as far as clients read it: strict validation, dry run, apply, and `explain`.

Custom resources are described by their schemas, built-in kinds by their shapes (names and types, no descriptions).
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

from app.devtools.sandbox.api.call import Reply
from app.kinds.shapes import Shape, fields_of
from app.wire import encode_json

if TYPE_CHECKING:
    from app.devtools.sandbox.kinds.builtin import ApiResource, Registry
    from app.wire import JSON

_GVK = "x-kubernetes-group-version-kind"
_META = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"
_TYPES: dict[str, JSON] = {
    "s": {"type": "string"},
    "t": {"type": "string", "format": "date-time"},
    "u": {"type": "string", "format": "date-time"},
    "y": {"type": "string", "format": "byte"},
    "i": {"type": "integer", "format": "int32"},
    "l": {"type": "integer", "format": "int64"},
    "b": {"type": "boolean"},
    "q": {"type": "string", "format": "quantity"},
    "x": {"type": "string", "format": "int-or-string"},
    "*": {"x-kubernetes-preserve-unknown-fields": True},
}
_PATCHES = ("application/json-patch+json", "application/merge-patch+json", "application/apply-patch+yaml")
_TEXTS = {
    "apiVersion": "APIVersion defines the versioned schema of this representation of an object.",
    "kind": "Kind is a string value representing the REST resource this object represents.",
    "metadata": "Standard object's metadata.",
}

_VERSION_2 = b"\x0a\x032.0"
"""`swagger: "2.0"`, as kubectl reads it: a protobuf message, whatever else it accepts."""


def version_2() -> Reply:
    """A document without any kind. Of a kind that is in no document of v3 (a List, a misspelt one), kubectl asks it."""
    return Reply(200, _VERSION_2, "application/com.github.proto-openapi.spec.v2.v1.0+protobuf")


def index(registry: Registry) -> JSON:
    """The documents by group version; the hash changes with the content, as clients cache by it."""
    paths: JSON = {}
    for row in registry:
        path = _prefix(row)
        if path not in paths:
            digest = hashlib.sha256(encode_json(document(registry, path))).hexdigest()[:32].upper()
            paths[path] = {"serverRelativeURL": f"/openapi/v3/{path}?hash={digest}"}
    return {"paths": paths}


def document(registry: Registry, path: str) -> JSON | None:
    """One group version's document (`api/v1`, `apis/GROUP/VERSION`), None where that is not served."""
    rows = [row for row in registry if _prefix(row) == path]
    if not rows:
        return None
    schemas: JSON = {
        _META: {
            "type": "object",
            "description": _TEXTS["metadata"],
            "properties": {name: _shape(shape) for name, shape in fields_of("ObjectMeta").items()},
        }
    }
    paths: JSON = {}
    for row in rows:
        name = _schema_name(row)
        schemas[name] = _schema(row)
        collection = f"/{path}/namespaces/{{namespace}}/{row.plural}" if row.namespaced else f"/{path}/{row.plural}"
        paths[collection] = _collection(row, name)
        if not row.virtual:
            paths[f"{collection}/{{name}}"] = _item(row, name)
    return {
        "openapi": "3.0.0",
        "info": {"title": "Kubernetes", "version": "v1.36.0"},
        "paths": paths,
        "components": {"schemas": schemas},
    }


def _prefix(row: ApiResource) -> str:
    return f"apis/{row.group}/{row.version}" if row.group else f"api/{row.version}"


def _schema_name(row: ApiResource) -> str:
    group = ".".join(reversed(row.group.split("."))) if row.group else "io.k8s.api.core"
    return f"{group}.{row.version}.{row.kind}"


def _gvk(row: ApiResource) -> JSON:
    return {"group": row.group, "version": row.version, "kind": row.kind}


def _schema(row: ApiResource) -> JSON:
    if row.schema is not None:
        own = {name: value for name, value in row.schema.items() if name != "properties"}
        properties = dict(row.schema.get("properties") or {})
    else:
        own = {"type": "object"}
        properties = {name: _shape(shape) for name, shape in fields_of(row.kind).items()}
    meta: JSON = {
        "apiVersion": {"type": "string", "description": _TEXTS["apiVersion"]},
        "kind": {"type": "string", "description": _TEXTS["kind"]},
        "metadata": {"description": _TEXTS["metadata"], "allOf": [{"$ref": f"#/components/schemas/{_META}"}]},
    }
    return {**own, "properties": {**properties, **meta}, _GVK: [_gvk(row)]}


def _shape(shape: Shape) -> JSON:
    if isinstance(shape, list):
        return {"type": "array", "items": _shape(shape[0])}
    if isinstance(shape, dict):
        return {"type": "object", "additionalProperties": _shape(shape["*"])}
    if shape in _TYPES:
        return dict(_TYPES[shape])
    return {"type": "object", "properties": {name: _shape(inner) for name, inner in fields_of(shape).items()}}


def _query(*names: str) -> list[JSON]:
    return [{"name": name, "in": "query", "schema": {"type": "string", "uniqueItems": True}} for name in names]


def _operation(
    row: ApiResource, action: str, name: str, *, parameters: list[JSON], bodies: tuple[str, ...] = ()
) -> JSON:
    reference = {"schema": {"$ref": f"#/components/schemas/{name}"}}
    operation: JSON = {
        "operationId": f"{action}{row.group.title().replace('.', '')}{row.version.title()}{row.kind}",
        "parameters": parameters,
        "responses": {"200": {"description": "OK", "content": {"application/json": reference}}},
        "x-kubernetes-action": action,
        _GVK: _gvk(row),
    }
    if bodies:
        operation["requestBody"] = {"required": True, "content": dict.fromkeys(bodies, reference)}
    return operation


def _collection(row: ApiResource, name: str) -> JSON:
    options = _query("dryRun", "fieldManager", "fieldValidation")
    path = (
        [{"name": "namespace", "in": "path", "required": True, "schema": {"type": "string"}}] if row.namespaced else []
    )
    described: JSON = {"post": _operation(row, "post", name, parameters=options, bodies=("application/json",))}
    if not row.virtual:
        selectors = _query("labelSelector", "fieldSelector", "limit", "continue", "resourceVersion", "watch")
        described["get"] = _operation(row, "list", name, parameters=selectors)
        described["delete"] = _operation(row, "deletecollection", name, parameters=selectors)
    return {**described, "parameters": path}


def _item(row: ApiResource, name: str) -> JSON:
    options = _query("dryRun", "fieldManager", "fieldValidation")
    places = ["namespace", "name"] if row.namespaced else ["name"]
    path = [{"name": place, "in": "path", "required": True, "schema": {"type": "string"}} for place in places]
    return {
        "get": _operation(row, "get", name, parameters=[]),
        "put": _operation(row, "put", name, parameters=options, bodies=("application/json",)),
        "patch": _operation(row, "patch", name, parameters=[*options, *_query("force")], bodies=_PATCHES),
        "delete": _operation(
            row, "delete", name, parameters=_query("dryRun", "gracePeriodSeconds", "propagationPolicy")
        ),
        "parameters": path,
    }
