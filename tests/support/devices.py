"""Classes, slices, claims and Pods of dynamic resource allocation for tests of its stand-ins."""

from __future__ import annotations

from typing import Any

JSON = dict[str, Any]
DRIVER = "vf.example.com"
FOO = "example.com/foo"


def device_class(name: str = DRIVER, *, extended: str = "", **spec: Any) -> JSON:
    selectors = [{"cel": {"expression": f'device.driver == "{DRIVER}"'}}]
    named = {"extendedResourceName": extended} if extended else {}
    return {"metadata": {"name": name}, "spec": {"selectors": selectors, **named, **spec}}


def device(name: str, **attributes: str | int | bool) -> JSON:
    kinds = {str: "string", int: "int", bool: "bool"}
    return {"name": name, "attributes": {key: {kinds[type(value)]: value} for key, value in attributes.items()}}


def resource_slice(
    *devices: JSON, node: str = "a", pool: str = "", generation: int = 1, count: int = 1, name: str = "", **where: Any
) -> JSON:
    spec = {
        "driver": DRIVER,
        "pool": {"name": pool or node, "generation": generation, "resourceSliceCount": count},
        "devices": list(devices),
        **(where or {"nodeName": node}),
    }
    return {"metadata": {"name": name or f"{pool or node}-{generation}"}, "spec": spec}


def exactly(name: str = "r", *, of: str = DRIVER, selector: str = "", **fields: Any) -> JSON:
    selectors = {"selectors": [{"cel": {"expression": selector}}]} if selector else {}
    return {"name": name, "exactly": {"deviceClassName": of, **selectors, **fields}}


def claim_spec(*requests: JSON, **devices: Any) -> JSON:
    return {"devices": {"requests": list(requests), **devices}}


def node(name: str = "a", *, labels: JSON | None = None, **allocatable: str) -> JSON:
    amounts = {"cpu": "4", "pods": "10", **allocatable}
    return {
        "metadata": {"name": name, "labels": labels or {}},
        "spec": {},
        "status": {"allocatable": amounts, "conditions": [{"type": "Ready", "status": "True"}]},
    }


def container(name: str, amount: int = 0, **fields: Any) -> JSON:
    resources = {"limits": {FOO: str(amount)}, "requests": {FOO: str(amount)}} if amount else {}
    return {"name": name, "image": "busybox", "resources": resources, **fields}
