"""Validation of the variables of containers and of the downward API, in the API server's words. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from app.kinds.contents import key_faults
from app.kinds.fielderrors import FieldError
from app.kinds.name_syntax import check_inner_path, invalid, qualified_faults, subdomain_faults, supported

if TYPE_CHECKING:
    from app.wire import JSON

_HUGEPAGES = "hugepages-"
_VARIABLE_TEXT = "a valid environment variable name must consist only of printable ASCII characters other than '='"
_ONE_TEXT = "may not have more than one field specified at a time"
_ENV_FIELDS = frozenset(
    [
        "metadata.name",
        "metadata.namespace",
        "metadata.uid",
        "spec.nodeName",
        "spec.serviceAccountName",
        "status.hostIP",
        "status.hostIPs",
        "status.podIP",
        "status.podIPs",
    ]
)
_VOLUME_FIELDS = frozenset(
    ["metadata.name", "metadata.namespace", "metadata.uid", "metadata.labels", "metadata.annotations"]
)
_CONTAINER_RESOURCES = [
    f"{kind}.{resource}" for kind in ("limits", "requests") for resource in ("cpu", "ephemeral-storage", "memory")
]


def check_downward_item(item: JSON, path: str) -> list[FieldError]:
    """One file of a downward API volume."""
    errors: list[FieldError] = []
    file = item.get("path") or ""
    errors += check_inner_path(file, f"{path}.path") if file else [FieldError(f"{path}.path", "Required")]
    if "fieldRef" in item:
        if "resourceFieldRef" in item:
            text = "fieldRef and resourceFieldRef can not be specified simultaneously"
            errors.append(FieldError(path, "Invalid", text, "resource"))
        errors += _check_field_ref(item["fieldRef"], f"{path}.fieldRef", _VOLUME_FIELDS)
    elif "resourceFieldRef" in item:
        errors += _check_resource_ref(item["resourceFieldRef"], f"{path}.resourceFieldRef", volume=True)
    else:
        errors.append(FieldError(path, "Required", "one of fieldRef and resourceFieldRef is required"))
    return errors


def check_environment(container: JSON, path: str) -> list[FieldError]:
    """The variables of one container, single ones and those that come in bulk."""
    errors: list[FieldError] = []
    for index, entry in enumerate(container.get("env") or []):
        here, name = f"{path}.env[{index}]", entry.get("name") or ""
        if not name:
            errors.append(FieldError(f"{here}.name", "Required"))
        elif not _is_variable(name):
            errors.append(FieldError(f"{here}.name", "Invalid", _VARIABLE_TEXT, name))
        source = entry.get("valueFrom")
        if source is not None:
            errors += _check_source(source, f"{here}.valueFrom", valued=bool(entry.get("value")))
    for index, entry in enumerate(container.get("envFrom") or []):
        errors += _check_bulk(entry, f"{path}.envFrom", index)
    return errors


def _is_variable(name: str) -> bool:
    return "=" not in name and name.isascii() and name.isprintable()


def _check_source(source: JSON, path: str, *, valued: bool) -> list[FieldError]:
    """Where the value of a variable comes from: one place, and instead of a value."""
    errors: list[FieldError] = []
    if valued:
        errors.append(FieldError(path, "Invalid", "may not be specified when `value` is not empty", ""))
    if not source:
        text = "must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef`, `secretKeyRef` or `fileKeyRef`"
        errors.append(FieldError(path, "Invalid", text, ""))
    elif len(source) > 1:
        errors.append(FieldError(path, "Invalid", _ONE_TEXT, ""))
    if "fieldRef" in source:
        errors += _check_field_ref(source["fieldRef"], f"{path}.fieldRef", _ENV_FIELDS)
    if "resourceFieldRef" in source:
        errors += _check_resource_ref(source["resourceFieldRef"], f"{path}.resourceFieldRef", volume=False)
    for kind in ("configMapKeyRef", "secretKeyRef"):
        if kind in source:
            errors += _check_key_ref(source[kind], f"{path}.{kind}")
    return errors


def _check_key_ref(reference: JSON, path: str) -> list[FieldError]:
    name, key = reference.get("name") or "", reference.get("key") or ""
    errors = invalid(f"{path}.name", name, subdomain_faults(name))
    return errors + (invalid(f"{path}.key", key, key_faults(key)) if key else [FieldError(f"{path}.key", "Required")])


def _check_bulk(entry: JSON, path: str, index: int) -> list[FieldError]:
    errors: list[FieldError] = []
    prefix = entry.get("prefix") or ""
    if prefix and not _is_variable(prefix):
        errors.append(FieldError(f"{path}[{index}].prefix", "Invalid", _VARIABLE_TEXT, prefix))
    sources = [kind for kind in ("configMapRef", "secretRef") if kind in entry]
    if len(sources) != 1:
        text = _ONE_TEXT if sources else "must specify one of: `configMapRef` or `secretRef`"
        errors.append(FieldError(path, "Invalid", text, ""))
    for kind in sources:
        here, name = f"{path}[{index}].{kind}.name", entry[kind].get("name") or ""
        errors += invalid(here, name, subdomain_faults(name)) if name else [FieldError(here, "Required")]
    return errors


def _check_field_ref(reference: JSON, path: str, known: frozenset[str]) -> list[FieldError]:
    field = reference.get("fieldPath") or ""
    if not field:
        return [FieldError(f"{path}.fieldPath", "Required")]
    head, bracket, rest = field.partition("[")
    if bracket and head in ("metadata.labels", "metadata.annotations") and rest.startswith("'") and rest.endswith("']"):
        key = rest[1:-2]
        return invalid(path, key, qualified_faults(key.lower()))
    if field in known:
        return []
    if field in _ENV_FIELDS | _VOLUME_FIELDS:
        return supported(f"{path}.fieldPath", field, sorted(known))
    text = f"error converting fieldPath: field label not supported: {field}"
    return [FieldError(f"{path}.fieldPath", "Invalid", text, field)]


def _check_resource_ref(reference: JSON, path: str, *, volume: bool) -> list[FieldError]:
    resource = reference.get("resource") or ""
    if volume and not reference.get("containerName"):
        return [FieldError(f"{path}.containerName", "Required")]
    if not resource:
        return [FieldError(f"{path}.resource", "Required")]
    known = resource in _CONTAINER_RESOURCES
    if not known and not resource.removeprefix("requests.").removeprefix("limits.").startswith(_HUGEPAGES):
        return supported(f"{path}.resource", resource, _CONTAINER_RESOURCES)
    return []
