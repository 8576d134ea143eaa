"""Validation of the variables of containers, in the API server's words. Pure.

So are the references to fields of the Pod and to amounts of its containers, which files of volumes have too.
"""

from __future__ import annotations

from collections.abc import Mapping

from app.kinds.fielderrors import Field, invalid
from app.kinds.name_syntax import key_faults, label_faults, qualified_faults, subdomain_faults
from app.kube.quantity import parse
from app.wire import JSON

_VARIABLE_TEXT = "a valid environment variable name must consist only of printable ASCII characters other than '='"
_ONE_TEXT = "may not have more than one field specified at a time"
_VARIABLE_FIELDS = frozenset(
    f"{holder}.{field}"
    for holder, fields in (
        ("metadata", ("name", "namespace", "uid")),
        ("spec", ("nodeName", "serviceAccountName")),
        ("status", ("hostIP", "hostIPs", "podIP", "podIPs")),
    )
    for field in fields
)
_LABELLED = ("metadata.annotations", "metadata.labels")
"""Fields of which one entry may be named."""
_FIELDS = _VARIABLE_FIELDS | {*_LABELLED, "spec.restartPolicy", "spec.schedulerName", "status.phase"}
"""Fields that exist. Each use has some of them."""
_OLD_FIELDS = {"spec.host": "spec.nodeName"}
_RESOURCES = [f"{kind}.{name}" for kind in ("limits", "requests") for name in ("cpu", "ephemeral-storage", "memory")]
_HUGEPAGES = ("limits.hugepages-", "requests.hugepages-")
_SIZES = ("1", *(f"1{prefix}" for prefix in "kMGTPE"), *(f"1{prefix}i" for prefix in "KMGTPE"))
_DIVISORS = {"cpu": (("1m", "1"), "cpu"), "memory": (_SIZES, "memory")}
_DIVISORS |= {"ephemeral-storage": (_SIZES, "local ephemeral storage"), "hugepages": (_SIZES, "hugepages")}
"""By resource: what an amount may be divided by, and what the server calls the resource."""


def check_environment(container: Field, volumes: Mapping[str | None, JSON]) -> None:
    """The variables of one container, single ones and those that come in bulk; `volumes` are the Pod's, by name."""
    for variable in container.each("env"):
        variable.named("name", _variable_faults)
        for source in variable.present("valueFrom"):
            _check_value_source(source, valued=bool(variable.value.get("value")))
            for reference in source.present("fileKeyRef"):
                _check_file(reference, volumes)
    for bulk in container.each("envFrom"):
        bulk.syntax("prefix", _variable_faults)
        sources = [kind for kind in ("configMapRef", "secretRef") if kind in bulk.value]
        if len(sources) != 1:
            # The server leaves the index out of this path.
            text = _ONE_TEXT if sources else "must specify one of: `configMapRef` or `secretRef`"
            container.fault("envFrom", "Invalid", text, "")
        for reference in bulk.present(*sources):
            reference.named("name", _prefix_faults)


def _variable_faults(name: str) -> list[str]:
    return [] if "=" not in name and name.isascii() and name.isprintable() else [_VARIABLE_TEXT]


def _prefix_faults(name: str) -> list[str]:
    """The server takes these names for the beginnings of names: they may end with a hyphen."""
    return subdomain_faults(f"{name[:-1]}a" if len(name) > 1 and name.endswith("-") else name)


def _check_value_source(source: Field, *, valued: bool) -> None:
    """Where the value of a variable comes from: one place, and instead of a value."""
    if valued:
        source.fault("", "Invalid", "may not be specified when `value` is not empty", "")
    if not source.value:
        text = "must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef`, `secretKeyRef` or `fileKeyRef`"
        source.fault("", "Invalid", text, "")
    elif len(source.value) > 1:
        source.fault("", "Invalid", _ONE_TEXT, "")
    for reference in source.present("fieldRef"):
        check_field_ref(reference, _VARIABLE_FIELDS)
    for reference in source.present("resourceFieldRef"):
        check_resource_ref(reference)
    for reference in source.present("configMapKeyRef", "secretKeyRef"):
        reference.syntax("name", subdomain_faults)
        reference.named("key", key_faults)


def _check_file(reference: Field, volumes: Mapping[str | None, JSON]) -> None:
    """A key of a file that another container writes into an empty directory."""
    reference.named("key", _variable_faults)
    reference.named("volumeName", label_faults)
    if reference.required("path") and ".." in reference.text("path").split("/"):
        reference.fault("path", "Invalid", "must not contain '..'")
    volume = volumes.get(reference.text("volumeName"))
    if volume is None:
        reference.fault("volumeName", "NotFound", "", reference.text("volumeName"))
    elif "emptyDir" not in volume:
        reference.fault("volumeName", "Invalid", "referenced volume must be of type emptyDir")


def check_field_ref(reference: Field, shown: frozenset[str]) -> None:
    """A field of the Pod, of those that can be `shown` here, or one of its labels or annotations."""
    written, version = reference.text("fieldPath"), reference.text("apiVersion")
    if not reference.required("apiVersion") or not reference.required("fieldPath"):
        return
    field = _OLD_FIELDS.get(written, written)
    head, bracket, rest = field.removesuffix("']").partition("['")
    if version != "v1":
        text = f"error converting fieldPath: unsupported pod version: {version}"
        reference.fault("fieldPath", "Invalid", text)
    elif field.endswith("']") and bracket and head:
        if head not in _LABELLED:
            text = f"error converting fieldPath: field label does not support subscript: {field}"
            reference.fault("fieldPath", "Invalid", text)
        else:
            key = rest.lower() if head == "metadata.annotations" else rest
            reference.errors += invalid(reference.path, key, qualified_faults(key))
    elif field not in _FIELDS:
        reference.fault("fieldPath", "Invalid", f"error converting fieldPath: field label not supported: {field}")
    elif field not in shown:
        Field({"fieldPath": field}, reference.path, reference.errors).one_of("fieldPath", sorted(shown))


def check_resource_ref(reference: Field, *, of_file: bool = False) -> None:
    """An amount of a container, which a file has to name; and what it is divided by."""
    resource = reference.text("resource")
    if of_file and not reference.text("containerName"):
        reference.fault("containerName", "Required")
    elif reference.required("resource") and not resource.startswith(_HUGEPAGES):
        reference.one_of("resource", _RESOURCES)
    divisor = reference.value.get("divisor", "0")
    kind = "hugepages" if resource.startswith(_HUGEPAGES) else resource.partition(".")[2]
    divisors, name = _DIVISORS.get(kind, ((), ""))
    if parse(divisor) and (kind == "hugepages" or resource in _RESOURCES) and divisor not in divisors:
        text = f"only divisor's values {_listed(divisors)} are supported with the {name} resource"
        reference.fault("divisor", "Invalid", text, resource)


def _listed(divisors: tuple[str, ...]) -> str:
    return " and ".join(divisors) if len(divisors) == 2 else ", ".join(divisors)
