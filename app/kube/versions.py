"""Objects in the older versions that API servers serve, as they convert them into those that Berth reads. Pure.

What comes from an API server has the version that was asked for; manifests have any. In `resource.k8s.io` a request and
a device have their fields one level higher, or lower, in v1beta1 than in v1beta2 and v1.
Source: `pkg/apis/resource/v1beta1/conversion.go` of Kubernetes 1.37.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from app.kube.resources import (
    DEVICE_CLASSES,
    RESOURCE_CLAIM_TEMPLATES,
    RESOURCE_CLAIMS,
    RESOURCE_SLICES,
    Resource,
)
from app.wire import JSON

_EXACTLY = frozenset(
    {
        "deviceClassName",
        "selectors",
        "allocationMode",
        "count",
        "adminAccess",
        "tolerations",
        "capacity",
        "derivedAttributes",
    }
)
"""The fields of a request in v1beta1 that are under `exactly` in later versions."""


def as_read(obj: JSON) -> JSON:
    """The object in the version that Berth reads; itself where that is its version, or it is of another kind.

    What has another type than the API says stays as it is, for who judges the object.
    """
    found = _CONVERSIONS.get((str(obj.get("apiVersion")), str(obj.get("kind"))))
    if found is None:
        return obj
    resource, convert = found
    return {**convert(obj), "apiVersion": resource.api_version}


def _request(request: JSON) -> JSON:
    exactly = {field: value for field, value in request.items() if field in _EXACTLY}
    rest = {field: value for field, value in request.items() if field not in _EXACTLY}
    return {**rest, "exactly": exactly} if exactly else request


def _device(device: JSON) -> JSON:
    basic = device.get("basic")
    rest = {field: value for field, value in device.items() if field != "basic"}
    return {**rest, **basic} if isinstance(basic, dict) else device


def _each(convert: Callable[[JSON], JSON], *path: str) -> Callable[[Any], Any]:
    """Converts each object of the list at this path."""

    def converted(value: Any, path: tuple[str, ...] = path) -> Any:
        if not path:
            items = value if isinstance(value, list) else ()
            return [convert(item) if isinstance(item, dict) else item for item in items] if items else value
        below = value.get(path[0]) if isinstance(value, dict) else None
        return value if below is None else {**value, path[0]: converted(below, path[1:])}

    return converted


def _same(obj: JSON) -> JSON:
    return obj


_OLDEST: dict[Resource, Callable[[JSON], JSON]] = {
    DEVICE_CLASSES: _same,
    RESOURCE_SLICES: _each(_device, "spec", "devices"),
    RESOURCE_CLAIMS: _each(_request, "spec", "devices", "requests"),
    RESOURCE_CLAIM_TEMPLATES: _each(_request, "spec", "spec", "devices", "requests"),
}
_CONVERSIONS = {
    (f"{resource.group}/{version}", resource.kind): (resource, convert)
    for resource, oldest in _OLDEST.items()
    for version, convert in (("v1beta1", oldest), ("v1beta2", _same))
}
"""By apiVersion and kind: the kind that Berth reads, and what makes it of the older version."""
