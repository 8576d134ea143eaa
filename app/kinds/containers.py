"""Validation of the containers of a Pod, in the API server's words: names, mounts, environment, resources. Pure."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from app.kinds.fielderrors import FieldError
from app.kinds.names import label_faults, qualified_faults
from app.kinds.quantities import amount

if TYPE_CHECKING:
    from app.wire import JSON

_PULL_POLICIES = ("Always", "IfNotPresent", "Never")
_NATIVE = frozenset({"cpu", "memory", "ephemeral-storage"})
_HUGEPAGES = "hugepages-"
_INTEGER = "must be an integer"
_PORT_NAME = re.compile(r"(?=.*[a-z])[a-z0-9](?:[a-z0-9-]*[a-z0-9])?")
_ENV_FIELDS = frozenset(
    {
        "metadata.name",
        "metadata.namespace",
        "metadata.uid",
        "spec.nodeName",
        "spec.serviceAccountName",
        "status.hostIP",
        "status.hostIPs",
        "status.podIP",
        "status.podIPs",
    }
)
_VOLUME_FIELDS = frozenset(
    {"metadata.name", "metadata.namespace", "metadata.uid", "metadata.labels", "metadata.annotations"}
)
_CONTAINER_RESOURCES = (
    "limits.cpu",
    "limits.ephemeral-storage",
    "limits.memory",
    "requests.cpu",
    "requests.ephemeral-storage",
    "requests.memory",
)


def check_containers(spec: JSON, path: str, volumes: set[Any]) -> list[FieldError]:
    """All containers and init containers; names are unique over both."""
    errors: list[FieldError] = []
    seen: set[str] = set()
    if not spec.get("containers"):
        errors.append(FieldError(f"{path}.containers", "Required"))
    for field in ("containers", "initContainers"):
        for index, container in enumerate(spec.get(field) or []):
            here, name = f"{path}.{field}[{index}]", container.get("name") or ""
            if not name:
                errors.append(FieldError(f"{here}.name", "Required"))
            else:
                errors += [FieldError(f"{here}.name", "Invalid", text, name) for text in label_faults(name)]
            if name and name in seen:
                errors.append(FieldError(f"{here}.name", "Duplicate", "", name))
            seen.add(name)
            errors += _check_container(container, here, volumes)
    return errors


def check_downward_item(item: JSON, path: str) -> list[FieldError]:
    """One file of a downward API volume."""
    errors: list[FieldError] = []
    file = item.get("path") or ""
    if not file:
        errors.append(FieldError(f"{path}.path", "Required"))
    elif file.startswith("/"):
        errors.append(FieldError(f"{path}.path", "Invalid", "must be a relative path", file))
    elif ".." in file.split("/"):
        errors.append(FieldError(f"{path}.path", "Invalid", "must not contain '..'", file))
    if "fieldRef" in item:
        if "resourceFieldRef" in item:
            errors.append(
                FieldError(
                    path, "Invalid", "fieldRef and resourceFieldRef can not be specified simultaneously", "resource"
                )
            )
        errors += _check_field_ref(item["fieldRef"], f"{path}.fieldRef", _VOLUME_FIELDS)
    elif "resourceFieldRef" in item:
        errors += _check_resource_ref(item["resourceFieldRef"], f"{path}.resourceFieldRef", volume=True)
    else:
        errors.append(FieldError(path, "Required", "one of fieldRef and resourceFieldRef is required"))
    return errors


def _check_container(container: JSON, path: str, volumes: set[Any]) -> list[FieldError]:
    errors: list[FieldError] = []
    image = container.get("image") or ""
    if not image:
        errors.append(FieldError(f"{path}.image", "Required"))
    elif image != image.strip():
        errors.append(FieldError(f"{path}.image", "Invalid", "must not have leading or trailing whitespace", image))
    errors += _check_ports(container.get("ports") or [], f"{path}.ports")
    errors += _check_environment(container.get("env") or [], f"{path}.env")
    errors += _check_mounts(container.get("volumeMounts") or [], f"{path}.volumeMounts", volumes)
    policy = container.get("imagePullPolicy")
    if policy not in _PULL_POLICIES:
        text = "supported values: " + ", ".join(f'"{known}"' for known in _PULL_POLICIES)
        errors.append(FieldError(f"{path}.imagePullPolicy", "NotSupported", text, policy))
    errors += check_resources(container.get("resources") or {}, f"{path}.resources")
    return errors


def _check_ports(ports: list[JSON], path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    names: set[str] = set()
    for index, port in enumerate(ports):
        here, name, number = f"{path}[{index}]", port.get("name") or "", port.get("containerPort") or 0
        if name:
            if not _PORT_NAME.fullmatch(name) or len(name) > 15:
                text = "must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)"
                errors.append(FieldError(f"{here}.name", "Invalid", text, name))
                if not re.search("[a-z]", name):
                    errors.append(FieldError(f"{here}.name", "Invalid", "must contain at least one letter (a-z)", name))
            elif name in names:
                errors.append(FieldError(f"{here}.name", "Duplicate", "", name))
            names.add(name)
        if not number:
            errors.append(FieldError(f"{here}.containerPort", "Required"))
        elif not 0 < number < 65536:
            text = "must be between 1 and 65535, inclusive"
            errors.append(FieldError(f"{here}.containerPort", "Invalid", text, number))
    return errors


def _check_environment(entries: list[JSON], path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    for index, entry in enumerate(entries):
        here, name = f"{path}[{index}]", entry.get("name") or ""
        if not name:
            errors.append(FieldError(f"{here}.name", "Required"))
        elif "=" in name or not name.isascii() or not name.isprintable():
            text = "a valid environment variable name must consist only of printable ASCII characters other than '='"
            errors.append(FieldError(f"{here}.name", "Invalid", text, name))
        source = entry.get("valueFrom")
        if source is None:
            continue
        if entry.get("value"):
            errors.append(
                FieldError(f"{here}.valueFrom", "Invalid", "may not be specified when `value` is not empty", "")
            )
        if not source:
            text = (
                "must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef`, `secretKeyRef` or `fileKeyRef`"
            )
            errors.append(FieldError(f"{here}.valueFrom", "Invalid", text, ""))
        if "fieldRef" in source:
            errors += _check_field_ref(source["fieldRef"], f"{here}.valueFrom.fieldRef", _ENV_FIELDS)
        if "resourceFieldRef" in source:
            errors += _check_resource_ref(
                source["resourceFieldRef"], f"{here}.valueFrom.resourceFieldRef", volume=False
            )
    return errors


def _check_field_ref(reference: JSON, path: str, known: frozenset[str]) -> list[FieldError]:
    field = reference.get("fieldPath") or ""
    if not field:
        return [FieldError(f"{path}.fieldPath", "Required")]
    head, bracket, rest = field.partition("[")
    if bracket and head in ("metadata.labels", "metadata.annotations") and rest.startswith("'") and rest.endswith("']"):
        key = rest[1:-2]
        return [FieldError(path, "Invalid", text, key) for text in qualified_faults(key.lower())]
    if field in known:
        return []
    if field in _ENV_FIELDS | _VOLUME_FIELDS:
        text = "supported values: " + ", ".join(f'"{value}"' for value in sorted(known))
        return [FieldError(f"{path}.fieldPath", "NotSupported", text, field)]
    return [
        FieldError(
            f"{path}.fieldPath", "Invalid", f"error converting fieldPath: field label not supported: {field}", field
        )
    ]


def _check_resource_ref(reference: JSON, path: str, *, volume: bool) -> list[FieldError]:
    resource = reference.get("resource") or ""
    if volume and not reference.get("containerName"):
        return [FieldError(f"{path}.containerName", "Required")]
    if not resource:
        return [FieldError(f"{path}.resource", "Required")]
    known = resource in _CONTAINER_RESOURCES
    if not known and not resource.removeprefix("requests.").removeprefix("limits.").startswith(_HUGEPAGES):
        text = "supported values: " + ", ".join(f'"{value}"' for value in _CONTAINER_RESOURCES)
        return [FieldError(f"{path}.resource", "NotSupported", text, resource)]
    return []


def _check_mounts(mounts: list[JSON], path: str, volumes: set[Any]) -> list[FieldError]:
    errors: list[FieldError] = []
    places: set[str] = set()
    for index, mount in enumerate(mounts):
        here, name, place = f"{path}[{index}]", mount.get("name") or "", mount.get("mountPath") or ""
        if not name:
            errors.append(FieldError(f"{here}.name", "Required"))
        elif name not in volumes:
            errors.append(FieldError(f"{here}.name", "NotFound", "", name))
        if not place:
            errors.append(FieldError(f"{here}.mountPath", "Required"))
        elif place in places:
            errors.append(FieldError(f"{here}.mountPath", "Invalid", "must be unique", place))
        places.add(place)
    return errors


def check_resources(resources: JSON, path: str) -> list[FieldError]:
    """Limits and requests of one container."""
    limits, requests = resources.get("limits") or {}, resources.get("requests") or {}
    errors: list[FieldError] = []
    for name, value in limits.items():
        errors += _check_amount(name, value, f"{path}.limits[{name}]")
    for name, value in requests.items():
        errors += _check_amount(name, value, f"{path}.requests[{name}]")
        errors += _check_against_limit(name, value, limits.get(name), path)
    names = {*limits, *requests}
    if any(name.startswith(_HUGEPAGES) for name in names) and not names & {"cpu", "memory"}:
        errors.append(FieldError(path, "Forbidden", "HugePages require cpu or memory"))
    return errors


def _check_amount(name: str, value: str, path: str) -> list[FieldError]:
    errors = [FieldError(path, "Invalid", text, name) for text in qualified_faults(name)]
    standard = name in _NATIVE or name.startswith(_HUGEPAGES)
    if "/" not in name and not standard:
        if not errors:
            errors.append(FieldError(path, "Invalid", "must be a standard resource type or fully qualified", name))
        errors.append(FieldError(path, "Invalid", "must be a standard resource for containers", name))
    elif _is_foreign(name) and (errors or name.startswith("requests.")):
        errors.append(FieldError(path, "Invalid", "doesn't follow extended resource name standard", name))
    number = amount(value)
    if number < 0:
        errors.append(FieldError(path, "Invalid", "must be greater than or equal to 0", value))
    if _is_foreign(name) and number != number.to_integral_value():
        errors.append(FieldError(path, "Invalid", _INTEGER, value))
    return errors


def _is_foreign(name: str) -> bool:
    """A name outside of Kubernetes's own domain: an extended resource."""
    return "/" in name and "kubernetes.io/" not in name


def _check_against_limit(name: str, request: str, limit: str | None, path: str) -> list[FieldError]:
    overcommit = not _is_foreign(name) and not name.startswith(_HUGEPAGES)
    if limit is None:
        if overcommit:
            return []
        return [FieldError(f"{path}.limits", "Required", "Limit must be set for non overcommitable resources")]
    if not overcommit and amount(request) != amount(limit):
        return [FieldError(f"{path}.requests", "Invalid", f"must be equal to {name} limit of {limit}", request)]
    if amount(request) > amount(limit):
        text = f"must be less than or equal to {name} limit of {limit}"
        return [FieldError(f"{path}.requests", "Invalid", text, request)]
    return []
