"""Validation of ResourceSlices, in the API server's words; their devices are in `slicedevices`. Pure.

The rules are those of resource.k8s.io/v1 with the gates of Kubernetes 1.36, the metadata aside.
"""

from __future__ import annotations

from app.devtools.sandbox.kinds.devicenames import bounded, check_driver, check_pool
from app.devtools.sandbox.kinds.slicedevices import check_counter_sets, check_device
from app.kinds.fielderrors import Field, FieldError
from app.kinds.name_syntax import subdomain_faults
from app.kinds.scheduling import check_node_selector
from app.wire import JSON

_MOST_DEVICES = 128
_MOST_ADVANCED = 64
"""The limit where a device has taints or consumes counters."""
_MOST_SETS = 8
_LISTS = ("bools", "ints", "strings", "versions")
"""Attributes with lists of values need a gate that is off, and are dropped."""


def drop_disabled(resource_slice: JSON) -> None:
    """Remove the fields of a slice whose gates are off in Kubernetes 1.36."""
    for device in (resource_slice.get("spec") or {}).get("devices") or []:
        device.pop("nodeAllocatableResourceMappings", None)
        for attribute in (device.get("attributes") or {}).values():
            for name in _LISTS:
                attribute.pop(name, None)


def default_times(resource_slice: JSON, now: str) -> None:
    """Taints without a time get `now`."""
    for device in (resource_slice.get("spec") or {}).get("devices") or []:
        for taint in device.get("taints") or []:
            taint.setdefault("timeAdded", now)


def slice_warnings(resource_slice: JSON) -> list[str]:
    """What the writer of a slice should know."""
    driver = (resource_slice.get("spec") or {}).get("driver") or ""
    if driver == driver.lower():
        return []
    return [f'spec.driver: driver names should be lowercase; "{driver}" contains uppercase characters']


def check_slice(resource_slice: JSON, old: JSON | None) -> list[FieldError]:
    """All faults of a slice, among them changes of what identifies its pool and node."""
    spec = Field(resource_slice.get("spec") or {}, "spec")
    check_driver(spec, "driver")
    pool = spec.below("pool")
    check_pool(pool, "name")
    pool.number("resourceSliceCount", 1, "must be greater than zero", absent=0)
    pool.number("generation", 0, "must be greater than or equal to zero")
    if old is not None:
        _check_fixed(spec, Field(old.get("spec") or {}, "spec"))
    _check_placement(spec)
    if "sharedCounters" in spec.value and "devices" in spec.value:
        spec.fault("", "Invalid", "only one of `sharedCounters` or `devices` is allowed", "")
    _check_devices(spec)
    if bounded(spec, "sharedCounters", _MOST_SETS):
        check_counter_sets(spec, "sharedCounters", "name")
    return spec.errors


def _check_fixed(spec: Field, before: Field) -> None:
    for now, then, name in (
        (spec.below("pool"), before.below("pool"), "name"),
        (spec, before, "driver"),
        (spec, before, "nodeName"),
    ):
        if now.value.get(name) != then.value.get(name):
            now.fault(name, "Invalid", "field is immutable")


def _check_placement(spec: Field) -> None:
    """Which nodes have the devices: said in exactly one way."""
    given = check_nodes(spec, "must be either unset or set to a non-empty string")
    for selector in spec.present("nodeSelector"):
        terms = selector.value.get("nodeSelectorTerms") or []
        if len(terms) != 1:
            shown = [_printed(term) for term in terms]
            selector.fault("nodeSelectorTerms", "Invalid", "must have exactly one node selector term", shown)
    given += _flagged(spec, "perDeviceNodeSelection")
    text = "exactly one of `nodeName`, `nodeSelector`, `allNodes`, `perDeviceNodeSelection` is required"
    if not given:
        spec.fault("", "Required", text)
    elif len(given) > 1:
        spec.fault("", "Invalid", f"{text}, but multiple fields are set", f"{{{', '.join(given)}}}")


def _printed(term: JSON) -> JSON:
    """A term of a node selector as messages print it."""
    return {
        shown: [
            {"Key": one.get("key", ""), "Operator": one.get("operator", ""), "Values": one.get("values")}
            for one in term.get(name) or []
        ]
        or None
        for shown, name in (("MatchExpressions", "matchExpressions"), ("MatchFields", "matchFields"))
    }


def check_nodes(holder: Field, empty: str) -> list[str]:
    """Check `nodeName`, `nodeSelector` and `allNodes`; returns those that are set, in the form of messages.

    `empty` is the text for an empty node name.
    """
    given = []
    if holder.text("nodeName"):
        given.append("`nodeName`")
        holder.syntax("nodeName", subdomain_faults)
    elif "nodeName" in holder.value:
        holder.fault("nodeName", "Invalid", empty)
    for selector in holder.present("nodeSelector"):
        given.append("`nodeSelector`")
        check_node_selector(selector)
    return given + _flagged(holder, "allNodes")


def _flagged(holder: Field, name: str) -> list[str]:
    if holder.value.get(name):
        return [f"`{name}`"]
    if name in holder.value:
        holder.fault(name, "Invalid", "must be either unset or set to true")
    return []


def _check_devices(spec: Field) -> None:
    devices = spec.value.get("devices") or []
    advanced = any(device.get("taints") or device.get("consumesCounters") for device in devices)
    if not bounded(spec, "devices", _MOST_ADVANCED if advanced else _MOST_DEVICES, declared=False):
        return
    apart = bool(spec.value.get("perDeviceNodeSelection"))
    for device in spec.each("devices"):
        check_device(device)
        _check_device_nodes(device, apart=apart)
    seen: set[str] = set()
    for here, entry in spec.entries("devices"):
        spec.unique(here, entry.get("name") or "", seen)


def _check_device_nodes(device: Field, *, apart: bool) -> None:
    where = "`perDeviceNodeSelection` is set to true in the ResourceSlice spec"
    if not apart:
        if device.value.keys() & {"nodeName", "nodeSelector", "allNodes"}:
            text = f"`nodeName`, `nodeSelector` and `allNodes` can only be set if {where}"
            device.errors.append(FieldError(device.path, "Invalid", text, None))
        return
    given = check_nodes(device, "must not be empty")
    text = f"exactly one of `nodeName`, `nodeSelector`, or `allNodes` is required when {where}"
    if not given:
        device.fault("", "Required", text)
    elif len(given) > 1:
        device.fault("", "Invalid", text, f"{{{', '.join(given)}}}")
