"""Requests of reviews for the tests of injectors: the creation of a Pod, and what is not one."""

from __future__ import annotations

import json
from typing import Any

import msgspec

from app.admission.review import GroupVersionKind, GroupVersionResource, Request, WholeRequest

POD_KIND = GroupVersionKind("", "v1", "Pod")
POD_RESOURCE = GroupVersionResource("", "v1", "pods")
OTHERS: tuple[dict[str, Any], ...] = (
    {"operation": "UPDATE"},
    {"operation": "DELETE", "object": msgspec.Raw(b"null")},
    {"operation": "CONNECT"},
    {"object": msgspec.Raw(b"null")},
    {"sub_resource": "ephemeralcontainers"},
    {"sub_resource": "binding"},
    {"kind": GroupVersionKind("apps", "v1", "Deployment")},
    {"kind": GroupVersionKind("example.com", "v1", "Pod")},
    {"kind": GroupVersionKind(), "resource": GroupVersionResource("", "v1", "services")},
)
"""Fields, each of which makes a request another than the creation of a Pod."""


def request_for(obj: Any, *, namespace: str = "default", **fields: Any) -> Request:
    """A CREATE review of a Pod, unless `fields` say otherwise."""
    defaults = {"uid": "1", "kind": POD_KIND, "resource": POD_RESOURCE, "namespace": namespace}
    return WholeRequest(**(defaults | {"object": msgspec.Raw(json.dumps(obj).encode())} | fields))
