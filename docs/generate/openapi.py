"""app/kinds/openapi.json: the fields of the built-in kinds and how they merge, from the OpenAPI of Kubernetes.

The newest version decides. Fields that only older versions have are kept, so that they stay known.
"""

from __future__ import annotations

from importlib.resources import files
from typing import Any

from app.devtools.sandbox.kinds.builtin import BUILTIN
from app.kinds.objects import NAMESPACED
from app.wire import JSON, decode_json, encode_json
from docs.generate.texts import Page

_VERSIONS = range(30, 38)
_OBJECTS = ((*version.rpartition("/")[::2], kind) for version, kind in NAMESPACED)
_KINDS = {(row.group, row.version, row.kind) for row in BUILTIN} | {("", "v1", "Binding"), *_OBJECTS}
_PACKAGES = {kind: f"{group.partition('.')[0] or 'core'}.{version}.{kind}" for group, version, kind in sorted(_KINDS)}
"""How the names of the types of kinds end: of one name in several groups the core's, of several versions the last."""
_PACKAGES["Event"] = "core.v1.Event"
_OPEN = {"*": "*"}
_RAW = "RawExtension"
"""JSON of any kind, which merges as a whole: the OpenAPI calls it an object."""
_KNOWN: dict[str, Any] = {
    "Quantity": "q",
    "IntOrString": "x",
    "Time": "t",
    "MicroTime": "u",
    _RAW: "*",
    "JSONSchemaProps": _OPEN,  # recursive; the sandbox reads schemas itself
}
_SCALARS = {"string": "s", "boolean": "b"}
_FORMATS = {"byte": "y", "int32": "i", "int64": "l"}


def openapi_file() -> Page:
    """The tables `types` and `merge`, a line for each type; `app.kinds.shapes` says how they are read."""
    types: dict[str, JSON] = {}
    merge: dict[str, JSON] = {}
    for minor in _VERSIONS:
        version = _Version(minor)
        for name, fields in version.types.items():
            types[name] = {**types.get(name, {}), **fields}
            older = {field: rule for field, rule in merge.get(name, {}).items() if field not in fields}
            merge[name] = {**older, **version.merge[name]}
    text = f'{{\n"types":{{\n{_lines(types)}\n}},\n"merge":{{\n{_lines(merge)}\n}}\n}}\n'
    return Page("app/kinds/openapi.json", text)


def _lines(table: dict[str, JSON]) -> str:
    """Types in the order of their names; those without fields or rules are left out."""
    rows = {name: dict(sorted(fields.items())) for name, fields in sorted(table.items()) if fields}
    return ",\n".join(f'"{name}":{encode_json(fields).decode()}' for name, fields in rows.items())


class _Version:
    """What one version says of the kinds that the sandbox serves, and of the types that they consist of."""

    def __init__(self, minor: int) -> None:
        folder = files("kubernetes_validate").joinpath("kubernetes-json-schema", f"v1.{minor}.0-local")
        self._definitions: dict[str, JSON] = decode_json(folder.joinpath("_definitions.json").read_bytes())["$defs"]
        self._names: dict[str, str] = {}
        self.types: dict[str, JSON] = {}
        self.merge: dict[str, JSON] = {}
        for name, schema in self._definitions.items():
            for served in schema.get("x-kubernetes-group-version-kind", ()):
                if (served["group"], served["version"], served["kind"]) in _KINDS:
                    self._type(name)

    def _type(self, name: str) -> Any:
        """The shape of a reference: the name of the type in Go, which is in `types` from now on.

        A kind has its name alone, so a type with the name of a kind has its package before it, as has one of several
        types with one name and different fields.
        """
        short, properties = name.rpartition(".")[2], self._definitions[name].get("properties")
        qualified = ".".join(name.split(".")[-3:])
        if _PACKAGES.get(short, qualified) != qualified:
            short = qualified
        if short in _KNOWN or properties is None:
            return _KNOWN.get(short, _OPEN)
        if self._names.setdefault(short, name) != name and properties.keys() != self.types[short].keys():
            short = qualified
        if short not in self.types:
            self.types[short] = {field: self._shape(schema) for field, schema in properties.items()}
            self.merge[short] = {field: rule for field, schema in properties.items() if (rule := self._rule(schema))}
        return short

    def _shape(self, schema: JSON) -> Any:
        if "$ref" in schema:
            return self._type(_referred(schema))
        kind = schema["type"] if isinstance(schema["type"], str) else schema["type"][0]
        if kind == "array":
            return [self._shape(schema["items"])]
        if kind == "object":
            values = schema.get("additionalProperties")
            return {"*": self._shape(values)} if values else _OPEN
        return _FORMATS.get(schema.get("format", "")) or _SCALARS[kind]

    def _rule(self, schema: JSON) -> list[Any] | None:
        """None for what merges as its type says: a map field by field, a list not at all."""
        if "items" not in schema:
            return [None, None, False] if self._is_atomic(schema) else None
        merged = "merge" in schema.get("x-kubernetes-patch-strategy", "").split(",")
        patch_key = schema.get("x-kubernetes-patch-merge-key", "") if merged else None
        keys = [] if schema.get("x-kubernetes-list-type") == "set" else schema.get("x-kubernetes-list-map-keys")
        if keys is patch_key is None:
            return None
        return [keys, patch_key, bool(keys) and self._is_atomic(schema["items"])]

    def _is_atomic(self, schema: JSON) -> bool:
        there = self._definitions[_referred(schema)] if "$ref" in schema else schema
        raw = "$ref" in schema and _referred(schema).endswith(f".{_RAW}")
        return raw or there.get("x-kubernetes-map-type") == "atomic"


def _referred(schema: JSON) -> str:
    return str(schema["$ref"]).rpartition("/")[2]
