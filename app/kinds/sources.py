"""Validation of where containers get data from, in the API server's words: volumes and variables. Pure."""

from __future__ import annotations

from app.kinds.fielderrors import Field, invalid
from app.kinds.name_syntax import check_element_name, inner_path_faults, key_faults, qualified_faults, subdomain_faults
from app.kube.quantity import parse

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
PULL_POLICIES = ("Always", "IfNotPresent", "Never")
_HOST_TYPES = ("", "BlockDevice", "CharDevice", "Directory", "DirectoryOrCreate", "File", "FileOrCreate", "Socket")
_SHORTEST_TOKEN = 600
_VARIABLE_TEXT = "a valid environment variable name must consist only of printable ASCII characters other than '='"
_ONE_TEXT = "may not have more than one field specified at a time"
_VOLUME_FIELDS = frozenset(f"metadata.{field}" for field in ("name", "namespace", "uid", "labels", "annotations"))
_ENV_FIELDS = frozenset(
    f"{holder}.{field}"
    for holder, fields in (
        ("metadata", ("name", "namespace", "uid")),
        ("spec", ("nodeName", "serviceAccountName")),
        ("status", ("hostIP", "hostIPs", "podIP", "podIPs")),
    )
    for field in fields
)
_RESOURCES = [f"{kind}.{name}" for kind in ("limits", "requests") for name in ("cpu", "ephemeral-storage", "memory")]


def check_volumes(pod: Field) -> None:
    """All volumes of a Pod; names are unique, and each has one source."""
    seen: set[str] = set()
    for volume in pod.each("volumes"):
        sources = [field for field in volume.value if field != "name"]
        if not sources:
            volume.fault("", "Required", "must specify a volume type")
        for extra in sources[1:]:
            volume.fault(extra, "Forbidden", "may not specify more than 1 volume type")
        if sources:
            _check_source(sources[0], volume.below(sources[0]))
        check_element_name(volume, seen)


def _check_source(kind: str, source: Field) -> None:
    for field in _REQUIRED.get(kind, ()):
        source.required(field)
    _check_mode(source, "defaultMode")
    match kind:
        case "hostPath":
            if ".." in source.text("path").split("/"):
                source.fault("path", "Invalid", "must not contain '..'")
            source.one_of("type", _HOST_TYPES, optional=True)
        case "emptyDir" if parse(source.value.get("sizeLimit", "0")) < 0:
            source.fault("sizeLimit", "Forbidden", "SizeLimit field must be a valid resource quantity")
        case "nfs" if not source.text("path").startswith("/"):
            source.fault("path", "Invalid", "must be an absolute path", source.text("path"))
        case "csi" if source.text("driver"):
            source.syntax("driver", lambda driver: subdomain_faults(driver.lower()))
        case "image" if source.text("pullPolicy"):
            source.one_of("pullPolicy", PULL_POLICIES)
        case "secret" | "configMap" | "downwardAPI" | "projected":
            _CONTENTS[kind](source)


def _check_projected(volume: Field) -> None:
    for source in volume.each("sources"):
        if len(source.value) > 1:
            source.fault("", "Forbidden", "may not specify more than 1 volume type per source")
        for files in source.present("secret", "configMap"):
            files.required("name")
            _check_items(files)
        _check_downward(source.below("downwardAPI"))
        for token in source.present("serviceAccountToken"):
            token.number("expirationSeconds", _SHORTEST_TOKEN, "may not specify a duration less than 10 minutes")
            if not token.text("path"):
                volume.fault("path", "Required")  # the server leaves the source out of this path
    _check_conflicts(volume)


def _check_conflicts(volume: Field) -> None:
    """Two sources must not write the same file."""
    written: set[str] = set()
    for source in volume.each("sources"):
        for holder in source.present("secret", "configMap", "downwardAPI"):
            for _, item in holder.entries("items"):
                file = item.get("path") or ""
                if file and file in written:
                    volume.fault("", "Invalid", "conflicting duplicate paths", holder.text("name"))
                written.add(file)


def _check_items(source: Field) -> None:
    """The files that a volume, or a source of a projected one, makes of keys."""
    for item in source.each("items"):
        item.required("key")
        item.named("path", inner_path_faults)
        _check_mode(item, "mode")


def _check_downward(source: Field) -> None:
    """The files of a downward API volume; the server leaves their index out of the paths."""
    for _, entry in source.entries("items"):
        item = Field(entry, source.path, source.errors)
        item.named("path", inner_path_faults)
        if "fieldRef" in entry:
            if "resourceFieldRef" in entry:
                text = "fieldRef and resourceFieldRef can not be specified simultaneously"
                item.fault("", "Invalid", text, "resource")
            _check_field_ref(item.below("fieldRef"), _VOLUME_FIELDS)
        elif "resourceFieldRef" in entry:
            if item.below("resourceFieldRef").required("containerName"):
                _check_resource_ref(item.below("resourceFieldRef"))
        else:
            item.fault("", "Required", "one of fieldRef and resourceFieldRef is required")
        _check_mode(item, "mode")


_CONTENTS = {
    "secret": _check_items,
    "configMap": _check_items,
    "downwardAPI": _check_downward,
    "projected": _check_projected,
}


def _check_mode(holder: Field, name: str) -> None:
    holder.number(name, 0, "must be a number between 0 and 0777 (octal), both inclusive", 0o777)


def check_environment(container: Field) -> None:
    """The variables of one container, single ones and those that come in bulk."""
    for variable in container.each("env"):
        variable.named("name", _variable_faults)
        for source in variable.present("valueFrom"):
            _check_value_source(source, valued=bool(variable.value.get("value")))
    for bulk in container.each("envFrom"):
        bulk.syntax("prefix", _variable_faults)
        sources = [kind for kind in ("configMapRef", "secretRef") if kind in bulk.value]
        if len(sources) != 1:
            # The server leaves the index out of this path.
            text = _ONE_TEXT if sources else "must specify one of: `configMapRef` or `secretRef`"
            container.fault("envFrom", "Invalid", text, "")
        for reference in bulk.present(*sources):
            reference.named("name", subdomain_faults)


def _variable_faults(name: str) -> list[str]:
    return [] if "=" not in name and name.isascii() and name.isprintable() else [_VARIABLE_TEXT]


def _check_value_source(source: Field, *, valued: bool) -> None:
    """Where the value of a variable comes from: one place, and instead of a value."""
    if valued:
        source.fault("", "Invalid", "may not be specified when `value` is not empty", "")
    if not source.value:
        text = "must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef`, `secretKeyRef` or `fileKeyRef`"
        source.fault("", "Invalid", text, "")
    elif len(source.value) > 1:
        source.fault("", "Invalid", _ONE_TEXT, "")
    if "fieldRef" in source.value:
        _check_field_ref(source.below("fieldRef"), _ENV_FIELDS)
    if "resourceFieldRef" in source.value:
        _check_resource_ref(source.below("resourceFieldRef"))
    for reference in source.present("configMapKeyRef", "secretKeyRef"):
        reference.syntax("name", subdomain_faults)
        reference.named("key", key_faults)


def _check_field_ref(reference: Field, known: frozenset[str]) -> None:
    field = reference.text("fieldPath")
    if not reference.required("fieldPath"):
        return
    head, bracket, rest = field.partition("[")
    if bracket and head in ("metadata.labels", "metadata.annotations") and rest.startswith("'") and rest.endswith("']"):
        key = rest[1:-2]
        reference.errors += invalid(reference.path, key, qualified_faults(key.lower()))
    elif field in _ENV_FIELDS | _VOLUME_FIELDS:
        reference.one_of("fieldPath", sorted(known))
    else:
        reference.fault("fieldPath", "Invalid", f"error converting fieldPath: field label not supported: {field}")


def _check_resource_ref(reference: Field) -> None:
    resource = reference.text("resource")
    if not reference.required("resource"):
        return
    if not resource.removeprefix("requests.").removeprefix("limits.").startswith("hugepages-"):
        reference.one_of("resource", _RESOURCES)
