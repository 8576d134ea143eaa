"""ResourceClaims and PersistentVolumeClaims, validated in the API server's words, and defaults of devices. Pure.

`defaults` applies the defaults of resource.k8s.io/v1 and of EndpointSlices by the names of types; some of their lists
are absent or null where empty.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import islice

from app.kinds.fielderrors import Field, FieldError, supported
from app.kinds.name_syntax import (
    check_annotations,
    check_element_name,
    check_label_selector,
    check_labels,
    label_faults,
    subdomain_faults,
)
from app.kube.quantity import parse
from app.wire import JSON

_SOURCES = ("resourceClaimName", "resourceClaimTemplateName")
_NAMED = 256
"""Claims that a fault names."""
_MIRROR = "kubernetes.io/config.mirror"
BY_TYPE: dict[str, JSON] = {
    "ResourceClaim": {"spec": {}, "status": {}},
    "ResourceClaimSpec": {"devices": {}},
    "DeviceClaim": {"requests": None},
    "DeviceRequest": {"name": ""},
    "ExactDeviceRequest": {"deviceClassName": "", "allocationMode": "ExactCount"},
    "DeviceSubRequest": {"name": "", "deviceClassName": "", "allocationMode": "ExactCount"},
    "DeviceToleration": {"operator": "Equal"},
    "AllocationResult": {"devices": {}},
    "AllocatedDeviceStatus": {"driver": "", "pool": "", "device": "", "conditions": None},
    "ResourceClaimConsumerReference": {"resource": "", "name": "", "uid": ""},
    "Condition": {"message": ""},
    "ResourceClaimTemplate": {"spec": {}},
    "ResourceClaimTemplateSpec": {"metadata": {}, "spec": {}},
    "DeviceClass": {"spec": {}},
    "ResourceSlice": {"spec": {}},
    "ResourceSliceSpec": {"driver": "", "pool": {}},
    "CounterSet": {"name": ""},
    "DeviceCounterConsumption": {"counterSet": ""},
    "ResourcePool": {"name": "", "generation": 0, "resourceSliceCount": 0},
    "DeviceCapacity": {"value": "0"},
    "Counter": {"value": "0"},
    "EndpointSlice": {"addressType": "", "endpoints": None, "ports": None},
    "Endpoint": {"addresses": None, "conditions": {}},
    "EndpointPort": {"name": "", "protocol": "TCP"},
    "ForZone": {"name": ""},
    "ForNode": {"name": ""},
}
"""Fields that are filled in where they are missing; None is a list that is shown as null where it is empty."""
_MODES = ("ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod")
_ALONE = "ReadWriteOncePod"
_CLAIM = "PersistentVolumeClaim"
_SNAPSHOT = ("snapshot.storage.k8s.io", "VolumeSnapshot")
_STORAGE = "resources[storage]"
_DEFAULT_GROUP_TEXT = f"must be '{_CLAIM}' when referencing the default apiGroup"
_USED_METADATA = frozenset({"labels", "annotations"})


def check_pod_claims(pod: Field) -> None:
    """The claims of a Pod's spec: each has a name of its own, and one source, which need not exist."""
    seen: set[str] = set()
    for claim in pod.each("resourceClaims"):
        check_element_name(claim, seen)
        shown = {"Name": claim.text("name"), **{name[0].upper() + name[1:]: claim.value.get(name) for name in _SOURCES}}
        given = [name for name in _SOURCES if name in claim.value]
        if not given:
            text = "must specify one of: `resourceClaimName`, `resourceClaimTemplateName`"
            claim.fault("", "Invalid", text, shown)
        elif len(given) > 1:
            text = "at most one of `resourceClaimName` or `resourceClaimTemplateName` may be specified"
            claim.fault("", "Invalid", text, shown)
        for name in given:
            claim.syntax(name, subdomain_faults)


def mirror_faults(pod: JSON) -> list[FieldError]:
    """The fault of claims in a Pod that a node's own files define."""
    mirrors = _MIRROR in ((pod.get("metadata") or {}).get("annotations") or {})
    if not mirrors or not pod["spec"].get("resourceClaims"):
        return []
    return [FieldError("[]", "Forbidden", "static pods do not support resource claims")]  # without a path, as there


def claim_names(spec: JSON) -> dict[str, None]:
    """The names of a Pod's claims, in their order."""
    return dict.fromkeys(sorted({claim["name"] for claim in spec.get("resourceClaims") or [] if claim.get("name")}))


def check_container_claims(resources: Field, names: dict[str, None]) -> None:
    """The claims that one container uses: those `names` of its Pod, and no claim or request twice.

    A whole claim has all of its requests in it.
    """
    text = "must be one of the names in pod.spec.resourceClaims" + (
        f": {', '.join(islice(names, _NAMED))}{', …' if len(names) > _NAMED else ''}" if names else " which is empty"
    )
    whole: set[str] = set()
    parts: dict[str, set[str]] = {}
    for here, entry in resources.entries("claims"):
        name, request = entry.get("name") or "", entry.get("request") or ""
        if not name:
            resources.fault(here, "Required")
            continue
        if request and name not in whole:
            Field(entry, resources.at(here), resources.errors).syntax("request", label_faults)
        if name in whole or (not request and name in parts):
            resources.fault(here, "Duplicate", "", name)
        elif request in parts.get(name, ()):
            resources.fault(here, "Duplicate", "", f"{name}/{request}")
        if request:
            parts.setdefault(name, set()).add(request)
        else:
            whole.add(name)
        if name not in names:
            resources.fault(here, "NotFound", text, name)


def drop_empty(holder: JSON, *names: str) -> None:
    """Empty lists, maps and values of variables are absent, as everywhere in the API."""
    for name in names:
        if name in holder and not holder[name]:
            del holder[name]


def check_claim(whole: Field) -> None:
    """A claim that is to be created, in the form in which it will be stored."""
    stored = Field({**whole.below("spec").value}, "spec", whole.errors)
    prepare_claim(stored.value)
    check_claim_spec(stored)


def prepare_claim(spec: JSON) -> None:
    """Make the two data sources of a new claim one, as an API server does before it checks them.

    A source in another namespace is dropped (its feature is off), and so is a kind that `dataSource` cannot have.
    """
    if (spec.get("dataSourceRef") or {}).get("namespace"):
        del spec["dataSourceRef"]
    source, reference = spec.get("dataSource"), spec.get("dataSourceRef")
    if source is not None and reference is None:
        kind = (source.get("apiGroup") or "", source.get("kind") or "")
        if kind in (("", _CLAIM), _SNAPSHOT):
            spec["dataSourceRef"] = dict(source)
        else:
            del spec["dataSource"]
    elif reference is not None and source is None:
        spec["dataSource"] = {field: value for field, value in reference.items() if field != "namespace"}


def check_claim_template(template: Field) -> None:
    """The claim that an ephemeral volume makes: of its metadata, labels and annotations alone may be set."""
    metadata = template.below("metadata")
    metadata.errors += check_annotations(metadata.value.get("annotations") or {}, metadata.at("annotations"))
    metadata.errors += check_labels(metadata.value.get("labels"), metadata.at("labels"))
    for field, value in metadata.value.items():
        if field not in _USED_METADATA and value != "" and (field, value) != ("generation", 0):
            # The server writes the names of its own fields here.
            metadata.fault("uID" if field == "uid" else field, "Forbidden", "cannot be set")
    check_claim_spec(template.below("spec"))


def check_claim_spec(spec: Field) -> None:
    """What a claim asks for: how it is used, how large it is, and what it is made of."""
    modes = spec.value.get("accessModes") or []
    spec.required("accessModes", "at least 1 access mode is required")
    for mode in modes:
        spec.errors += supported(spec.at("accessModes"), mode, _MODES)
    if _ALONE in modes and any(mode in _MODES and mode != _ALONE for mode in modes):
        spec.fault("accessModes", "Forbidden", f"may not use {_ALONE} with other access modes")
    if "selector" in spec.value:
        spec.errors += check_label_selector(spec.value["selector"], spec.at("selector"))
    storage = (spec.below("resources").value.get("requests") or {}).get("storage")
    if storage is None:
        spec.fault(_STORAGE, "Required")
    elif parse(storage) <= 0:
        spec.fault(_STORAGE, "Invalid", "must be greater than zero", storage)
    for field in ("storageClassName", "volumeAttributesClassName"):
        spec.syntax(field, subdomain_faults, optional=True)
    spec.one_of("volumeMode", ("Block", "Filesystem"), optional=True)
    _check_sources(spec)


def _without_empty(*names: str) -> Callable[[JSON], None]:
    """An empty list or map of these fields is absent."""
    return lambda obj: drop_empty(obj, *names)


def _null_empty(*names: str) -> Callable[[JSON], None]:
    """An empty list of these fields is null."""

    def rewrite(obj: JSON) -> None:
        for name in names:
            obj[name] = obj[name] or None

    return rewrite


def _device_count(request: JSON) -> JSON:
    return {"count": 1} if request["allocationMode"] == "ExactCount" else {}


def _device_claim(devices: JSON) -> None:
    devices["requests"] = devices["requests"] or None
    drop_empty(devices, "constraints", "config")


def _device_request(request: JSON) -> None:
    """A count of 0 is one that is not given."""
    if request.get("count") == 0:
        del request["count"]
    request.update(_device_count(request) if "count" not in request else {})
    drop_empty(request, "selectors", "tolerations")


DERIVED: dict[str, Callable[[JSON], JSON]] = {"ExactDeviceRequest": _device_count, "DeviceSubRequest": _device_count}
"""Defaults that depend on other fields."""
REWRITTEN: dict[str, Callable[[JSON], None]] = {
    "ExactDeviceRequest": _device_request,
    "DeviceSubRequest": _device_request,
    "DeviceClaim": _device_claim,
    "DeviceClassSpec": _without_empty("selectors", "config"),
    "ResourceClaimStatus": _without_empty("reservedFor", "devices"),
    "DeviceAllocationResult": _without_empty("results", "config"),
    "PodStatus": _without_empty("resourceClaimStatuses"),
    "NetworkDeviceData": _without_empty("ips"),
    "Device": _without_empty("attributes", "capacity", "taints", "consumesCounters"),
    "AllocatedDeviceStatus": _null_empty("conditions"),
    "EndpointSlice": _null_empty("endpoints", "ports"),
    "Endpoint": _null_empty("addresses"),
}
"""Defaults that change a field that is there."""


def _check_sources(spec: Field) -> None:
    for source in spec.present("dataSource", "dataSourceRef"):
        source.required("name")
        source.required("kind")
        if not source.text("apiGroup") and source.text("kind") != _CLAIM:
            source.fault("", "Invalid", _DEFAULT_GROUP_TEXT, source.text("kind"))
        source.syntax("apiGroup", subdomain_faults, optional=True)
    reference = spec.below("dataSourceRef")
    reference.syntax("namespace", label_faults, optional=True)
    if not {"dataSource", "dataSourceRef"} <= spec.value.keys():
        return
    if reference.text("namespace"):
        spec.fault("", "Invalid", "may not be specified when dataSourceRef.namespace is specified", {})
    elif _identity(spec.below("dataSource").value) != _identity(reference.value):
        spec.fault("", "Invalid", "must match dataSourceRef", {})


def _identity(source: JSON) -> tuple[object, ...]:
    """An empty group is another than none: it is a pointer in Go."""
    return source.get("apiGroup"), source.get("kind") or "", source.get("name") or ""
