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
    group, _, version = str(obj.get("apiVersion") or "").rpartition("/")
    read = _READ.get((group, str(obj.get("kind"))))
    convert = _CONVERSIONS.get((group, version, str(obj.get("kind"))))
    return {**convert(obj), "apiVersion": read} if read and convert else obj


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
            return [convert(item) if isinstance(item, dict) else item for item in value] if _is(value, list) else value
        below = value.get(path[0]) if _is(value, dict) else None
        return value if below is None else {**value, path[0]: converted(below, path[1:])}

    return converted


def _is(value: object, kind: type) -> bool:
    return isinstance(value, kind)


def _same(obj: JSON) -> JSON:
    return obj


_RESOURCES = (DEVICE_CLASSES, RESOURCE_SLICES, RESOURCE_CLAIMS, RESOURCE_CLAIM_TEMPLATES)
_READ = {(resource.group, resource.kind): resource.api_version for resource in _RESOURCES}
_CONVERSIONS: dict[tuple[str, str, str], Callable[[JSON], JSON]] = {
    **{(resource.group, "v1beta2", resource.kind): _same for resource in _RESOURCES},
    ("resource.k8s.io", "v1beta1", "DeviceClass"): _same,
    ("resource.k8s.io", "v1beta1", "ResourceSlice"): _each(_device, "spec", "devices"),
    ("resource.k8s.io", "v1beta1", "ResourceClaim"): _each(_request, "spec", "devices", "requests"),
    ("resource.k8s.io", "v1beta1", "ResourceClaimTemplate"): _each(_request, "spec", "spec", "devices", "requests"),
}
