"""What the wing needs at an API server."""

from __future__ import annotations

from app.kube.resources import ENDPOINT_SLICES, NETWORK_ATTACHMENTS, RESOURCE_CLAIMS, RESOURCE_SLICES
from app.wiring import READ, Permission, Permissions

_WATCH = ("list", "watch")
PERMISSIONS: Permissions = {
    "network-services": (
        Permission("cluster", "", ("services", "pods", "nodes"), _WATCH),
        Permission("cluster", NETWORK_ATTACHMENTS.group, (NETWORK_ATTACHMENTS.plural,), _WATCH),
        Permission("cluster", RESOURCE_CLAIMS.group, (RESOURCE_CLAIMS.plural, RESOURCE_SLICES.plural), _WATCH),
        Permission("cluster", ENDPOINT_SLICES.group, (ENDPOINT_SLICES.plural,), (*READ, "create", "patch", "delete")),
    ),
}
