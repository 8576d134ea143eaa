"""Validation of a Pod's volumes, in the API server's words: one source each, and that one whole. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from app.kinds.environment import check_downward_item
from app.kinds.fielderrors import FieldError
from app.kinds.name_syntax import check_element_name, check_inner_path, invalid, subdomain_faults, supported
from app.kube.quantity import parse

if TYPE_CHECKING:
    from app.wire import JSON

_REQUIRED = {
    "hostPath": ("path",),
    "configMap": ("name",),
    "secret": ("secretName",),
    "persistentVolumeClaim": ("claimName",),
    "nfs": ("server", "path"),
    "csi": ("driver",),
    "ephemeral": ("volumeClaimTemplate",),
    "image": ("reference",),
    "iscsi": ("targetPortal", "iqn"),
}
_HOST_TYPES = ("", "BlockDevice", "CharDevice", "Directory", "DirectoryOrCreate", "File", "FileOrCreate", "Socket")
_PULL_POLICIES = ("Always", "IfNotPresent", "Never")
_MODE_TEXT = "must be a number between 0 and 0777 (octal), both inclusive"
_SHORTEST_TOKEN = 600


def check_volumes(volumes: list[JSON], path: str) -> list[FieldError]:
    """All volumes of a Pod; names are unique."""
    errors: list[FieldError] = []
    seen: set[str] = set()
    for index, volume in enumerate(volumes):
        here, name = f"{path}[{index}]", volume.get("name") or ""
        sources = [field for field in volume if field != "name"]
        if not sources:
            errors.append(FieldError(here, "Required", "must specify a volume type"))
        text = "may not specify more than 1 volume type"
        errors += [FieldError(f"{here}.{extra}", "Forbidden", text) for extra in sources[1:]]
        if sources:
            errors += _check_source(sources[0], volume[sources[0]], f"{here}.{sources[0]}")
        errors += check_element_name(f"{here}.name", name, seen)
    return errors


def _check_source(source: str, value: JSON, path: str) -> list[FieldError]:
    errors = [FieldError(f"{path}.{field}", "Required") for field in _REQUIRED.get(source, ()) if not value.get(field)]
    errors += _check_mode(value.get("defaultMode"), f"{path}.defaultMode")
    match source:
        case "hostPath":
            if ".." in value.get("path", "").split("/"):
                errors.append(FieldError(f"{path}.path", "Invalid", "must not contain '..'", value["path"]))
            errors += supported(f"{path}.type", value.get("type", ""), _HOST_TYPES)
        case "emptyDir" if parse(value.get("sizeLimit", "0")) < 0:
            text = "SizeLimit field must be a valid resource quantity"
            errors.append(FieldError(f"{path}.sizeLimit", "Forbidden", text))
        case "nfs" if not value.get("path", "").startswith("/"):
            errors.append(FieldError(f"{path}.path", "Invalid", "must be an absolute path", value.get("path", "")))
        case "csi" if value.get("driver"):
            errors += invalid(f"{path}.driver", value["driver"], subdomain_faults(value["driver"].lower()))
        case "image" if value.get("pullPolicy"):
            errors += supported(f"{path}.pullPolicy", value["pullPolicy"], _PULL_POLICIES)
        case "secret" | "configMap":
            errors += _check_items(value, path)
        case "downwardAPI":
            errors += _check_downward(value, path)
        case "projected":
            errors += _check_projected(value.get("sources") or [], path)
    return errors


def _check_projected(sources: list[JSON], path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    for index, source in enumerate(sources):
        here = f"{path}.sources[{index}]"
        if len(source) > 1:
            errors.append(FieldError(here, "Forbidden", "may not specify more than 1 volume type per source"))
        for kind in ("secret", "configMap"):
            if kind in source:
                if not source[kind].get("name"):
                    errors.append(FieldError(f"{here}.{kind}.name", "Required"))
                errors += _check_items(source[kind], f"{here}.{kind}")
        if "downwardAPI" in source:
            errors += _check_downward(source["downwardAPI"], f"{here}.downwardAPI")
        token = source.get("serviceAccountToken")
        if token is not None:
            seconds = token.get("expirationSeconds", _SHORTEST_TOKEN)
            if seconds < _SHORTEST_TOKEN:
                text = "may not specify a duration less than 10 minutes"
                where = f"{here}.serviceAccountToken.expirationSeconds"
                errors.append(FieldError(where, "Invalid", text, seconds))
            if not token.get("path"):
                errors.append(FieldError(f"{path}.path", "Required"))
    return errors + _check_conflicts(sources, path)


def _check_conflicts(sources: list[JSON], path: str) -> list[FieldError]:
    """Two sources must not write the same file."""
    errors: list[FieldError] = []
    written: set[str] = set()
    for source in sources:
        for kind in ("secret", "configMap", "downwardAPI"):
            holder = source.get(kind) or {}
            for item in holder.get("items") or []:
                file = item.get("path") or ""
                if file and file in written:
                    name = holder.get("name") or ""
                    errors.append(FieldError(path, "Invalid", "conflicting duplicate paths", name))
                written.add(file)
    return errors


def _check_items(source: JSON, path: str) -> list[FieldError]:
    """The keys of a Secret or ConfigMap that become files."""
    errors: list[FieldError] = []
    for index, item in enumerate(source.get("items") or []):
        here = f"{path}.items[{index}]"
        errors += [FieldError(f"{here}.{field}", "Required") for field in ("key", "path") if not item.get(field)]
        errors += check_inner_path(item.get("path") or "", f"{here}.path")
        errors += _check_mode(item.get("mode"), f"{here}.mode")
    return errors


def _check_downward(source: JSON, path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    for item in source.get("items") or []:
        errors += check_downward_item(item, path)
        errors += _check_mode(item.get("mode"), f"{path}.mode")
    return errors


def _check_mode(mode: Any, path: str) -> list[FieldError]:
    if mode is None or 0 <= mode <= 0o777:
        return []
    return [FieldError(path, "Invalid", _MODE_TEXT, mode)]
