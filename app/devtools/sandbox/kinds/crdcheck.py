"""Validation of CustomResourceDefinitions, in the API server's words: names, scope, versions, columns, schemas."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any

from app.devtools.sandbox.kinds.builtin import BUILTIN_GROUPS
from app.devtools.sandbox.printing.jsonpaths import check_path
from app.devtools.sandbox.schemas.rulecheck import check_rule_schemas
from app.devtools.sandbox.schemas.schemacheck import check_structural
from app.kinds.fielderrors import FieldError
from app.kinds.name_syntax import dns1035_faults, label_faults, subdomain_faults
from app.wire import JSON, decode_json, encode_json

_SCALE_PATHS = {
    "specReplicasPath": (".spec.",),
    "statusReplicasPath": (".status.",),
    "labelSelectorPath": (".spec.", ".status."),
}
"""Of the subresource `scale`: how each path may begin. The last may be left out."""
_COLUMN_TYPES = ("boolean", "date", "integer", "number", "string")
_COLUMN_FORMATS = ("byte", "date", "date-time", "double", "float", "int32", "int64", "password")


def column_warnings(crd: JSON) -> list[str]:
    """Columns that a real server would fill and the sandbox cannot: it reads the usual part of JSONPath alone."""
    return [
        f"spec.versions[{at}].additionalPrinterColumns[{index}]: the sandbox cannot follow {column.get('jsonPath')!r}, "
        "the column stays empty"
        for at, version in enumerate(crd["spec"].get("versions") or [])
        for index, column in enumerate(version.get("additionalPrinterColumns") or [])
        if not check_path(column.get("jsonPath") or "")
    ]


def check_crd(crd: JSON) -> list[FieldError]:
    """All faults of a definition: names, scope, versions and each version's schema."""
    spec = crd["spec"]
    names = spec["names"]
    group, plural = spec.get("group") or "", names.get("plural") or ""
    errors: list[FieldError] = []
    if crd["metadata"].get("name") != f"{plural}.{group}":
        text = 'must be spec.names.plural+"."+spec.group'
        errors.append(FieldError("metadata.name", "Invalid", text, crd["metadata"].get("name") or ""))
    if not group:
        errors.append(FieldError("spec.group", "Required"))
    else:
        errors += [FieldError("spec.group", "Invalid", text, group) for text in subdomain_faults(group)]
        if group in BUILTIN_GROUPS:
            errors.append(FieldError("spec.group", "Invalid", "is served by the API server itself", group))
    for field in ("plural", "singular", "kind", "listKind"):
        value = names.get(field) or ""
        if not value:
            errors.append(FieldError(f"spec.names.{field}", "Required"))
        else:
            errors += [
                FieldError(f"spec.names.{field}", "Invalid", text, value) for text in label_faults(value.lower())
            ]
    if spec.get("scope") not in ("Namespaced", "Cluster"):
        text = 'supported values: "Cluster", "Namespaced"'
        errors.append(
            FieldError("spec.scope", "NotSupported", text, spec["scope"])
            if spec.get("scope")
            else FieldError("spec.scope", "Required")
        )
    if (spec.get("conversion") or {}).get("strategy") != "None":
        text = "the sandbox converts by changing apiVersion alone"
        errors.append(FieldError("spec.conversion.strategy", "Invalid", text, spec["conversion"].get("strategy")))
    versions = spec.get("versions") or []
    errors += _check_versions(versions)
    errors += _of_versions(versions, "additionalPrinterColumns", _check_columns)
    errors += _of_versions(versions, "subresources", _check_scale)
    if not any(version.get("storage") for version in versions):
        errors.append(FieldError("status.storedVersions", "Invalid", "must have at least one stored version", None))
    return errors


def _of_versions(versions: list[JSON], name: str, check: Callable[[Any, str], list[FieldError]]) -> list[FieldError]:
    """What all versions have in common is named as if it stood above them, as the server does."""
    fields = [version.get(name) for version in versions]
    if fields and all(one == fields[0] for one in fields):
        return check(fields[0], f"spec.{name}")
    return [error for index, one in enumerate(fields) for error in check(one, f"spec.versions[{index}].{name}")]


def _check_scale(subresources: JSON | None, path: str) -> list[FieldError]:
    scale = (subresources or {}).get("scale")
    if scale is None:
        return []
    errors: list[FieldError] = []
    for name, roots in _SCALE_PATHS.items():
        here, value = f"{path}.scale.{name}", scale.get(name)
        if not value and len(roots) == 1:
            errors.append(FieldError(here, "Required"))
        elif value and not value.startswith("."):
            errors.append(FieldError(here, "Invalid", "must be a simple json path starting with .", value))
        elif value and not value.startswith(roots):
            under = " or ".join(root.removesuffix(".") for root in roots)
            either = "either " if len(roots) > 1 else ""
            errors.append(FieldError(here, "Invalid", f"should be a json path under {either}{under}", value))
    return errors


def _check_columns(columns: list[JSON] | None, path: str) -> list[FieldError]:
    """Columns as the server takes them; it lets paths pass that it cannot follow, and then leaves the cells empty."""
    errors: list[FieldError] = []
    for index, column in enumerate(columns or []):
        here = f"{path}[{index}]"
        if not column.get("name"):
            errors.append(FieldError(f"{here}.name", "Required"))
        kinds = f"must be one of {','.join(_COLUMN_TYPES)}"
        if not column.get("type"):
            errors.append(FieldError(f"{here}.type", "Required", kinds))
        elif column["type"] not in _COLUMN_TYPES:
            errors.append(FieldError(f"{here}.type", "Invalid", kinds, column["type"]))
        if column.get("format") and column["format"] not in _COLUMN_FORMATS:
            text = f"must be one of {','.join(_COLUMN_FORMATS)}"
            errors.append(FieldError(f"{here}.format", "Invalid", text, column["format"]))
        if not column.get("jsonPath"):
            errors.append(FieldError(f"{here}.JSONPath", "Required"))
        elif not column["jsonPath"].startswith("."):
            text = "must be a simple json path starting with ."
            errors.append(FieldError(f"{here}.JSONPath", "Invalid", text, column["jsonPath"]))
    return errors


def _check_versions(versions: list[JSON]) -> list[FieldError]:
    errors: list[FieldError] = []
    if not versions:
        errors.append(FieldError("spec.versions", "Required", "must have at least one version"))
    if versions and sum(bool(version.get("storage")) for version in versions) != 1:
        text = "must have exactly one version marked as storage version"
        errors.append(FieldError("spec.versions", "Invalid", text, [version.get("name") for version in versions]))
    for index, version in enumerate(versions):
        here = f"spec.versions[{index}]"
        name = version.get("name") or ""
        if not name:
            errors.append(FieldError(f"{here}.name", "Required"))
        else:
            errors += [FieldError(f"{here}.name", "Invalid", text, name) for text in dns1035_faults(name)]
    return errors + _check_schemas(versions)


def _check_schemas(versions: list[JSON]) -> list[FieldError]:
    schemas = [(version.get("schema") or {}).get("openAPIV3Schema") for version in versions]
    if schemas and schemas[0] is not None and all(schema == schemas[0] for schema in schemas):
        return _check_schema(schemas[0], "spec.validation.openAPIV3Schema")
    errors: list[FieldError] = []
    for index, schema in enumerate(schemas):
        here = f"spec.versions[{index}].schema.openAPIV3Schema"
        if schema is None:
            errors.append(FieldError(here, "Required", "schemas are required"))
        else:
            errors += _check_schema(schema, here)
    return errors


def _check_schema(schema: JSON, here: str) -> list[FieldError]:
    # Each update of a definition has its schemas too, and many clusters have the same definitions.
    return list(_schema_faults(encode_json(schema), here))


@lru_cache(maxsize=32)
def _schema_faults(encoded: bytes, here: str) -> list[FieldError]:
    """The faults of one schema; rules are read where its structure is sound."""
    schema = decode_json(encoded)
    faults = check_structural(schema)
    if not faults:
        return check_rule_schemas(schema, here)
    return [
        FieldError(f"{here}.{fault.field}".removesuffix("."), fault.type, fault.detail, fault.bad_value)
        for fault in faults
    ]
